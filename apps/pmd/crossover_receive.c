/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_power_intrinsics.h>
#include <rte_prefetch.h>

#include "crossover.h"
#include "crossover_receive.h"

/* Posts 'count' buffers from the position after the last posted one; does not wrap. */
static inline void post_buffers(struct crossover_rx_queue *rxq, void *const *buffers, uint32_t first,
                                uint32_t count)
{
	struct crossover_rx_desc *desc = &rxq->desc[first];

	post_side_by_side(desc, buffers, count);
	if (unlikely(rxq->infinite))
		crossover_feed_post(rxq, desc, count);
}

/* Takes new buffers from the pool, at most CROSSOVER_CHUNK and not beyond the ring's end. Returns false if the pool is empty. */
static bool refill_chunk(struct crossover_rx_queue *rxq)
{
	void *buffers[CROSSOVER_CHUNK];
	uint32_t first = crossover_ring_advance(rxq->position, rxq->size - rxq->unposted, rxq->size);
	uint32_t count = RTE_MIN(RTE_MIN(rxq->unposted, rxq->size - first), (uint32_t)CROSSOVER_CHUNK);

	if (unlikely(rte_mempool_get_bulk(rxq->pool, buffers, count) != 0)) {
		rxq->nombuf += count;
		return false;
	}
	post_buffers(rxq, buffers, first, count);
	rxq->unposted -= count;
	rxq->tail += count;
	return true;
}

static __rte_noinline void refill(struct crossover_rx_queue *rxq)
{
	uint32_t tail = rxq->tail;
	bool served = true;

	while (served && rxq->unposted >= rxq->free_thresh)
		served = refill_chunk(rxq);
	if (unlikely(!served)) {
		rxq->refill_failures++;
		crossover_ring_starve(&rxq->ring, rxq->tail);
	}
	if (likely(rxq->tail != tail)) /* otherwise senders would fetch TAIL's line for nothing */
		crossover_ring_post(&rxq->ring, rxq->tail);
}

/*
 * Takes a frame of several buffers. Its first descriptor gets DD last, so all of them are filled. Returns the number of descriptors and leaves the
 * chain in *packet.
 */
static __rte_noinline uint32_t take_scattered(struct crossover_rx_queue *rxq, uint32_t position,
                                              struct rte_mbuf **packet, bool described)
{
	struct rte_mbuf *head = NULL, *last = NULL;
	uint32_t used = 0;
	uint64_t writeback;

	do {
		struct crossover_rx_desc *desc = &rxq->desc[position];
		struct rte_mbuf *m = posted_mbuf(desc);

		writeback = read_writeback(desc);
		take_mbuf(rxq, m, writeback, described);
		if (head == NULL) {
			head = m;
		} else {
			head->nb_segs++;
			head->pkt_len += m->data_len;
			last->next = m;
		}
		last = m;
		position = crossover_ring_advance(position, 1, rxq->size);
		used++;
	} while (!(writeback & WIRE_EOP));
	*packet = head;
	return used;
}

static inline void take_descriptors(struct crossover_rx_queue *rxq, uint32_t used)
{
	rxq->position = crossover_ring_advance(rxq->position, used, rxq->size);
	rxq->unposted += used;
}

/*
 * Returns how many frames of one buffer each can be taken from 'position' on: at most 'limit', and not beyond the
 * ring's end. Nothing else happens between the reads, so that the fetches of the descriptors' lines from the sender's
 * core overlap.
 */
static __rte_always_inline uint32_t whole_frames(const struct crossover_rx_queue *rxq, uint32_t position,
                                                 uint32_t limit)
{
	const struct crossover_rx_desc *desc = &rxq->desc[position];
	uint32_t count = 0;

	limit = RTE_MIN(limit, rxq->size - position);
	while (count < limit && (~read_writeback(&desc[count]) & (WIRE_DD | WIRE_EOP)) == 0)
		count++;
	return count;
}

/*
 * Prefetches all mbufs and the first line of each frame before it fills the first mbuf: the frames are in the sender's
 * cache, and the program will read them.
 */
static __rte_always_inline void take_whole(const struct crossover_rx_queue *rxq, uint32_t position,
                                           struct rte_mbuf **pkts, uint32_t count, const bool described)
{
	const struct crossover_rx_desc *desc = &rxq->desc[position];

