/* SPDX-License-Identifier: BSD-3-Clause */
#include "sender.h"

#include <stdlib.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "packets.h"
#include "ports/pools.h"
#include "ports/ports.h"
#include "rng.h"
#include "routes.h"
#include "workload.h"

/*
 * A ring without lcore caches: buffers are taken in the order in which they came back, so all of them, and so all flows, are
 * used. A cache would send the same few forever. One lcore takes, any lcore frees.
 */
#define POOL_OPS "ring_mp_sc"
/* A pool that several lcores take from has one cache per lcore, as in applications; otherwise they would contend for its ring. */
#define SHARED_OPS     "ring_mp_mc"
#define SHARED_CACHE   256
#define POOL_SPARE     ACCOUNT_BURST_MAX /* in the burst being made */
#define SOURCE_NETWORK 0xac100000u       /* 172.16.0.0/12, as in the generator */
#define SEED           1

/* The content of the buffers of one pool. */
struct preparation {
	const struct sender_spec *spec;
	struct packet_template template;
	uint32_t room;
};

static void prepare_buffer(struct rte_mempool *pool, void *argument, void *object, unsigned int index)
{
	const struct preparation *preparation = argument;
	const uint32_t number = index % preparation->spec->flows;
	const struct packet_stamp stamp = {.flow = number};
	struct rte_mbuf *packet = object;
	uint8_t *frame = (uint8_t *)packet->buf_addr + RTE_PKTMBUF_HEADROOM;
	struct packet_flow flow;
	struct rng rng;

	RTE_SET_USED(pool);
	rng_seed(&rng, number);
	const uint32_t destination =
	        route_address((uint32_t)rng_below(&rng, preparation->spec->routes), (uint8_t)rng_next(&rng));

	packet_flow_init(&flow, (uint16_t)number, SOURCE_NETWORK | number, destination,
	                 (uint16_t)rng_next(&rng));
	memset(frame, 0, preparation->room);
	packet_write(packet, frame, &preparation->template, &flow, &stamp);
}

static uint32_t pool_cache(const struct sender_spec *spec)
{
	return spec->shared_by > 1 ? SHARED_CACHE : 0;
}

static uint32_t pool_mbufs(const struct sender_spec *spec)
{
	uint32_t mbufs = ports_tx_descriptors(spec->tx_port) +
	                 (POOL_SPARE + 2 * pool_cache(spec)) * spec->shared_by; /* a cache overflows at 1.5 */

	if (ports_buffers_change_hands(spec->tx_port))
		mbufs += ports_rx_descriptors();
	return RTE_MAX(mbufs, spec->flows);
}

static struct rte_mempool *new_pool(const struct sender_spec *spec, uint32_t frame_bytes,
                                    struct node_error *err)
{
	static unsigned int generation; /* the earlier pool may still hold its name */
	struct preparation preparation = {.spec = spec, .room = RTE_MAX(frame_bytes, 2048u)};
	const uint32_t mbufs = pool_mbufs(spec);
	char name[RTE_MEMPOOL_NAMESIZE];
	struct rte_ether_hdr ethernet;

	if (workload_next_hop(spec->tx_port, RTE_ETHER_TYPE_IPV4, &ethernet, err) < 0)
		return NULL;
	snprintf(name, sizeof(name), "tx.%u", generation++);
	struct rte_mempool *pool = rte_pktmbuf_pool_create_by_ops(
	        name, mbufs, pool_cache(spec), 0, (uint16_t)(preparation.room + RTE_PKTMBUF_HEADROOM),
	        rte_eth_dev_socket_id(spec->tx_port), spec->shared_by > 1 ? SHARED_OPS : POOL_OPS);

	if (!pool) {
		node_fail(err, "dut.frame", "no memory for %u buffers of %u bytes: %s", mbufs,
		          preparation.room, rte_strerror(rte_errno));
		return NULL;
	}
	packet_template_init(&preparation.template, frame_bytes, &ethernet.src_addr, &ethernet.dst_addr, 0);
	rte_mempool_obj_iter(pool, prepare_buffer, &preparation);
	return pool;
}

struct sender *sender_new(const struct sender_spec *spec, struct node_error *err)
{
	struct sender *s = rte_zmalloc_socket("sender", sizeof(*s), RTE_CACHE_LINE_SIZE,
	                                      (int)rte_lcore_to_socket_id(spec->lcore));
	struct rng rng;

	if (!s) {
		node_fail(err, "dut", "out of memory");
		return NULL;
	}
	rng_seed(&rng, SEED + spec->lcore);
	frame_sizes_deal(&spec->sizes, &rng, s->order, SENDER_ORDER);
	s->owns = !spec->owner;
	for (; s->sizes < spec->sizes.count; s->sizes++) {
		s->bytes[s->sizes] = spec->sizes.sizes[s->sizes].bytes - PACKET_FCS_BYTES;
		s->pools[s->sizes] = spec->owner ? spec->owner->pools[s->sizes]
		                                 : new_pool(spec, spec->sizes.sizes[s->sizes].bytes, err);
		if (!s->pools[s->sizes]) {
			sender_free(s);
			return NULL;
		}
	}
	return s;
}

void sender_free(struct sender *s)
{
	if (!s)
		return;
	rte_pktmbuf_free_bulk(s->keep, s->kept);
	for (unsigned int i = 0; s->owns && i < s->sizes; i++)
		pool_retire(s->pools[i]);
	rte_free(s);
}
