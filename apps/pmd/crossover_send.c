/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <rte_branch_prediction.h>
#include <rte_cycles.h>
#include <rte_prefetch.h>
#include <rte_random.h>

#include "crossover.h"
#include "qwait.h"

#define STAMP_TRIES 64
/*
 * A timed chunk that took longer than 10 us, and 4 cycles per byte that it moved, was interrupted: the slowest copy between two sockets takes about
 * 1 cycle per byte.
 */
#define INTERRUPTION_US 10
#define CYCLES_PER_BYTE 4

/* Draws the number of chunks until the next timed one: 1 to 2 x CROSSOVER_WIRE_EVERY, all equally likely (xorshift32, Marsaglia 2003). */
static void draw(struct crossover_tx_queue *txq)
{
	uint32_t x = txq->wire_draw;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	txq->wire_draw = x;
	txq->wire_due = 1 + (x >> 8) % (2 * CROSSOVER_WIRE_EVERY);
}

/* Reads the TSC after all earlier loads have ended, and before later instructions start. */
static inline uint64_t stamp(void)
{
#ifdef RTE_ARCH_X86
	__builtin_ia32_lfence();
	uint64_t now = rte_rdtsc();
	__builtin_ia32_lfence();
	return now;
#else
	return rte_rdtsc_precise();
#endif
}

void crossover_wire_init(struct crossover_tx_queue *txq)
{
	uint64_t least = UINT64_MAX;

	for (unsigned int i = 0; i < STAMP_TRIES; i++) {
		uint64_t begin = stamp(), took = stamp() - begin;

		least = RTE_MIN(least, took);
	}
	txq->stamp_cycles = (uint32_t)least;
	txq->interruption_cycles = rte_get_tsc_hz() / 1000000 * INTERRUPTION_US;
	txq->wire_draw = (uint32_t)rte_rand() | 1;
	draw(txq);
}

static __rte_noinline uint64_t wire_begin(const struct crossover_tx_queue *txq)
{
	rte_prefetch0(&txq->stamp_cycles);
	return stamp();
}

static __rte_noinline void wire_end(struct crossover_tx_queue *txq, uint64_t begin, uint32_t frames,
                                    uint64_t bytes_before)
{
	uint64_t took = stamp() - begin;
	uint64_t most = txq->interruption_cycles + CYCLES_PER_BYTE * (txq->counts.bytes - bytes_before);

	draw(txq);
	took -= RTE_MIN(took, (uint64_t)txq->stamp_cycles);
	if (took > most) {
		txq->counts.wire_interrupted++;
		return;
	}
	txq->counts.wire_cycles += took;
	txq->counts.wire_frames += frames;
}

/*
 * The TX ring: frames that were sent and whose mbufs are not freed yet. An entry is a frame; its segments hang off it. As ethdev defines
 * tx_free_thresh, mbufs are freed once fewer entries than that are free. The default is the ring's size: the burst that sends mbufs frees them
 * while they are still in L1, and nothing waits in the ring. An application that sets a small threshold gets the footprint of a NIC that
 * holds a ring full of sent mbufs.
 */

/* Frees frames as the offloads say. Under FAST_FREE each frame is one segment. */
static void give_back_sent(const struct crossover_tx_queue *txq, struct rte_mbuf *const *frames,
                           uint32_t count)
{
	if (txq->fast_free)
		rte_mempool_put_bulk(frames[0]->pool, (void *const *)frames, count);
	else
		rte_pktmbuf_free_bulk((struct rte_mbuf **)(uintptr_t)frames, count); /* reads them only */
}

/* The same for entries of the ring. For an external agent each is a segment, cut from its chain under FAST_FREE. */
static void give_back_entries(const struct crossover_tx_queue *txq, struct rte_mbuf *const *entries,
                              uint32_t count)
{
	if (count > 0 && (txq->wire == NULL || txq->fast_free))
		give_back_sent(txq, entries, count);
	else
		for (uint32_t i = 0; i < count; i++)
			rte_pktmbuf_free_seg(entries[i]);
}

