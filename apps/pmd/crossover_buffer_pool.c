/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <rte_branch_prediction.h>
#include <rte_malloc.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include "crossover.h"
#include "crossover_receive.h"

struct crossover_buffer_pool {
	struct rte_ring *ring; /* mode shared: the ring of queue 0 */
	uint32_t target;       /* buffers in it when it is full */
	uint32_t threshold;    /* this many are put into it at once */
	bool shared;
	alignas(CROSSOVER_LINE_BYTES) uint32_t owed; /* mode shared: buffers received and not replaced yet */
	alignas(CROSSOVER_LINE_BYTES) uint8_t memory[];
};

/* Puts up to 'count' fresh buffers into the pool. Returns how many. */
static __rte_noinline uint32_t put_fresh(struct crossover_rx_queue *rxq, uint32_t count)
{
	void *buffers[CROSSOVER_CHUNK];
	uint32_t done = 0;

	while (done < count) {
		const uint32_t step = RTE_MIN(count - done, (uint32_t)CROSSOVER_CHUNK);

		if (unlikely(rte_mempool_get_bulk(rxq->pool, buffers, step) != 0)) {
			rxq->nombuf += step;
			rxq->refill_failures++;
			break;
		}
		const uint32_t put = rte_ring_enqueue_burst(rxq->buffer_pool->ring, buffers, step, NULL);

		done += put;
		if (unlikely(put < step)) {
			rte_mempool_put_bulk(rxq->pool, &buffers[put], step - put);
			break;
		}
	}
	return done;
}

static inline void refill_shared_pool(struct crossover_rx_queue *rxq, uint32_t received)
{
	struct crossover_buffer_pool *buffer_pool = rxq->buffer_pool;

	buffer_pool->owed += received;
	if (buffer_pool->owed >= buffer_pool->threshold)
		buffer_pool->owed -= put_fresh(rxq, buffer_pool->owed);
}

/* Runs at every poll, also an empty one, because other queues take buffers from this pool. */
static inline void refill_own_pool(struct crossover_rx_queue *rxq)
{
	const struct crossover_buffer_pool *buffer_pool = rxq->buffer_pool;
	const uint32_t there = rte_ring_count(buffer_pool->ring);

	if (there + buffer_pool->threshold <= buffer_pool->target)
		put_fresh(rxq, buffer_pool->target - there);
}

static __rte_always_inline uint16_t queue_poll(struct crossover_rx_queue *rxq, struct rte_mbuf **pkts,
                                               uint16_t nb_pkts, const bool described)
{
	uint32_t position = rxq->position;
	uint16_t received = 0;

	if (unlikely(rxq->buffer_pool == NULL)) /* stopped, or not started yet */
		return 0;
	while (received < nb_pkts) {
		struct crossover_rx_desc *desc = &rxq->desc[position];
		const uint64_t writeback = read_writeback(desc);

		if (!(writeback & WIRE_DD))
			break;
		pkts[received] = posted_mbuf(desc);
		/* Relaxed: TAIL's release follows, and no sender looks before that. */
		__atomic_store_n(&desc->writeback, 0, __ATOMIC_RELAXED);
		take_mbuf(rxq, pkts[received], writeback, described);
		received++;
		position = crossover_ring_advance(position, 1, rxq->size);
	}
	if (received > 0) {
		rxq->position = position;
		rxq->tail += received;
		crossover_ring_post(&rxq->ring, rxq->tail);
	}
	if (rxq->buffer_pool->shared)
		refill_shared_pool(rxq, received);
	else
		refill_own_pool(rxq);
	return received;
}

uint16_t crossover_burst_supplied(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	return queue_poll(queue, pkts, nb_pkts, false);
}

uint16_t crossover_burst_supplied_described(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	return queue_poll(queue, pkts, nb_pkts, true);
}

/* Frames that the wire carries and the port takes, with their tags. */
struct chunk {
	struct rte_mbuf *pkts[CROSSOVER_CHUNK];
	uint64_t tags[CROSSOVER_CHUNK];
	uint32_t count;
};

/* Counts all frames as sent, except those that no NIC would send. */
static void judge(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, const uint64_t *tags,
                  uint32_t count, struct chunk *chunk)
{
	const uint32_t longest = txq->peer->max_frame_bytes;

	chunk->count = 0;
	crossover_count_and_judge(txq, pkts, count);
	for (uint32_t i = 0; i < count; i++) {
		if (pkts[i]->pkt_len < CROSSOVER_MIN_FRAME || pkts[i]->pkt_len > longest)
			continue;
		chunk->pkts[chunk->count] = pkts[i];
		chunk->tags[chunk->count++] = tags[i];
	}
}

