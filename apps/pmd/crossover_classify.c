/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_branch_prediction.h>
#include <rte_prefetch.h>

#include "crossover_classify.h"
#include "crossover_describe.h"
#include "crossover_buffer_pool.h"

static bool contains(const uint64_t *list, unsigned int size, uint64_t number)
{
	for (unsigned int i = 0; i < size; i++)
		if (__atomic_load_n(&list[i], __ATOMIC_RELAXED) == number)
			return true;
	return false;
}

static bool mac_accepted(const struct crossover_port *port, const struct rte_ether_addr *mac)
{
	uint64_t number = crossover_mac_number(mac);

	if (!rte_is_multicast_ether_addr(mac))
		return contains(port->unicast, CROSSOVER_MAX_MACS, number);
	return port->allmulticast || rte_is_broadcast_ether_addr(mac) ||
	       contains(port->multicast, CROSSOVER_MAX_MULTICAST, number);
}

static uint16_t hash_to_queue(const struct crossover_port *port, const uint8_t *frame, uint32_t length,
                              uint64_t *tag)
{
	const struct crossover_hash *hash =
	        &port->hash[__atomic_load_n(&port->active_hash, __ATOMIC_ACQUIRE)];
	uint32_t value;

	if (!crossover_hash_frame(hash, frame, length, &value))
		return 0;
	if (port->report_hash)
		*tag |= CROSSOVER_WB_HASH | (uint64_t)value << CROSSOVER_WB_HASH_SHIFT;
	return port->reta[value & port->reta_mask];
}

static uint16_t classify_frame(const struct crossover_port *port, const struct rte_mbuf *m, uint64_t *tag)
{
	uint8_t copy[CROSSOVER_RSS_LOOK_BYTES];
	uint32_t length = RTE_MIN(m->pkt_len, (uint32_t)CROSSOVER_RSS_LOOK_BYTES);
	const uint8_t *frame = rte_pktmbuf_read(m, 0, length, copy);

	*tag = 0;
	if (unlikely(length < RTE_ETHER_HDR_LEN))
		return 0; /* a runt: the DMA step refuses it */
	if (!port->promiscuous && !mac_accepted(port, (const struct rte_ether_addr *)frame))
		return CROSSOVER_FILTERED;
	if (port->described)
		*tag = crossover_describe(port, m);
	return port->hashing ? hash_to_queue(port, frame, length, tag) : 0;
}

void crossover_classify(const struct crossover_port *port, struct rte_mbuf *const *pkts, uint32_t count,
                        struct crossover_verdicts *verdicts)
{
	for (uint32_t i = 0; i < count; i++) {
		uint16_t queue = classify_frame(port, pkts[i], &verdicts->tag[i]);

		verdicts->queue[i] = queue;
		if (likely(queue != CROSSOVER_FILTERED && port->rx_queues[queue] != NULL))
			rte_prefetch0(&port->rx_queues[queue]->ring.nic);
	}
}

/* A counting sort, without a branch that depends on the queues; what is filtered goes last. */
static void group(const struct crossover_verdicts *found, struct rte_mbuf *const *pkts, uint32_t count,
                  struct crossover_verdicts *verdicts, struct rte_mbuf **grouped)
{
	uint8_t group[CROSSOVER_CHUNK], next[CROSSOVER_GROUPED_QUEUES + 2] = {0};

	for (uint32_t i = 0; i < count; i++) {
		group[i] = (uint8_t)RTE_MIN(found->queue[i], CROSSOVER_GROUPED_QUEUES);
		next[group[i] + 1]++;
	}
	for (uint32_t g = 1; g <= CROSSOVER_GROUPED_QUEUES; g++)
		next[g] += next[g - 1];
	for (uint32_t i = 0; i < count; i++) {
		uint32_t to = next[group[i]]++;

		grouped[to] = pkts[i];
		verdicts->queue[to] = found->queue[i];
		verdicts->tag[to] = found->tag[i];
	}
}

struct rte_mbuf *const *crossover_group(const struct crossover_port *port,
                                        struct crossover_verdicts *verdicts, struct rte_mbuf *const *pkts,
                                        uint32_t count, struct rte_mbuf **grouped)
{
	struct crossover_verdicts found;

	if (port->nb_rx_queues > CROSSOVER_GROUPED_QUEUES || crossover_is_one_run(verdicts->queue, count))
		return pkts;
	found = *verdicts;
	group(&found, pkts, count, verdicts, grouped);
	return grouped;
}

static enum crossover_gate open_gate(const struct crossover_port *port)
{
	if (port->pair->options.feed == CROSSOVER_FEED_INFINITE)
		return CROSSOVER_GATE_VOID;
	if (crossover_has_buffer_pool(port))
		return CROSSOVER_GATE_BUFFER_POOL;
	if (port->promiscuous && !port->hashing && !port->described)
		return port->notifies ? CROSSOVER_GATE_NOTIFY_DIRECT : CROSSOVER_GATE_DIRECT;
	return port->notifies ? CROSSOVER_GATE_NOTIFY : CROSSOVER_GATE_CLASSIFY;
}

void crossover_gate_update(struct crossover_port *port, bool carrier)
{
	port->described = port->types != 0 || port->checks != 0;
	port->hashing = port->rss_on && (port->nb_rx_queues > 1 || port->report_hash);
	__atomic_store_n(&port->gate, carrier ? open_gate(port) : CROSSOVER_GATE_DOWN, __ATOMIC_RELEASE);
}