void crossover_sent_free(struct crossover_tx_queue *txq, uint32_t count)
{
	uint32_t oldest = crossover_ring_advance(txq->position, txq->size - txq->pending, txq->size);
	uint32_t first = RTE_MIN(count, txq->size - oldest);

	give_back_entries(txq, &txq->sent[oldest], first);
	give_back_entries(txq, &txq->sent[0], count - first);
	txq->pending -= count;
}

static void cut_segments(struct rte_mbuf *head)
{
	rte_pktmbuf_free(head->next);
	head->next = NULL;
	head->nb_segs = 1;
	head->pkt_len = head->data_len;
}

/* RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE returns heads to their pool as they are, so they must be single segments. */
static inline void detach_sent(struct rte_mbuf *const *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (frames[i]->nb_segs != 1)
			cut_segments(frames[i]);
}

static inline void store_sent(struct crossover_tx_queue *txq, struct rte_mbuf *const *frames, uint32_t count)
{
	uint32_t until_end = txq->size - txq->position;
	uint32_t first = count < until_end ? count : until_end;

	for (uint32_t i = 0; i < first; i++)
		txq->sent[txq->position + i] = frames[i];
	for (uint32_t i = first; i < count; i++)
		txq->sent[i - first] = frames[i];
	txq->position = crossover_ring_advance(txq->position, count, txq->size);
	txq->pending += count;
}

/* Takes over 'count' (at most CROSSOVER_CHUNK) sent frames and frees old ones as the threshold demands. */
static __rte_always_inline void push_sent(struct crossover_tx_queue *txq, struct rte_mbuf *const *frames,
                                          uint32_t count)
{
	if (__builtin_expect(txq->chained != 0, 0)) {
		if (txq->fast_free)
			detach_sent(frames, count);
		txq->chained = 0;
	}
	if (txq->free_thresh == txq->size) {
		give_back_sent(txq, frames, count);
		return;
	}
	store_sent(txq, frames, count);
	while (txq->size - txq->pending < txq->free_thresh)
		crossover_sent_free(txq, txq->pending < txq->free_batch ? txq->pending : txq->free_batch);
}

/* Returns buffers to their pool and kept frames to the TX ring. */
static __rte_noinline void free_leftovers(struct crossover_tx_queue *txq, struct crossover_leftovers *left)
{
	if (left->nb_buffers > 0)
		crossover_leftovers_give_back(left);
	if (left->nb_kept > 0)
		push_sent(txq, left->kept, left->nb_kept);
}

/* Counts all frames as sent, for frames that reach no RX ring. */
static void count_sent(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count)
{
	uint32_t chained = 0;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		bytes += pkts[i]->pkt_len;
		chained |= pkts[i]->nb_segs > 1;
	}
	txq->chained |= chained;
	txq->counts.packets += count;
	txq->counts.bytes += bytes;
}

/* Handles frames that reach no RX ring. */
static void send_nowhere(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count,
                         struct crossover_leftovers *left)
{
	count_sent(txq, pkts, count);
	if (txq->swap)
		crossover_leftovers_keep(left, pkts, count);
}

/*
 * Sends a run of frames to one RX queue, whose buffers are posted or come from pools. Returns false if none of them was
 * delivered.
 */
static __rte_always_inline bool send_run(struct crossover_tx_queue *txq, uint16_t queue,
                                         struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count,
                                         struct crossover_leftovers *left, const bool supplied)
{
	struct crossover_rx_queue *rxq = __atomic_load_n(&txq->peer->rx_queues[queue], __ATOMIC_ACQUIRE);
	uint32_t missed;

	if (unlikely(rxq == NULL || (supplied && rxq->buffer_pool == NULL))) {
		txq->counts.peer_missed += count;
		send_nowhere(txq, pkts, count, left);
		return false;
	}
	missed = supplied ? crossover_buffer_pool_deliver(txq, rxq, pkts, tags, count)
	                  : crossover_dma_deliver(txq, &rxq->ring, pkts, tags, count, left);
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
                                          struct crossover_leftovers *left, const bool supplied)
{
	for (uint32_t first = 0, run; first < count; first += run) {
		run = run_length(verdicts, first, count);
		if (verdicts->queue[first] == CROSSOVER_FILTERED) {
			txq->counts.peer_filtered += run;
			send_nowhere(txq, pkts + first, run, left);
		} else {
			send_run(txq, verdicts->queue[first], pkts + first, verdicts->tag + first, run, left,
			         supplied);
		}
	}
}

