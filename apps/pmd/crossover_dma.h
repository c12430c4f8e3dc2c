/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The DMA engine between two ports, run by the sender's core: brings frames into the buffers that the receiver posted,
 * then sets the DD bits of up to CROSSOVER_CHUNK descriptors together, as NICs coalesce their write-backs.
 */
#ifndef CROSSOVER_DMA_H
#define CROSSOVER_DMA_H

#include "crossover_port.h"

/*
 * Delivers 'count' (at most CROSSOVER_CHUNK) frames to one RX queue and counts them on both sides. tags[i] is or-ed into
 * the write-back word of frame i (hash and its flag); NULL: no tags. The caller holds the ring if it is shared.
 *
 * dma=copy: the caller keeps all mbufs. dma=swap: mbufs that could change hands are gone, the others were pushed to the
 * TX ring; the caller keeps none. A buffer changes hands only if it comes from the mempool of the RX queue (an RX queue
 * gives out mbufs of its own pool, applications rely on it), is neither shared, attached nor external, is one segment,
 * and has the usual headroom; otherwise the frame is copied.
 */
void crossover_dma_copy(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                        struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count);
void crossover_dma_swap(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                        struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count);

/* Counts frames as sent. */
void crossover_count_sent(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count);

#endif