	for (uint32_t i = 0; i < count; i++) {
		pkts[i] = posted_mbuf(&desc[i]);
		rte_prefetch0(pkts[i]);
		rte_prefetch0((const uint8_t *)pkts[i] + rxq->data_offset);
	}
	for (uint32_t i = 0; i < count; i++)
		take_mbuf(rxq, pkts[i], desc[i].writeback, described);
}

static __rte_always_inline uint16_t receive(struct crossover_rx_queue *rxq, struct rte_mbuf **pkts,
                                            uint16_t nb_pkts, const bool fed, const bool described)
{
	uint32_t position = rxq->position, used = 0;
	uint16_t received = 0;

	while (received < nb_pkts && (read_writeback(&rxq->desc[position]) & WIRE_DD)) {
		/* A taken descriptor keeps its DD until it is posted again: never wrap round to it. */
		uint32_t posted = rxq->size - rxq->unposted - used, step;

		if (unlikely(posted == 0))
			break;
		step = whole_frames(rxq, position, RTE_MIN(posted, (uint32_t)(nb_pkts - received)));
		if (likely(step > 0)) {
			take_whole(rxq, position, pkts + received, step, described);
			received += step;
		} else {
			step = take_scattered(rxq, position, &pkts[received++], described);
		}
		used += step;
		position = crossover_ring_advance(position, step, rxq->size);
	}
	/*
	 * An empty poll of a fed queue counts down instead; its cost then equals that of a queue on a wire within 5 %.
	 */
	if (!fed || used > 0)
		take_descriptors(rxq, used);
	return received;
}

static __rte_always_inline uint16_t queue_poll(struct crossover_rx_queue *rxq, struct rte_mbuf **pkts,
                                               uint16_t nb_pkts, const bool fed, const bool described)
{
	uint16_t received = receive(rxq, pkts, nb_pkts, fed, described);

	if (fed)
		crossover_feed_polled(rxq, pkts, received);
	if (rxq->unposted >= rxq->free_thresh)
		refill(rxq);
	return received;
}

static uint16_t burst(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	return queue_poll(queue, pkts, nb_pkts, false, false);
}

static uint16_t burst_described(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	return queue_poll(queue, pkts, nb_pkts, false, true);
}

static uint16_t burst_fed(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	return queue_poll(queue, pkts, nb_pkts, true, false);
}

static uint16_t burst_fed_described(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	return queue_poll(queue, pkts, nb_pkts, true, true);
}

/*
 * Return a port's receive function, by its mode and by whether types and checksums are wanted. Only the standard mode
 * can be fed.
 */
static eth_rx_burst_t receive_function(const struct crossover_port *port, bool described)
{
	static const eth_rx_burst_t functions[][2] = {
	        [CROSSOVER_RX_STANDARD] = {burst, burst_described},
	        [CROSSOVER_RX_COREC] = {crossover_burst_corec, crossover_burst_corec_described},
	        [CROSSOVER_RX_SHARED] = {crossover_burst_supplied, crossover_burst_supplied_described},
	        [CROSSOVER_RX_SPLIT] = {crossover_burst_supplied, crossover_burst_supplied_described},
	};
	static const eth_rx_burst_t fed[2] = {burst_fed, burst_fed_described};

	return (port->pair->options.feed == CROSSOVER_FEED_INFINITE ? fed
	                                                            : functions[port->rx_mode])[described];
}

bool crossover_receives_described(const struct rte_eth_dev *dev)
{
	return dev->rx_pkt_burst == receive_function(crossover_port_of(dev), true);
}

void crossover_receive_select(struct rte_eth_dev *dev)
{
	const struct crossover_port *port = crossover_port_of(dev);

	dev->rx_pkt_burst =
	        receive_function(port, port->described || rte_eal_process_type() != RTE_PROC_PRIMARY);
	/* ethdev copied the function at the start. Pollers call the old one or the new one; both are correct. */
	if (dev->data->dev_started)
		rte_eth_fp_ops[dev->data->port_id].rx_pkt_burst = dev->rx_pkt_burst;
}

/* Returns the next descriptor to be taken, and how many are posted from there on. */
static void find_place(const struct crossover_rx_queue *rxq, uint32_t *position, uint32_t *posted)
{
	if (rxq->corec != NULL) {
		crossover_corec_place(rxq, position, posted);
		return;
	}
	*position = rxq->position;
	*posted = rxq->size - rxq->unposted;
}