static __rte_always_inline void classify_and_send(struct crossover_tx_queue *txq,
                                                  struct rte_mbuf *const *pkts, uint32_t count,
                                                  struct crossover_leftovers *left, const bool supplied)
{
	struct crossover_verdicts verdicts;
	struct rte_mbuf *sorted[CROSSOVER_CHUNK];

	crossover_classify(txq->peer, pkts, count, &verdicts);
	pkts = crossover_sort(txq->peer, &verdicts, pkts, count, sorted);
	send_runs(txq, pkts, count, &verdicts, left, supplied);
}

static __rte_noinline void send_classified(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts,
                                           uint32_t count, struct crossover_leftovers *left)
{
	classify_and_send(txq, pkts, count, left, false);
}

static __rte_noinline void send_supplied(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts,
                                         uint32_t count, struct crossover_leftovers *left)
{
	classify_and_send(txq, pkts, count, left, true);
}

/* Returns a queue's doorbell. Divides only where queues share one. */
static inline struct qwait_doorbell *bell_of(const struct crossover_port *peer, uint16_t queue)
{
	return &peer->bells[likely(queue < peer->nb_bells) ? queue : queue % peer->nb_bells];
}

/*
 * Rings for the queues of a chunk whose DD bits are all set. A single sender writes an event if the set takes one (qwait_post()). Otherwise, if
 * the chunk went to one queue that has no other sender, neither barrier nor look is needed (qwait_notify_at_once());
 * several queues need the one full barrier that qwait_notify() asks for. A NIC would write an event or completion queue
 * entry here, or raise an interrupt; this belongs to the wire.
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

/* Returns whether this doorbell is rung by an event. */
static inline bool is_posted(const struct crossover_tx_queue *txq, const struct qwait_doorbell *bell)
{
	return !txq->shared && bell->events != NULL;
}

/*
 * Fetches the lines that a ring will write, while frames are written. An event's line is not fetched: the waiter, which reads it, would have it back
 * before it is written.
 */
static inline void prefetch_bell(const struct crossover_tx_queue *txq, struct qwait_doorbell *bell)
{
	if (!is_posted(txq, bell))
		rte_prefetch0_write(bell);
}

/*
 * Returns whether no frame was delivered because the ring lacks buffers: its poller has to be notified. The poller of a
 * full ring was notified before.
 */
static bool is_starved(const struct crossover_tx_queue *txq, uint16_t queue)
{
	const struct crossover_rx_queue *rxq =
	        __atomic_load_n(&txq->peer->rx_queues[queue], __ATOMIC_ACQUIRE);

	return rxq != NULL && crossover_ring_is_starved(&rxq->ring);
}

/*
 * Sends a chunk to one queue and rings. The line of the ready bit is fetched early only for a single frame, for which latency counts; more frames
 * pay less per frame for the bit, and the early look would delay them.
 */
static void send_and_ring_one(struct crossover_tx_queue *txq, uint16_t queue, struct rte_mbuf *const *pkts,
                              const uint64_t *tags, uint32_t count, struct crossover_leftovers *left)
{
	struct qwait_doorbell *bell = bell_of(txq->peer, queue);

	prefetch_bell(txq, bell);
	if (count == 1 && !is_posted(txq, bell) && qwait_peek(&bell->armed))
		rte_prefetch0_write(&bell->set->ready.leaves[bell->qid >> QWAIT_LEAF_LOG2]);
	if (likely(send_run(txq, queue, pkts, tags, count, left, false)) || is_starved(txq, queue))
		ring_one(txq, bell);
}

static void send_and_ring(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count,
                          struct crossover_leftovers *left)
{
	struct crossover_verdicts verdicts;
	struct rte_mbuf *sorted[CROSSOVER_CHUNK];

