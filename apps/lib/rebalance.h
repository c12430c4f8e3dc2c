/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which entries of a RETA go to another queue, so that all queues have about the same load (RSS++: Barbette et al., CoNEXT'19).
 * An entry is moved whole, from the queue that has most to the one that has least, as long as that makes the sum of
 * the queues' squared loads smaller; a large one is moved rather than many small ones, because a move may reorder its flows.
 */
#ifndef REBALANCE_H
#define REBALANCE_H

#include <stdint.h>

/*
 * By how much the queue with most of a load exceeds the mean, as a share of the mean; 0 without load. `loads` by RETA entry,
 * `reta` the queue of each, below `queues` (at most RSS_QUEUES_MAX).
 */
double rebalance_excess(const uint64_t *loads, const uint16_t *reta, unsigned int entries,
                        unsigned int queues);

/*
 * Moves entries (at most RSS_RETA_MAX, each once) until no queue exceeds the mean by more than the share `threshold` of it, or
 * no move makes it better. Changes `reta`; returns how many entries were moved.
 */
unsigned int rebalance(const uint64_t *loads, uint16_t *reta, unsigned int entries, unsigned int queues,
                       double threshold);

#endif