crossover_queue_count crossover_rx_queue_count(void *queue)
{
	const struct crossover_rx_queue *rxq = queue;
	crossover_queue_count filled = 0;
	uint32_t posted, position;

	find_place(rxq, &position, &posted);
	while ((uint32_t)filled < posted && (read_writeback(&rxq->desc[position]) & WIRE_DD)) {
		filled++;
		position = crossover_ring_advance(position, 1, rxq->size);
	}
	return filled;
}

int crossover_rx_descriptor_status(void *queue, uint16_t offset)
{
	const struct crossover_rx_queue *rxq = queue;
	uint32_t position, posted;

	if (offset >= rxq->size)
		return -EINVAL;
	find_place(rxq, &position, &posted);
	if (offset >= posted)
		return RTE_ETH_RX_DESC_UNAVAIL;
	if (read_writeback(&rxq->desc[crossover_ring_advance(position, offset, rxq->size)]) & WIRE_DD)
		return RTE_ETH_RX_DESC_DONE;
	return RTE_ETH_RX_DESC_AVAIL;
}

/*
 * Called when the line is armed. By then another core may have taken the descriptor; the next frame then arrives
 * elsewhere.
 */
static int wake_on_dd(const uint64_t value, const uint64_t opaque[RTE_POWER_MONITOR_OPAQUE_SZ])
{
	const struct crossover_rx_queue *rxq = (const void *)(uintptr_t)opaque[0];

	const bool next = rxq->corec != NULL ? crossover_corec_may_halt(rxq, (uint32_t)opaque[1])
	                                     : rxq->position == opaque[1];

	return next && !(value & WIRE_DD) ? 0 : -1;
}

int crossover_get_monitor_addr(void *queue, struct rte_power_monitor_cond *condition)
{
	struct crossover_rx_queue *rxq = queue;
	uint32_t position;

	if (rxq->infinite) /* only the queue's own polls write there */
		return -ENOTSUP;
	position = rxq->corec != NULL ? crossover_corec_halt_place(rxq) : rxq->position;
	condition->addr = &rxq->desc[position].writeback;
	condition->size = sizeof(uint64_t);
	condition->fn = wake_on_dd;
	condition->opaque[0] = (uintptr_t)rxq;
	condition->opaque[1] = position;
	return 0;
}

static void reset_ring(struct crossover_rx_queue *rxq)
{
	struct crossover_rx_nic *nic = &rxq->ring.nic;

	memset(rxq->desc, 0, rxq->size * sizeof(rxq->desc[0]));
	nic->head = nic->seen_tail = 0;
	rxq->position = rxq->tail = rxq->unposted = 0;
	crossover_ring_starve(&rxq->ring, UINT32_MAX); /* not starved */
	crossover_ring_post(&rxq->ring, 0);
}

/* Returns the offset of the data of this pool's mbufs from the handle if it is fixed, else 0 (pinned external buffers). */
static uint32_t fixed_buffer_offset(const struct rte_mbuf *m)
{
	uintptr_t behind = (uintptr_t)m + sizeof(*m) + m->priv_size;

	return (uintptr_t)m->buf_addr == behind ? (uint32_t)(behind - (uintptr_t)m) + RTE_PKTMBUF_HEADROOM
	                                        : 0;
}

int crossover_rx_fill(struct crossover_rx_queue *rxq)
{
	bool served = true;

	reset_ring(rxq);
	rxq->unposted = rxq->size;
	while (served && rxq->unposted > 0)
		served = refill_chunk(rxq);
	if (!served) {
		crossover_rx_drain(rxq);
		return -ENOMEM;
	}
	rxq->ring.nic.buffer_offset = fixed_buffer_offset(posted_mbuf(&rxq->desc[0]));
	rxq->data_offset = (uint16_t)rxq->ring.nic.buffer_offset;
	crossover_ring_post(&rxq->ring, rxq->tail);
	return 0;
}

void crossover_rx_drain(struct crossover_rx_queue *rxq)
{
	uint32_t posted = rxq->size - rxq->unposted, position = rxq->position;

	for (uint32_t i = 0; i < posted; i++) {
		struct crossover_rx_desc *desc = &rxq->desc[position];

		if ((desc->writeback & WIRE_EOP) && !rxq->infinite)
			rxq->flushed++;
		rte_mbuf_raw_free(posted_mbuf(desc));
		position = crossover_ring_advance(position, 1, rxq->size);
	}
	reset_ring(rxq);
}