/* Takes buffers from the queue's own pool; in mode split, also from the pools of other queues. */
static uint32_t take(const struct crossover_rx_queue *rxq, void **buffers, uint32_t wanted)
{
	const struct crossover_port *port = rxq->port;
	uint32_t taken = rte_ring_dequeue_burst(rxq->buffer_pool->ring, buffers, wanted, NULL);

	for (uint32_t i = 1; taken < wanted && !rxq->buffer_pool->shared && i < port->nb_rx_queues; i++) {
		const struct crossover_rx_queue *other =
		        port->rx_queues[(rxq->queue_id + i) % port->nb_rx_queues];

		if (other != NULL && other->buffer_pool != NULL)
			taken += rte_ring_dequeue_burst(other->buffer_pool->ring, &buffers[taken],
			                                wanted - taken, NULL);
	}
	return taken;
}

/*
 * Returns buffers when another sender reserved the descriptors first. In mode split the pool may be full again, because
 * its core refills it.
 */
static void put_back(const struct crossover_rx_queue *rxq, void **buffers, uint32_t count)
{
	const uint32_t put =
	        count == 0 ? 0 : rte_ring_enqueue_burst(rxq->buffer_pool->ring, buffers, count, NULL);

	if (put < count)
		rte_mempool_put_bulk(rxq->pool, &buffers[put], count - put);
}

static void copy(const struct crossover_rx_nic *nic, void *buffer, const struct rte_mbuf *m)
{
	void *to = (uint8_t *)buffer + nic->buffer_offset;
	const void *from = rte_pktmbuf_read(m, 0, m->pkt_len, to);

	if (from != to)
		rte_memcpy(to, from, m->pkt_len);
}

/* Fills reserved descriptors side by side: DD last, in order. */
static void fill(struct crossover_rx_nic *nic, uint64_t head, const struct chunk *chunk, void **buffers,
                 uint32_t first, uint32_t count)
{
	struct crossover_rx_desc *desc = &nic->desc[crossover_head_position(head)];
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		desc[i].buffer = (uintptr_t)buffers[first + i];
		copy(nic, buffers[first + i], chunk->pkts[first + i]);
		bytes += chunk->pkts[first + i]->pkt_len;
	}
	crossover_ring_count(nic, count, bytes, true);
	for (uint32_t i = 0; i < count; i++)
		__atomic_store_n(&desc[i].writeback,
		                 chunk->pkts[first + i]->pkt_len | WIRE_DD | WIRE_EOP |
		                         chunk->tags[first + i],
		                 __ATOMIC_RELEASE);
}

/* Reserves descriptors for several senders. Returns how many frames found one. */
static uint32_t place(struct crossover_rx_ring *ring, const struct chunk *chunk, void **buffers,
                      uint32_t count)
{
	uint32_t placed = 0, span;
	uint64_t head;

	while (placed < count) {
		do {
			span = crossover_ring_reach(ring, &head, count - placed);
		} while (span > 0 && !crossover_ring_reserve(&ring->nic, head, span, true));
		if (span == 0)
			break;
		fill(&ring->nic, head, chunk, buffers, placed, span);
		placed += span;
	}
	return placed;
}

uint32_t crossover_buffer_pool_deliver(struct crossover_tx_queue *txq, struct crossover_rx_queue *rxq,
                                       struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count)
{
	struct crossover_rx_ring *ring = &rxq->ring;
	void *buffers[CROSSOVER_CHUNK];
	uint32_t room, taken, placed;
	struct chunk chunk;
	uint64_t head;

	judge(txq, pkts, tags, count, &chunk);
	if (chunk.count == 0 || __atomic_load_n(&ring->nic.running, __ATOMIC_ACQUIRE) == 0)
		return chunk.count;
	head = __atomic_load_n(&ring->nic.head, __ATOMIC_ACQUIRE);
	room = RTE_MIN(chunk.count, crossover_ring_posted(ring, head, chunk.count));
	taken = room == 0 ? 0 : take(rxq, buffers, room);
	for (uint32_t i = 0; i < taken; i++)
		__builtin_prefetch((uint8_t *)buffers[i] + ring->nic.buffer_offset, 1, 3);
	placed = place(ring, &chunk, buffers, taken);
	put_back(rxq, &buffers[placed], taken - placed);
	return chunk.count - placed;
}

static int refuse(const struct crossover_rx_queue *rxq, const char *reason)
{
	return CROSSOVER_REFUSE(-EINVAL, "port %u: RX queue %u: buffers in pools: %s", rxq->port_id,
	                        rxq->queue_id, reason);
}

