/* SPDX-License-Identifier: BSD-3-Clause */
/* Turn a filled descriptor into an mbuf. Inlined into the receive functions. */
#ifndef CROSSOVER_RECEIVE_H
#define CROSSOVER_RECEIVE_H

#include <rte_branch_prediction.h>

#include "crossover_port.h"

static inline struct rte_mbuf *posted_mbuf(const struct crossover_rx_desc *desc)
{
	return (struct rte_mbuf *)(uintptr_t)desc->buffer;
}

/*
 * Posts buffers in descriptors side by side, and clears their DD. Plain stores: the compiler writes a line of descriptors at once where the processor
 * can. The sender's core holds these lines, stores leave a core's store buffer in order, and it has no room for two stores per descriptor
 * beside the stores that follow.
 */
static __rte_always_inline void post_side_by_side(struct crossover_rx_desc *desc, void *const *buffers,
                                                  uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		desc[i].buffer = (uintptr_t)buffers[i];
		desc[i].writeback = 0;
	}
}

static inline uint64_t read_writeback(const struct crossover_rx_desc *desc)
{
	return __atomic_load_n(&desc->writeback, __ATOMIC_ACQUIRE);
}

/* Translates bits of the write-back word to RTE_MBUF_F_RX_* without a branch. */
static inline void fill_header(struct rte_mbuf *m, uint64_t writeback)
{
	uint16_t length = (uint16_t)writeback;

	m->ol_flags = (writeback & WIRE_HASH) ? RTE_MBUF_F_RX_RSS_HASH : 0;
	m->packet_type = 0;
	m->pkt_len = length;
	m->data_len = length;
	m->vlan_tci = 0;
	m->hash.rss = (uint32_t)(writeback >> WIRE_HASH_SHIFT);
}

static __rte_always_inline void fill_description(const struct crossover_port *port, struct rte_mbuf *m,
                                                 uint64_t writeback)
{
	uint32_t type = (uint32_t)writeback >> WIRE_TYPE_SHIFT;

	m->packet_type = type & port->types;
	m->ol_flags |= (writeback & WIRE_L4_GOOD) ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : 0;
	if ((type & RTE_PTYPE_L3_IPV4) && (port->checks & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM))
		m->ol_flags |= RTE_MBUF_F_RX_IP_CKSUM_GOOD;
}

/* data_off, refcnt, nb_segs and port are adjacent and written by one store, as vector drivers do. */
static inline void rearm(struct rte_mbuf *m, uint64_t word)
{
	uint64_t *at = (uint64_t *)(uintptr_t)&m->rearm_data;

	*at = word;
}

/* With dma=swap the sender left a whole mbuf with its own data_off; only the fields that the receiver owns are set. */
static __rte_always_inline void take_mbuf(const struct crossover_rx_queue *rxq, struct rte_mbuf *m,
                                          uint64_t writeback, const bool described)
{
	if (rxq->swap)
		m->port = rxq->port_id;
	else
		rearm(m, rxq->rearm);
	fill_header(m, writeback);
	if (described)
		fill_description(rxq->port, m, writeback);
}

#endif
