/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TX ring: frames that were sent and whose mbufs are not freed yet. An entry is a frame; its segments hang off it.
 * As ethdev defines tx_free_thresh, mbufs are freed once fewer entries than that are free. The default is the ring's
 * size: the burst that sends mbufs frees them while they are still in L1, and nothing waits in the ring. An
 * application that sets a small threshold gets the footprint of a NIC that holds a ring full of sent mbufs.
 */
#ifndef CROSSOVER_SENT_H
#define CROSSOVER_SENT_H

#include <string.h>

#include "crossover_port.h"

/* Frees the 'count' (at most pending) oldest frames. */
void crossover_sent_free(struct crossover_tx_queue *txq, uint32_t count);

/* Frees frames as the offloads say; under FAST_FREE those that stand alone. */
void crossover_sent_give_back(const struct crossover_tx_queue *txq, struct rte_mbuf *const *frames,
                              uint32_t count);

/* Frees the segments behind the first. */
void crossover_sent_cut(struct rte_mbuf *head);

/* RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE puts heads into their pool as they are, so they must stand alone. */
static inline void crossover_sent_detach(struct rte_mbuf *const *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (frames[i]->nb_segs != 1)
			crossover_sent_cut(frames[i]);
}

static inline void crossover_sent_store(struct crossover_tx_queue *txq, struct rte_mbuf *const *frames,
                                        uint32_t count)
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
static inline void crossover_sent_push(struct crossover_tx_queue *txq, struct rte_mbuf *const *frames,
                                       uint32_t count)
{
	if (__builtin_expect(txq->chained != 0, 0)) {
		if (txq->fast_free)
			crossover_sent_detach(frames, count);
		txq->chained = 0;
	}
	if (txq->free_thresh == txq->size) {
		crossover_sent_give_back(txq, frames, count);
		return;
	}
	crossover_sent_store(txq, frames, count);
	while (txq->size - txq->pending < txq->free_thresh)
		crossover_sent_free(txq, txq->pending < txq->free_batch ? txq->pending : txq->free_batch);
}

#endif