	crossover_classify(txq->peer, pkts, count, &verdicts);
	if (verdicts.queue[0] != CROSSOVER_FILTERED && crossover_is_one_run(verdicts.queue, count)) {
		send_and_ring_one(txq, verdicts.queue[0], pkts, verdicts.tag, count, left);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		if (likely(verdicts.queue[i] != CROSSOVER_FILTERED))
			prefetch_bell(txq, bell_of(txq->peer, verdicts.queue[i]));
	send_runs(txq, crossover_sort(txq->peer, &verdicts, pkts, count, sorted), count, &verdicts, left,
	          false);
	ring_all(txq, verdicts.queue, count);
}

/* feed=infinite: there is no wire. */
static __rte_noinline void send_void(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts,
                                     uint32_t count)
{
	count_sent(txq, pkts, count);
	push_sent(txq, pkts, count);
}

/* Returns the function that delivers a chunk, by the peer's gate. All but the first two cost one more comparison. */
static __rte_noinline void deliver_otherwise(struct crossover_tx_queue *txq, uint32_t gate,
                                             struct rte_mbuf *const *pkts, uint32_t count,
                                             struct crossover_leftovers *left)
{
	switch (gate) {
	case CROSSOVER_GATE_BUFFER_POOL:
		send_supplied(txq, pkts, count, left);
		break;
	case CROSSOVER_GATE_NOTIFY_DIRECT:
		send_and_ring_one(txq, 0, pkts, NULL, count, left);
		break;
	default: /* CROSSOVER_GATE_NOTIFY */
		send_and_ring(txq, pkts, count, left);
		break;
	}
}

static __rte_always_inline void deliver(struct crossover_tx_queue *txq, uint32_t gate,
                                        struct rte_mbuf *const *pkts, uint32_t count,
                                        struct crossover_leftovers *left)
{
	if (gate == CROSSOVER_GATE_DIRECT)
		send_run(txq, 0, pkts, NULL, count, left, false);
	else if (gate == CROSSOVER_GATE_CLASSIFY)
		send_classified(txq, pkts, count, left);
	else
		deliver_otherwise(txq, gate, pkts, count, left);
}

/* A NIC's work is the wire's part, and sometimes timed; freeing mbufs is the driver's. */
static __rte_always_inline void send_chunk(struct crossover_tx_queue *txq, uint32_t gate,
                                           struct rte_mbuf *const *pkts, uint32_t count)
{
	bool timed = unlikely(--txq->wire_due == 0);
	uint64_t bytes = txq->counts.bytes, begin = timed ? wire_begin(txq) : 0;
	struct crossover_leftovers left;

	left.nb_kept = left.nb_buffers = 0;
	left.pool = NULL;
	deliver(txq, gate, pkts, count, &left);
	if (unlikely(timed))
		wire_end(txq, begin, count, bytes);
	if (txq->swap)
		free_leftovers(txq, &left);
	else
		push_sent(txq, pkts, count);
}

static inline uint32_t send_all(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count)
{
	uint32_t gate = __atomic_load_n(&txq->peer->gate, __ATOMIC_ACQUIRE);

	if (unlikely(!txq->started || gate == CROSSOVER_GATE_DOWN))
		return 0;
	for (uint32_t sent = 0; sent < count; sent += CROSSOVER_CHUNK) {
		uint32_t chunk = RTE_MIN(count - sent, (uint32_t)CROSSOVER_CHUNK);

		if (unlikely(gate == CROSSOVER_GATE_VOID))
			send_void(txq, pkts + sent, chunk);
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

/* Sending is complete when the burst returns, so no descriptor is ever seen in flight, except by an external agent. */
int crossover_tx_descriptor_status(void *queue, uint16_t offset)
{
	const struct crossover_tx_queue *txq = queue;

	if (offset >= txq->size)
		return -EINVAL;
	if (txq->wire != NULL && offset >= txq->size - crossover_external_unread(txq))
		return RTE_ETH_TX_DESC_FULL;
	return RTE_ETH_TX_DESC_DONE;
}

int crossover_tx_done_cleanup(void *queue, uint32_t frames)
{
	struct crossover_tx_queue *txq = queue;
	uint32_t count;

	if (txq == NULL) /* ethdev does not check the queue's number here */
		return -EINVAL;
	if (txq->wire != NULL)
		return (int)crossover_external_reclaim(txq, frames == 0 ? txq->pending : frames);
	count = frames == 0 ? txq->pending : RTE_MIN(frames, txq->pending);
	crossover_sent_free(txq, count);
	return (int)count;
}
