/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <rte_branch_prediction.h>
#include <rte_prefetch.h>

#include "crossover_classify.h"
#include "crossover_compat.h"
#include "crossover_dma.h"
#include "crossover_quiesce.h"
#include "crossover_sent.h"
#include "crossover_buffer_pool.h"
#include "crossover_tx.h"
#include "crossover_wire.h"
#include "qwait.h"

/* Frames that reach no RX ring: counted as sent. */
static void send_nowhere(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count,
                         struct crossover_leftovers *left)
{
	crossover_count_sent(txq, pkts, count);
	if (txq->swap)
		crossover_leftovers_keep(left, pkts, count);
}

/* A run of frames for one RX queue. False: none of them came in. */
static inline bool send_run(struct crossover_tx_queue *txq, uint16_t queue, struct rte_mbuf *const *pkts,
                            const uint64_t *tags, uint32_t count, struct crossover_leftovers *left)
{
	struct crossover_rx_queue *rxq = __atomic_load_n(&txq->peer->rx_queues[queue], __ATOMIC_ACQUIRE);
	uint32_t missed;

	if (unlikely(rxq == NULL)) {
		txq->counts.peer_missed += count;
		send_nowhere(txq, pkts, count, left);
		return false;
	}
	missed = txq->swap ? crossover_dma_swap(txq, &rxq->ring, pkts, tags, count, left)
	                   : crossover_dma_copy(txq, &rxq->ring, pkts, tags, count);
	if (unlikely(missed > 0))
		txq->missed[queue] += missed;
	return missed < count;
}

static uint32_t run_length(const struct crossover_verdicts *verdicts, uint32_t first, uint32_t count)
{
	uint32_t end = first + 1;

	while (end < count && verdicts->queue[end] == verdicts->queue[first])
		end++;
	return end - first;
}

static __rte_always_inline void send_runs(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts,
                                          uint32_t count, const struct crossover_verdicts *verdicts,
                                          struct crossover_leftovers *left)
{
	uint32_t first = 0;

	while (first < count) {
		uint32_t run = run_length(verdicts, first, count);

		if (verdicts->queue[first] == CROSSOVER_FILTERED) {
			txq->counts.peer_filtered += run;
			send_nowhere(txq, pkts + first, run, left);
		} else {
			send_run(txq, verdicts->queue[first], pkts + first, verdicts->tag + first, run, left);
		}
		first += run;
	}
}

static __rte_noinline void send_classified(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts,
                                           uint32_t count, struct crossover_leftovers *left)
{
	struct crossover_verdicts verdicts;
	struct rte_mbuf *grouped[CROSSOVER_CHUNK];

	crossover_classify(txq->peer, pkts, count, &verdicts);
	send_runs(txq, crossover_group(txq->peer, &verdicts, pkts, count, grouped), count, &verdicts, left);
}

/* A queue's doorbell. A division only where queues share one. */
static inline struct qwait_doorbell *bell_of(const struct crossover_port *peer, uint16_t queue)
{
	return &peer->bells[likely(queue < peer->nb_bells) ? queue : queue % peer->nb_bells];
}

/*
 * DD of a whole chunk is set: rings for its queues. Who alone sends writes an event, if the set takes one (qwait_post()). Else the one
 * queue of a chunk that nobody else sends to needs neither barrier nor look (qwait_notify_at_once()); several need the one
 * full barrier that qwait_notify() asks for. A NIC would write an event or completion queue entry here, or raise an
 * interrupt; this belongs to the wire.
 */