static int check(const struct crossover_rx_queue *rxq, const struct rte_eth_dev *dev)
{
	const struct crossover_rx_queue *first = rxq->port->rx_queues[0];

	if ((dev->data->dev_conf.rxmode.offloads | rxq->conf.offloads) & RTE_ETH_RX_OFFLOAD_SCATTER)
		return refuse(rxq, "frames take one buffer; leave RTE_ETH_RX_OFFLOAD_SCATTER out and use "
		                   "mbufs of the MTU's size");
	if (rxq->swap)
		return refuse(rxq, "frames are copied; leave dma=swap out");
	if (rxq->ring.nic.buffer_offset == 0)
		return refuse(rxq, "the mempool's data are not behind its mbufs");
	if (first == NULL || first->pool != rxq->pool || (rxq != first && first->buffer_pool == NULL))
		return refuse(rxq, "all RX queues need the mempool of queue 0, and that started first");
	if (rxq->port->buffer_pool > rxq->size)
		return refuse(rxq, "more buffers in the pool than descriptors");
	return 0;
}

/* Makes the ring larger than the target: senders may put buffers back while the queue's core adds new ones. */
static int make_ring(struct crossover_buffer_pool *buffer_pool, const struct crossover_rx_queue *rxq)
{
	char name[RTE_RING_NAMESIZE];

	buffer_pool->ring = (struct rte_ring *)buffer_pool->memory;
	snprintf(name, sizeof(name), "supply_%u_%u", rxq->port_id, rxq->queue_id);
	return rte_ring_init(buffer_pool->ring, name, rte_align32pow2(2 * rxq->port->buffer_pool), 0);
}

/* Moves up to 'wanted' posted buffers into the pool and frees the rest. */
static void move_buffers(struct crossover_rx_queue *rxq, uint32_t wanted)
{
	for (uint32_t i = 0; i < rxq->size; i++) {
		struct rte_mbuf *m = posted_mbuf(&rxq->desc[i]);

		if (i >= wanted || rte_ring_enqueue(rxq->buffer_pool->ring, m) != 0)
			rte_mbuf_raw_free(m);
		rxq->desc[i].buffer = 0;
	}
}

int crossover_buffer_pool_init(struct crossover_rx_queue *rxq, const struct rte_eth_dev *dev)
{
	struct crossover_port *port = rxq->port;
	const bool shared = port->rx_mode == CROSSOVER_RX_SHARED, owner = !shared || rxq->queue_id == 0;
	const uint32_t givers = shared ? port->nb_rx_queues : 1;
	struct crossover_buffer_pool *buffer_pool;

	if (check(rxq, dev) != 0)
		return -EINVAL;
	buffer_pool = rte_zmalloc_socket(
	        "crossover_buffer_pool",
	        sizeof(*buffer_pool) +
	                (owner ? rte_ring_get_memsize(rte_align32pow2(2 * port->buffer_pool)) : 0),
	        CROSSOVER_LINE_BYTES, port->pair->socket_id);
	if (buffer_pool == NULL)
		return -ENOMEM;
	if (owner && make_ring(buffer_pool, rxq) != 0) {
		rte_free(buffer_pool);
		return -ENOMEM;
	}
	if (!owner)
		buffer_pool->ring = port->rx_queues[0]->buffer_pool->ring;
	buffer_pool->shared = shared;
	buffer_pool->target = port->buffer_pool;
	/* Otherwise all queues together could owe the whole pool. */
	buffer_pool->threshold = RTE_MAX(1u, RTE_MIN(rxq->free_thresh, port->buffer_pool / (2 * givers)));
	rxq->buffer_pool = buffer_pool;
	move_buffers(rxq, owner ? port->buffer_pool : 0);
	return 0;
}

static void free_deliveries(struct crossover_rx_queue *rxq)
{
	for (uint32_t i = 0; i < rxq->size; i++) {
		if (!(rxq->desc[i].writeback & WIRE_DD))
			continue;
		rxq->flushed++;
		rte_mbuf_raw_free(posted_mbuf(&rxq->desc[i]));
	}
}

void crossover_buffer_pool_release(struct crossover_rx_queue *rxq)
{
	struct crossover_buffer_pool *buffer_pool = rxq->buffer_pool;
	void *buffer;

	if (buffer_pool == NULL)
		return;
	free_deliveries(rxq);
	while (buffer_pool->ring == (struct rte_ring *)buffer_pool->memory &&
	       rte_ring_dequeue(buffer_pool->ring, &buffer) == 0)
		rte_mbuf_raw_free(buffer);
	rxq->buffer_pool = NULL;
	rxq->unposted = rxq->size;
	rte_free(buffer_pool);
}
