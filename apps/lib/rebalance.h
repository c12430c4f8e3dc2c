/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choose entries of a RETA that move to another queue, so that all queues have about the same load (RSS++: Barbette et al.,
 * CoNEXT'19). An entry moves whole, from the fullest queue to the emptiest, as long as that reduces the sum of the squared
 * loads of the queues. One large entry moves rather than many small ones, because a move can reorder its flows.
 */
#ifndef REBALANCE_H
#define REBALANCE_H

#include <stdint.h>

/*
 * Return by how much the fullest queue exceeds the mean, as a share of the mean; 0 without load. `loads` by RETA entry, `reta`
 * the queue of each, below `queues` (at most RSS_QUEUES_MAX).
 */
double rebalance_excess(const uint64_t *loads, const uint16_t *reta, unsigned int entries,
                        unsigned int queues);

/*
 * Move entries (at most RSS_RETA_MAX, each once) until no queue exceeds the mean by more than the share `threshold` of it, or
 * no move helps. Changes `reta`; returns how many entries were moved.
 */
unsigned int rebalance(const uint64_t *loads, uint16_t *reta, unsigned int entries, unsigned int queues,
                       double threshold);

#endif
