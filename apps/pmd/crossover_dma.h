/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The DMA engine between two ports, run by the sender's core: brings frames into the buffers that the receiver posted,
 * then sets the DD bits of up to CROSSOVER_CHUNK descriptors together, as NICs coalesce their write-backs.
 */
#ifndef CROSSOVER_DMA_H
#define CROSSOVER_DMA_H

#include "crossover_port.h"
#include "crossover_sent.h"

/* mbufs of a chunk that are not on the other side: to be freed when the wire's part of the chunk is done. */
struct crossover_leftovers {
	uint32_t nb_kept, nb_buffers;
	struct rte_mempool *pool;               /* of the buffers */
	struct rte_mbuf *kept[CROSSOVER_CHUNK]; /* frames that did not change hands */
	void *buffers[CROSSOVER_CHUNK];         /* posted buffers in whose place frames went */
};

/*
 * Delivers 'count' (at most CROSSOVER_CHUNK) frames to one RX queue and counts them on both sides, except those that were
 * missed: their number is returned. tags[i] is or-ed into the write-back word of frame i (hash and its flag); NULL: no
 * tags. txq->shared tells whether descriptors are claimed, or just taken.
 *
 * dma=copy: the caller keeps all mbufs. dma=swap: mbufs that could not change hands, and buffers that did, are added to
 * the leftovers. A buffer changes hands only if it comes from the mempool of the RX queue (an RX queue gives out mbufs
 * of its own pool, applications rely on it), is neither shared, attached nor external, is one segment, and has the usual
 * headroom; otherwise the frame is copied.
 */
uint32_t crossover_dma_copy(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                            struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count);
uint32_t crossover_dma_swap(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                            struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count,
                            struct crossover_leftovers *left);

/* Adds frames that stay with the TX queue, at most CROSSOVER_CHUNK a chunk. */
static inline void crossover_leftovers_keep(struct crossover_leftovers *left, struct rte_mbuf *const *pkts,
                                            uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		left->kept[left->nb_kept++] = pkts[i];
}

static inline void crossover_leftovers_give_back(struct crossover_leftovers *left)
{
	rte_mempool_put_bulk(left->pool, left->buffers, left->nb_buffers);
	left->nb_buffers = 0;
}

/* Returns buffers to their pool and kept frames to the TX ring. */
static inline void crossover_leftovers_free(struct crossover_leftovers *left, struct crossover_tx_queue *txq)
{
	if (left->nb_buffers > 0)
		crossover_leftovers_give_back(left);
	if (left->nb_kept > 0)
		crossover_sent_push(txq, left->kept, left->nb_kept);
}

/* Counts frames as sent. */
void crossover_count_sent(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count);

#endif
