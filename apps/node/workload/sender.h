/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepared packets for an lcore that only sends (workload tx). Every buffer of a pool is written once, before the trial, with
 * one frame. A packet then costs what it costs any sender: a buffer from the pool, its mbuf set up, a descriptor. There is one
 * pool per frame size, so that buffers of any size can be taken in any order.
 */
#ifndef SENDER_H
#define SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>

#include "accounting.h"
#include "frame_sizes.h"
#include "node_error.h"

#define SENDER_ORDER 4096 /* a power of two: sizes in a random order in which each has its share */

struct sender {
	unsigned int sizes;
	bool owns;      /* its pools */
	uint16_t kept;  /* in `keep`: refused by the TX queue */
	uint32_t place; /* of the next packet's size in `order` */
	struct rte_mempool *pools[FRAME_SIZES_MAX];
	uint32_t bytes[FRAME_SIZES_MAX]; /* of the mbuf: without FCS */
	struct rte_mbuf *keep[ACCOUNT_BURST_MAX];
	uint8_t order[SENDER_ORDER];
};

struct sender_spec {
	struct frame_sizes sizes;
	uint32_t flows;
	uint32_t routes;
	uint16_t tx_port;
	unsigned int lcore;
	unsigned int shared_by;     /* number of senders that take from its pools */
	const struct sender *owner; /* owner of its pools; NULL: itself */
};

/*
 * Return a sender for an lcore, with pools on its port's socket; NULL with err. The owner of its pools may be freed before or
 * after it.
 */
struct sender *sender_new(const struct sender_spec *spec, struct node_error *err);

/* Free the kept packets and the pools. NULL is allowed. */
void sender_free(struct sender *sender);

static __rte_always_inline struct rte_mbuf *sender_make_one(struct sender *s)
{
	const unsigned int size = s->order[s->place++ % SENDER_ORDER];
	struct rte_mbuf *packet = rte_pktmbuf_alloc(s->pools[size]);

	if (likely(packet != NULL))
		packet->pkt_len = packet->data_len = (uint16_t)s->bytes[size];
	return packet;
}

static __rte_always_inline uint16_t sender_make_alike(struct sender *s, struct rte_mbuf **packets, uint16_t n)
{
	if (unlikely(rte_pktmbuf_alloc_bulk(s->pools[0], packets, n) < 0))
		return 0;
	for (uint16_t i = 0; i < n; i++)
		packets[i]->pkt_len = packets[i]->data_len = (uint16_t)s->bytes[0];
	return n;
}

/* Return packets to be sent: kept ones and new ones, n together; fewer if no buffer is free. */
static __rte_always_inline uint16_t sender_make(struct sender *s, struct rte_mbuf **packets, uint16_t n)
{
	uint16_t made = s->kept;

	if (unlikely(made))
		memcpy(packets, s->keep, made * sizeof(*packets));
	s->kept = 0;
	if (likely(s->sizes == 1))
		return made + sender_make_alike(s, packets + made, n - made);
	while (made < n && (packets[made] = sender_make_one(s)) != NULL)
		made++;
	return made;
}

/* Keep packets for the next sender_make(). */
static inline void sender_keep(struct sender *s, struct rte_mbuf **packets, uint16_t n)
{
	memcpy(s->keep, packets, n * sizeof(*packets));
	s->kept = n;
}

#endif
