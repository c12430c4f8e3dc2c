/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <rte_branch_prediction.h>
#include <rte_pause.h>
#include <rte_prefetch.h>

#include "crossover_classify.h"
#include "crossover_compat.h"
#include "crossover_dma.h"
#include "crossover_quiesce.h"
#include "crossover_sent.h"
#include "crossover_tx.h"

/* A holder of the lock that lost its core is back within some time slices; 2^20 pauses are 15 to 50 ms. */
#define LOCK_SPINS (1u << 20)

static bool ring_lock(struct crossover_rx_nic *nic)
{
	for (uint32_t spins = 0; spins < LOCK_SPINS; spins++) {
		uint32_t free = 0;

		if (__atomic_compare_exchange_n(&nic->lock, &free, 1, false, __ATOMIC_ACQUIRE,
		                                __ATOMIC_RELAXED))
			return true;
		while (__atomic_load_n(&nic->lock, __ATOMIC_RELAXED) && ++spins < LOCK_SPINS)
			rte_pause();
	}
	return false;
}

static void ring_unlock(struct crossover_rx_nic *nic)
{
	__atomic_store_n(&nic->lock, 0, __ATOMIC_RELEASE);
}

/* Frames that reach no RX ring: counted as sent and kept in the TX ring until they are freed. */
static void send_nowhere(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count)
{
	crossover_count_sent(txq, pkts, count);
	crossover_sent_push(txq, pkts, count);
}

static inline void dma(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                       struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count)
{
	if (txq->swap) {
		crossover_dma_swap(txq, ring, pkts, tags, count);
	} else {
		crossover_dma_copy(txq, ring, pkts, tags, count);
		crossover_sent_push(txq, pkts, count);
	}
}

/* A run of frames for one RX queue. Returns false if its ring stayed locked; then nothing was sent. */
static inline bool send_run(struct crossover_tx_queue *txq, uint16_t queue, struct rte_mbuf *const *pkts,
                            const uint64_t *tags, uint32_t count)
{
	struct crossover_rx_queue *rxq = __atomic_load_n(&txq->peer->rx_queues[queue], __ATOMIC_ACQUIRE);

	if (unlikely(rxq == NULL)) {
		txq->counts.peer_missed += count;
		send_nowhere(txq, pkts, count);
		return true;
	}
	if (txq->shared && unlikely(!ring_lock(&rxq->ring.nic))) {
		txq->counts.lock_timeouts++;
		return false;
	}
	dma(txq, &rxq->ring, pkts, tags, count);
	if (txq->shared)
		ring_unlock(&rxq->ring.nic);
	return true;
}

static uint32_t run_length(const struct crossover_verdicts *verdicts, uint32_t first, uint32_t count)
{
	uint32_t end = first + 1;

	while (end < count && verdicts->queue[end] == verdicts->queue[first])
		end++;
	return end - first;
}

static uint32_t send_classified(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count)
{
	struct crossover_verdicts verdicts;
	uint32_t first = 0;

	crossover_classify(txq->peer, pkts, count, &verdicts);
	while (first < count) {
		uint32_t run = run_length(&verdicts, first, count);

		if (verdicts.queue[first] == CROSSOVER_FILTERED) {
			txq->counts.peer_filtered += run;
			send_nowhere(txq, pkts + first, run);
		} else if (!send_run(txq, verdicts.queue[first], pkts + first, verdicts.tag + first, run)) {
			break;
		}
		first += run;
	}
	return first;
}

static inline uint32_t send_chunk(struct crossover_tx_queue *txq, uint32_t gate, struct rte_mbuf *const *pkts,
                                  uint32_t count)
{
	switch (gate) {
	case CROSSOVER_GATE_DIRECT:
		return send_run(txq, 0, pkts, NULL, count) ? count : 0;
	case CROSSOVER_GATE_CLASSIFY:
		return send_classified(txq, pkts, count);
	case CROSSOVER_GATE_VOID:
		send_nowhere(txq, pkts, count);
		return count;
	default:
		return 0;
	}
}

uint16_t crossover_tx_burst(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts)
{
	struct crossover_tx_queue *txq = queue;
	uint32_t sent = 0, wanted, done = 0, gate;

	if (unlikely(!txq->started))
		return 0;
	crossover_burst_enter(txq);
	gate = __atomic_load_n(&txq->peer->gate, __ATOMIC_ACQUIRE);
	do {
		wanted = RTE_MIN(nb_pkts - sent, (uint32_t)CROSSOVER_CHUNK);
		done = send_chunk(txq, gate, pkts + sent, wanted);
		sent += done;
	} while (sent < nb_pkts && done == wanted);
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
