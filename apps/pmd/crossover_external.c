/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's side of wire.h, feed=external. Receiving is the same as on any wire: the agent fills the descriptors instead of a sender. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_memzone.h>

#include "crossover.h"

#define BUFFER_ALIGN 16

_Static_assert(WIRE_RINGS_MAX == CROSSOVER_MAX_QUEUES && WIRE_RETA_MAX == CROSSOVER_RETA_SIZE_MAX &&
                       WIRE_KEY_BYTES == CROSSOVER_RSS_KEY_BYTES,
               "an agent has room for what the port has");
_Static_assert(WIRE_TYPE_IPV4_UDP == (RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_UDP),
               "types are DPDK's");
_Static_assert(sizeof(struct wire_ring) == 2 * WIRE_LINE_BYTES, "one line per writer");

static int zone_name(char name[RTE_MEMZONE_NAMESIZE], const char *port_name)
{
	if (snprintf(name, RTE_MEMZONE_NAMESIZE, WIRE_MEMZONE, port_name) < RTE_MEMZONE_NAMESIZE)
		return 0;
	return CROSSOVER_REFUSE(
	        -EINVAL, "port name '%s' is too long for a memzone '" WIRE_MEMZONE "' (at most %d bytes)",
	        port_name, port_name, RTE_MEMZONE_NAMESIZE - 1);
}

int crossover_external_init(struct crossover_port *port, const char *port_name)
{
	char name[RTE_MEMZONE_NAMESIZE];
	const struct rte_memzone *zone;

	if (port->pair->options.feed != CROSSOVER_FEED_EXTERNAL)
		return 0;
	if (zone_name(name, port_name) != 0)
		return -EINVAL;
	zone = rte_memzone_reserve(name, sizeof(*port->wire), port->pair->socket_id, 0);
	if (zone == NULL)
		return CROSSOVER_REFUSE(-ENOMEM, "no memzone '%s' of %zu bytes: %s", name,
		                        sizeof(*port->wire), rte_strerror(rte_errno));
	port->wire_zone = zone;
	port->wire = zone->addr;
	memset(port->wire, 0, sizeof(*port->wire));
	port->wire->abi = WIRE_ABI;
	return 0;
}

void crossover_external_release(struct crossover_port *port)
{
	if (port->wire != NULL)
		rte_memzone_free(port->wire_zone);
	port->wire = NULL;
}

int crossover_external_check_size(const struct crossover_port *port, const char *kind, uint16_t queue_id,
                                  uint32_t size)
{
	if (port->wire == NULL || rte_is_power_of_2(size))
		return 0;
	return CROSSOVER_REFUSE(-EINVAL,
	                        "port %u: %s queue %u: %u descriptors; feed=external needs a power of two",
	                        port->port_id, kind, queue_id, size);
}

/* Returns how much of UDP in IPv4 is hashed, as crossover_hash_frame() does it. */
static uint8_t hash_bytes(const struct crossover_port *port)
{
	uint64_t types = port->hash[port->active_hash].types;

	if (!port->hashing)
		return 0;
	return types & RTE_ETH_RSS_NONFRAG_IPV4_UDP ? 12 : types & RTE_ETH_RSS_IPV4 ? 8 : 0;
}

