/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_prefetch.h>

#include "crossover.h"
#include "crossover_receive.h"

typedef struct rte_mbuf *corec_frame;
typedef bool corec_how; /* fill in types and checksums as well */

#include "corec_protocol.h"

/* Counts of one lcore's polls that lost a race or found no buffer. Other polls do not touch them. */
struct consumer {
	alignas(CROSSOVER_LINE_BYTES) uint64_t race_lost;
	uint64_t nombuf;
	uint64_t refill_failures;
};

/* Threads that are not lcores share the last one. */
#define CONSUMERS (RTE_MAX_LCORE + 1)

struct crossover_corec {
	struct crossover_rx_queue *rxq; /* its first line is only read here */
	struct corec_queue queue;
	alignas(COREC_APART_BYTES) struct consumer consumers[CONSUMERS];
	alignas(COREC_APART_BYTES) corec_u16 done[];
};

_Static_assert(offsetof(struct corec_queue, taken) >= CROSSOVER_LINE_BYTES,
               "what polls read only is apart from what they write");

static inline const struct crossover_rx_queue *rxq_of(const struct corec_queue *q)
{
	return container_of(q, const struct crossover_corec, queue)->rxq;
}

static void count(uint64_t *counter, uint64_t steps, unsigned int lcore)
{
	if (likely(lcore < RTE_MAX_LCORE))
		*counter += steps;
	else
		__atomic_fetch_add(counter, steps, __ATOMIC_RELAXED);
}

static struct consumer *consumer_of(struct corec_queue *q, unsigned int lcore)
{
	return &container_of(q, struct crossover_corec, queue)->consumers[RTE_MIN(lcore, RTE_MAX_LCORE)];
}

/* This many looks are joined before a branch. */
#define LOOKS 8

/* Returns whether all of the next LOOKS descriptors are filled. */
static __rte_always_inline bool filled_together(const struct crossover_rx_desc *desc)
{
	uint64_t all = WIRE_DD;

#pragma GCC unroll 8
	for (uint32_t i = 0; i < LOOKS; i++)
		all &= read_writeback(&desc[i]);
	return all != 0;
}

static __rte_always_inline uint32_t corec_filled(const struct corec_queue *q, uint32_t place, uint32_t n)
{
	const struct crossover_rx_desc *desc = &rxq_of(q)->desc[place];
	uint32_t found = 0;

	if (n == 0 || (read_writeback(desc) & WIRE_DD) == 0)
		return 0;
	while (found + LOOKS <= n && filled_together(&desc[found]))
		found += LOOKS;
	while (found < n && (read_writeback(&desc[found]) & WIRE_DD) != 0)
		found++;
	return found;
}

static __rte_noinline uint32_t get_fewer_buffers(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	const unsigned int lcore = rte_lcore_id();
	struct consumer *consumer = consumer_of(q, lcore);

	count(&consumer->nombuf, n, lcore);
	while (n /= 2, n > 0)
		if (rte_mempool_get_bulk(rxq_of(q)->pool, (void **)buffers, n) == 0)
			return n;
	count(&consumer->refill_failures, 1, lcore);
	return 0;
}

static inline uint32_t corec_get_buffers(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	if (likely(rte_mempool_get_bulk(rxq_of(q)->pool, (void **)buffers, n) == 0))
		return n;
	return get_fewer_buffers(q, buffers, n);
}

static inline void corec_give_back(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	const unsigned int lcore = rte_lcore_id();

	rte_mempool_put_bulk(rxq_of(q)->pool, (void **)buffers, n);
	count(&consumer_of(q, lcore)->race_lost, 1, lcore);
}

/*
 * Swaps n descriptors side by side, at most CROSSOVER_CHUNK. As in take_whole() all mbufs and the first line of each frame are fetched before the
 * first mbuf is filled. Descriptors are written last, by wide stores.
 *
 * Cores that come too late still read DD: they lose the race, whatever they see of that bit. A core that halts learns of the reservation from the
 * cleared bit, hence the fence.
 */
static __rte_always_inline void swap_chunk(const struct crossover_rx_queue *rxq,
                                           struct crossover_rx_desc *desc, struct rte_mbuf **frames,
                                           uint32_t n, const bool described)
{
	struct rte_mbuf *taken[CROSSOVER_CHUNK];

	for (uint32_t i = 0; i < n; i++) {
		taken[i] = posted_mbuf(&desc[i]);
		rte_prefetch0(taken[i]);
		rte_prefetch0((const uint8_t *)taken[i] + rxq->data_offset);
	}
	for (uint32_t i = 0; i < n; i++)
		take_mbuf(rxq, taken[i], desc[i].writeback, described);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	post_side_by_side(desc, (void *const *)frames, n);
	for (uint32_t i = 0; i < n; i++)
		frames[i] = taken[i];
}

static __rte_always_inline void corec_swap(struct corec_queue *q, uint32_t place, corec_frame *frames,
                                           uint32_t n, corec_how described)
{
	const struct crossover_rx_queue *rxq = rxq_of(q);

	for (uint32_t done = 0, step; done < n; done += step) {
		step = RTE_MIN(n - done, (uint32_t)CROSSOVER_CHUNK);
		swap_chunk(rxq, &rxq->desc[place + done], frames + done, step, described);
	}
}

