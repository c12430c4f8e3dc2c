/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a sender's core plays the NIC: the MAC filter, RSS, the copy (or swap) and the descriptors, which a NIC would
 * do by itself. Freeing sent mbufs is not among it, that is a driver's own work. Random chunks, about one in
 * CROSSOVER_WIRE_EVERY, are timed: a TX queue's frames x sampled cycles / sampled frames estimates the whole, whatever
 * the mixture of sizes, because a chunk is chosen before its frames are looked at.
 *
 * Distances between timed chunks are drawn at random, or they would beat against periods of the traffic.
 */
#ifndef CROSSOVER_WIRE_H
#define CROSSOVER_WIRE_H

#include "crossover_port.h"

#define CROSSOVER_WIRE_EVERY 64 /* chunks per timed one, on average; at most twice as many; a power of two */

/* Seeds the draws and measures what a stamp costs. For a TX queue that nobody sends on yet. */
void crossover_wire_init(struct crossover_tx_queue *txq);

/* Starts to time a chunk. */
uint64_t crossover_wire_begin(const struct crossover_tx_queue *txq);

/* Ends it: 'frames' frames, txq->counts.bytes was 'bytes_before' at the beginning. Draws the next chunk to be timed. */
void crossover_wire_end(struct crossover_tx_queue *txq, uint64_t begin, uint32_t frames,
                        uint64_t bytes_before);

/* Whether the next chunk is to be timed; to be asked once a chunk. */
static inline bool crossover_wire_due(struct crossover_tx_queue *txq)
{
	return __builtin_expect(--txq->wire_due == 0, 0);
}

#endif