void crossover_external_publish(struct crossover_port *port, bool carrier)
{
	struct wire_port *wire = port->wire;
	const uint32_t changing =
	        (wire->configuration + 1) | 1; /* odd also after a process that died in here */

	__atomic_store_n(&wire->configuration, changing, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	wire->rx_rings = port->nb_rx_queues;
	wire->tx_rings = port->nb_tx_queues;
	wire->frame_bytes_max = port->max_frame_bytes;
	for (unsigned int i = 0; i < WIRE_MAC_BYTES; i++)
		wire->mac[i] = (uint8_t)(port->unicast[0] >> (8 * i));
	wire->hash_bytes = hash_bytes(port);
	wire->hash_wanted = port->report_hash != 0;
	memcpy(wire->rss_key, port->hash[port->active_hash].key, sizeof(wire->rss_key));
	wire->reta_mask = port->reta_mask;
	memcpy(wire->reta, port->reta, sizeof(wire->reta));
	__atomic_store_n(&wire->running, carrier, __ATOMIC_RELAXED);
	__atomic_store_n(&wire->configuration, changing + 1, __ATOMIC_RELEASE);
}

static void open_ring(struct crossover_port *port, struct wire_ring *ring)
{
	do {
		port->wire->epoch++;
	} while (port->wire->epoch == 0);
	__atomic_store_n(&ring->epoch, port->wire->epoch, __ATOMIC_RELEASE);
}

int crossover_external_check(const struct crossover_rx_queue *rxq)
{
	if (rxq->data_offset == 0 || rxq->data_offset % BUFFER_ALIGN != 0 ||
	    rxq->buffer_bytes % BUFFER_ALIGN != 0)
		return CROSSOVER_REFUSE(
		        -EINVAL,
		        "port %u: RX queue %u: feed=external needs mbufs with data inside, at a multiple "
		        "of %u bytes and of such a size (mempool '%s' has others)",
		        rxq->port_id, rxq->queue_id, BUFFER_ALIGN, rxq->pool->name);
	return 0;
}

void crossover_external_open_rx(struct crossover_rx_queue *rxq)
{
	struct wire_ring *ring = rxq->wire;

	ring->descriptors = (uintptr_t)rxq->desc;
	ring->tail = (uintptr_t)&rxq->ring.doorbell.tail;
	ring->size = rxq->size;
	ring->head = 0;
	ring->buffer_offset = rxq->data_offset;
	ring->buffer_bytes = rxq->buffer_bytes;
	open_ring(rxq->port, ring);
}

void crossover_external_open_tx(struct crossover_tx_queue *txq)
{
	struct wire_ring *ring = txq->wire;

	txq->position = txq->pending = 0;
	ring->descriptors = (uintptr_t)txq->descriptors;
	ring->tail = (uintptr_t)&txq->tail;
	ring->size = txq->size;
	txq->tail = ring->head = 0;
	open_ring(txq->port, ring);
}

void crossover_external_close(struct wire_ring *ring)
{
	if (ring != NULL)
		__atomic_store_n(&ring->epoch, 0, __ATOMIC_RELEASE);
}

static int wait_idle(const struct crossover_port *port, const struct wire_ring *rings, const char *kind,
                     uint64_t deadline_ns)
{
	for (unsigned int i = 0; i < WIRE_RINGS_MAX; i++)
		while (rings[i].epoch == 0 && __atomic_load_n(&rings[i].busy, __ATOMIC_ACQUIRE) != 0)
			if (!crossover_wait_until(deadline_ns))
				return CROSSOVER_REFUSE(
				        -EBUSY,
				        "port %u: the agent stays at %s queue %u; end the agent, then stop "
				        "again",
				        port->port_id, kind, i);
	return 0;
}

int crossover_external_quiesce(const struct crossover_port *port, uint64_t deadline_ns)
{
	int ret = wait_idle(port, port->wire->rx, "RX", deadline_ns);

	return ret == 0 ? wait_idle(port, port->wire->tx, "TX", deadline_ns) : ret;
}

uint32_t crossover_external_unread(const struct crossover_tx_queue *txq)
{
	return txq->tail - __atomic_load_n(&txq->wire->head, __ATOMIC_ACQUIRE);
}

uint32_t crossover_external_reclaim(struct crossover_tx_queue *txq, uint32_t most)
{
	uint32_t unread = crossover_external_unread(txq);
	uint32_t count = unread < txq->pending ? RTE_MIN(txq->pending - unread, most) : 0;

	crossover_sent_free(txq, count);
	return count;
}

void crossover_external_flush(struct crossover_tx_queue *txq)
{
	uint32_t unread = RTE_MIN(crossover_external_unread(txq), txq->pending), position;

	crossover_sent_free(txq, txq->pending - unread);
	position = crossover_ring_advance(txq->position, txq->size - unread, txq->size);
	for (uint32_t i = 0; i < unread; i++, position = crossover_ring_advance(position, 1, txq->size))
		txq->counts.errors += (txq->descriptors[position].word & WIRE_EOP) != 0;
	crossover_sent_free(txq, unread);
}

/* Writes a descriptor per segment. The mbufs of a chain are freed one by one, so under FAST_FREE, which returns them as they are, each is cut off. */
static inline void post_frame(struct crossover_tx_queue *txq, struct rte_mbuf *segment)
{
	while (segment != NULL) {
		struct rte_mbuf *next = segment->next;
		struct wire_descriptor *desc = &txq->descriptors[txq->position];

		desc->buffer = (uintptr_t)rte_pktmbuf_mtod(segment, const void *);
		desc->word = segment->data_len | (next == NULL ? WIRE_EOP : 0);
		txq->sent[txq->position] = segment;
		if (unlikely(next != NULL) && txq->fast_free) {
			segment->next = NULL;
			segment->nb_segs = 1;
		}
		txq->position = crossover_ring_advance(txq->position, 1, txq->size);
		txq->pending++;
		segment = next;
	}
}

/* A frame that no NIC would send, or that no ring would hold. */
static inline bool is_wrong(const struct crossover_tx_queue *txq, const struct rte_mbuf *m)
{
	return m->pkt_len - (uint32_t)CROSSOVER_MIN_FRAME >
	               CROSSOVER_MAX_MTU + CROSSOVER_L2_BYTES - CROSSOVER_MIN_FRAME ||
	       m->nb_segs > txq->size;
}

uint16_t crossover_external_tx_burst(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	struct crossover_tx_queue *txq = queue;
	uint32_t wanted = RTE_MAX(txq->free_thresh, (uint32_t)nb_pkts);
	uint32_t pending;
	uint16_t sent;

	if (unlikely(!txq->started || __atomic_load_n(&txq->port->wire->running, __ATOMIC_RELAXED) == 0))
		return 0;
	if (nb_pkts > 0)
		wanted = RTE_MAX(wanted, (uint32_t)pkts[0]->nb_segs);
	if (txq->size - txq->pending < wanted)
		crossover_external_reclaim(txq, txq->pending);
	pending = txq->pending;
	for (sent = 0; sent < nb_pkts; sent++) {
		if (unlikely(is_wrong(txq, pkts[sent]))) {
			txq->counts.errors++;
			rte_pktmbuf_free(pkts[sent]);
			continue;
		}
		if (unlikely(pkts[sent]->nb_segs > txq->size - txq->pending))
			break;
		post_frame(txq, pkts[sent]);
	}
	if (txq->pending != pending) /* otherwise the agent would fetch TAIL's line for nothing */
		__atomic_store_n(&txq->tail, txq->tail + (txq->pending - pending), __ATOMIC_RELEASE);
	return sent;
}