static inline void corec_ring_doorbell(struct corec_queue *q, uint64_t tail)
{
	crossover_ring_post(&container_of(q, struct crossover_corec, queue)->rxq->ring, (uint32_t)tail);
}

/* A queue with deferred start may be polled before its first start, and finds nothing. */
static __rte_always_inline uint16_t poll_if_started(const struct crossover_rx_queue *rxq,
                                                    struct rte_mbuf **pkts, uint16_t nb_pkts,
                                                    const bool described)
{
	if (unlikely(rxq->corec == NULL))
		return 0;
	return (uint16_t)corec_poll(&rxq->corec->queue, pkts, nb_pkts, described);
}

uint16_t crossover_burst_corec(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	return poll_if_started(queue, pkts, nb_pkts, false);
}

uint16_t crossover_burst_corec_described(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	return poll_if_started(queue, pkts, nb_pkts, true);
}

int crossover_corec_check_size(const struct crossover_port *port, uint16_t queue_id, uint32_t size)
{
	if ((size & (size - 1)) == 0)
		return 0;
	return CROSSOVER_REFUSE(
	        -EINVAL, "port %u: RX queue %u: %u descriptors are not a power of two (rx=corec needs one)",
	        port->port_id, queue_id, size);
}

static int check_scatter(const struct crossover_rx_queue *rxq, const struct rte_eth_dev *dev)
{
	if (((dev->data->dev_conf.rxmode.offloads | rxq->conf.offloads) & RTE_ETH_RX_OFFLOAD_SCATTER) == 0)
		return 0;
	return CROSSOVER_REFUSE(-EINVAL,
	                        "port %u: RX queue %u: rx=corec receives frames of one buffer; leave "
	                        "RTE_ETH_RX_OFFLOAD_SCATTER out and use mbufs of the MTU's size",
	                        rxq->port_id, rxq->queue_id);
}

int crossover_corec_init(struct crossover_rx_queue *rxq, const struct rte_eth_dev *dev)
{
	struct crossover_corec *corec;

	if (crossover_corec_check_size(rxq->port, rxq->queue_id, rxq->size) != 0 ||
	    check_scatter(rxq, dev) != 0)
		return -EINVAL;
	corec = rte_zmalloc_socket("crossover_corec", sizeof(*corec) + rxq->size * sizeof(corec->done[0]),
	                           COREC_APART_BYTES, rxq->port->pair->socket_id);
	if (corec == NULL)
		return -ENOMEM;
	corec->rxq = rxq;
	corec->queue.done = corec->done;
	corec->queue.mask = rxq->size - 1;
	corec->queue.tail = &rxq->ring.doorbell.corec_tail;
	*corec->queue.tail = rxq->tail;
	rxq->corec = corec;
	return 0;
}

void crossover_corec_count(const struct crossover_rx_queue *rxq, struct crossover_rx_counts *sum)
{
	for (unsigned int i = 0; rxq->corec != NULL && i < CONSUMERS; i++) {
		const struct consumer *consumer = &rxq->corec->consumers[i];

		sum->race_lost += __atomic_load_n(&consumer->race_lost, __ATOMIC_RELAXED);
		sum->nombuf += __atomic_load_n(&consumer->nombuf, __ATOMIC_RELAXED);
		sum->refill_failures += __atomic_load_n(&consumer->refill_failures, __ATOMIC_RELAXED);
	}
}

void crossover_corec_place(const struct crossover_rx_queue *rxq, uint32_t *position, uint32_t *posted)
{
	const struct corec_queue *q = &rxq->corec->queue;
	const uint64_t taken = __atomic_load_n(&q->taken, __ATOMIC_RELAXED);
	const int64_t credits = corec_distance(taken, __atomic_load_n(q->tail, __ATOMIC_ACQUIRE));

	*position = (uint32_t)taken & q->mask;
	*posted = (uint32_t)RTE_MIN(RTE_MAX(credits, 0), (int64_t)rxq->size);
}

uint32_t crossover_corec_halt_place(struct crossover_rx_queue *rxq)
{
	return corec_halt_place(&rxq->corec->queue);
}

bool crossover_corec_may_halt(const struct crossover_rx_queue *rxq, uint32_t place)
{
	return corec_may_halt(&rxq->corec->queue, place);
}

const uint64_t *crossover_corec_race_lost(const struct crossover_rx_queue *rxq, unsigned int lcore)
{
	return &rxq->corec->consumers[RTE_MIN(lcore, RTE_MAX_LCORE)].race_lost;
}

void crossover_corec_release(struct crossover_rx_queue *rxq)
{
	struct crossover_rx_counts counts = {0};
	struct crossover_corec *corec = rxq->corec;

	if (corec == NULL)
		return;
	crossover_corec_count(rxq, &counts);
	rxq->race_lost += counts.race_lost;
	rxq->nombuf += counts.nombuf;
	rxq->refill_failures += counts.refill_failures;
	/* All descriptors have a buffer, also those not posted yet. */
	crossover_corec_place(rxq, &rxq->position, &rxq->unposted);
	rxq->unposted = 0;
	/* Later polls find nothing, as on the standard path. */
	*corec->queue.tail = corec->queue.taken;
	memset(corec->done, 0, rxq->size * sizeof(corec->done[0]));
	memset(corec->consumers, 0, sizeof(corec->consumers));
}

void crossover_corec_free(struct crossover_rx_queue *rxq)
{
	rte_free(rxq->corec);
	rxq->corec = NULL;
}