static inline void ring_one(const struct crossover_tx_queue *txq, struct qwait_doorbell *bell)
{
	if (likely(!txq->shared)) {
		if (!qwait_post(bell))
			qwait_notify_at_once(bell);
		return;
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	qwait_notify(bell);
}

static void ring_all(const struct crossover_tx_queue *txq, const uint16_t *queues, uint32_t count)
{
	bool fenced = false;

	for (uint32_t i = 0; i < count; i++) {
		if (queues[i] == CROSSOVER_FILTERED || (i > 0 && queues[i] == queues[i - 1]))
			continue;
		struct qwait_doorbell *bell = bell_of(txq->peer, queues[i]);

		if (!txq->shared && likely(qwait_post(bell)))
			continue;
		if (!fenced)
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
		fenced = true;
		qwait_notify(bell);
	}
}

/* This is rung by an event. */
static inline bool is_posted(const struct crossover_tx_queue *txq, const struct qwait_doorbell *bell)
{
	return !txq->shared && bell->events != NULL;
}

/*
 * Fetches what a ring will write, while frames are written. An event's line stays where it is: the waiter, which looks at it, would have it
 * back before it is written.
 */
static inline void prefetch_bell(const struct crossover_tx_queue *txq, struct qwait_doorbell *bell)
{
	if (!is_posted(txq, bell))
		rte_prefetch0_write(bell);
}

/* Nothing came in because the ring lacks buffers: its poller has to be told. That of a full ring has been. */
static bool is_starved(const struct crossover_tx_queue *txq, uint16_t queue)
{
	const struct crossover_rx_queue *rxq =
	        __atomic_load_n(&txq->peer->rx_queues[queue], __ATOMIC_ACQUIRE);

	return rxq != NULL && crossover_ring_is_starved(&rxq->ring);
}

/*
 * All frames of a chunk go to one queue. The line of the ready bit is fetched only behind a lone frame, for which latency counts; more
 * frames pay less for the bit, and to look early would hold them up.
 */
static void send_and_ring_one(struct crossover_tx_queue *txq, uint16_t queue, struct rte_mbuf *const *pkts,
                              const uint64_t *tags, uint32_t count, struct crossover_leftovers *left)
{
	struct qwait_doorbell *bell = bell_of(txq->peer, queue);

	prefetch_bell(txq, bell);
	if (count == 1 && !is_posted(txq, bell) && qwait_peek(&bell->armed))
		rte_prefetch0_write(&bell->set->ready.leaves[bell->qid >> QWAIT_LEAF_LOG2]);
	if (likely(send_run(txq, queue, pkts, tags, count, left)) || is_starved(txq, queue))
		ring_one(txq, bell);
}

static __rte_noinline void send_and_ring(struct crossover_tx_queue *txq, uint32_t gate,
                                         struct rte_mbuf *const *pkts, uint32_t count,
                                         struct crossover_leftovers *left)
{
	struct crossover_verdicts verdicts;
	struct rte_mbuf *grouped[CROSSOVER_CHUNK];

	if (gate == CROSSOVER_GATE_NOTIFY_DIRECT) {
		send_and_ring_one(txq, 0, pkts, NULL, count, left);
		return;
	}
	crossover_classify(txq->peer, pkts, count, &verdicts);
	if (verdicts.queue[0] != CROSSOVER_FILTERED && crossover_is_one_run(verdicts.queue, count)) {
		send_and_ring_one(txq, verdicts.queue[0], pkts, verdicts.tag, count, left);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		if (likely(verdicts.queue[i] != CROSSOVER_FILTERED))
			prefetch_bell(txq, bell_of(txq->peer, verdicts.queue[i]));
	send_runs(txq, crossover_group(txq->peer, &verdicts, pkts, count, grouped), count, &verdicts, left);
	ring_all(txq, verdicts.queue, count);
}

static void deliver_run(struct crossover_tx_queue *txq, uint16_t queue, struct rte_mbuf *const *pkts,
                        const uint64_t *tags, uint32_t count)
{
	struct crossover_rx_queue *rxq = __atomic_load_n(&txq->peer->rx_queues[queue], __ATOMIC_ACQUIRE);

	if (unlikely(rxq == NULL || rxq->buffer_pool == NULL)) {
		txq->counts.peer_missed += count;
		crossover_count_sent(txq, pkts, count);
		return;
	}
	txq->missed[queue] += crossover_buffer_pool_deliver(txq, rxq, pkts, tags, count);
}

static __rte_noinline void send_supplied(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts,
                                         uint32_t count)
{
	struct crossover_verdicts verdicts;
	struct rte_mbuf *copies[CROSSOVER_CHUNK], *const *grouped;

	crossover_classify(txq->peer, pkts, count, &verdicts);
	grouped = crossover_group(txq->peer, &verdicts, pkts, count, copies);
	for (uint32_t first = 0, run; first < count; first += run) {
		run = run_length(&verdicts, first, count);
		if (verdicts.queue[first] == CROSSOVER_FILTERED) {
			txq->counts.peer_filtered += run;
			crossover_count_sent(txq, grouped + first, run);
		} else {
			deliver_run(txq, verdicts.queue[first], grouped + first, verdicts.tag + first, run);
		}
	}
}

/* What a NIC does is the wire's part and sometimes timed; freeing is the driver's. */
static __rte_always_inline void send_chunk(struct crossover_tx_queue *txq, uint32_t gate,
                                           struct rte_mbuf *const *pkts, uint32_t count)
{
	bool timed = crossover_wire_due(txq);
	uint64_t bytes = txq->counts.bytes, begin = timed ? crossover_wire_begin(txq) : 0;
	struct crossover_leftovers left;

	left.nb_kept = left.nb_buffers = 0;
	left.pool = NULL;
	if (gate == CROSSOVER_GATE_DIRECT)
		send_run(txq, 0, pkts, NULL, count, &left);
	else if (gate < CROSSOVER_GATE_VOID)
		send_classified(txq, pkts, count, &left);
	else if (gate == CROSSOVER_GATE_BUFFER_POOL)
		send_supplied(txq, pkts, count);
	else
		send_and_ring(txq, gate, pkts, count, &left);
	if (unlikely(timed))
		crossover_wire_end(txq, begin, count, bytes);
	if (txq->swap)
		crossover_leftovers_free(&left, txq);
	else
		crossover_sent_push(txq, pkts, count);
}

/* feed=infinite: there is no wire. */
static void send_void(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count)
{
	crossover_count_sent(txq, pkts, count);
	crossover_sent_push(txq, pkts, count);
}

/* The rarer gates, behind one comparison: all that they cost the other two. */
static __rte_noinline void send_specially(struct crossover_tx_queue *txq, uint32_t gate,
                                          struct rte_mbuf *const *pkts, uint32_t count)
{
	if (gate == CROSSOVER_GATE_VOID)
		send_void(txq, pkts, count);
	else
		send_chunk(txq, gate, pkts, count);
}

static inline uint32_t send_all(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count)
{
	uint32_t gate = __atomic_load_n(&txq->peer->gate, __ATOMIC_ACQUIRE);

	if (unlikely(!txq->started || gate == CROSSOVER_GATE_DOWN))
		return 0;
	for (uint32_t sent = 0; sent < count; sent += CROSSOVER_CHUNK) {
		uint32_t chunk = RTE_MIN(count - sent, (uint32_t)CROSSOVER_CHUNK);

		if (gate >= CROSSOVER_GATE_VOID)
			send_specially(txq, gate, pkts + sent, chunk);
		else
			send_chunk(txq, gate, pkts + sent, chunk);
	}
	return count;
}

uint16_t crossover_tx_burst(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	struct crossover_tx_queue *txq = queue;
	uint32_t sent;

	crossover_burst_enter(txq);
	sent = send_all(txq, pkts, nb_pkts);
	crossover_burst_leave(txq);
	return (uint16_t)sent;
}

/* Sending is complete when the burst returns, so no descriptor is ever seen in flight. */
int crossover_tx_descriptor_status(void *queue, uint16_t offset)
{
	const struct crossover_tx_queue *txq = queue;

	return offset < txq->size ? RTE_ETH_TX_DESC_DONE : -EINVAL;
}

int crossover_tx_done_cleanup(void *queue, uint32_t frames)
{
	struct crossover_tx_queue *txq = queue;
	uint32_t count;

	if (txq == NULL) /* ethdev does not check the queue's number here */
		return -EINVAL;
	count = frames == 0 ? txq->pending : RTE_MIN(frames, txq->pending);
	crossover_sent_free(txq, count);
	return (int)count;
}
