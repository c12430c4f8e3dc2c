/* SPDX-License-Identifier: BSD-3-Clause */
/* Mempools whose packets may stay out for a while. Control thread only. */
#ifndef POOLS_H
#define POOLS_H

#include <rte_mempool.h>

/*
 * Put the unused objects of a pool into a random order, the same each time. A new pool gives them out by address. Cores that
 * share it then walk along their parts at a constant distance, and the prefetcher of one runs into the other's part and takes
 * its lines: two cores with one queue each did 1.6 times the work of one (feed=infinite, far CPUs), and 2.0 times with mixed
 * objects. Use mixes any pool. A single core then has no constant distances for its prefetcher either, which costs up to 5 % of
 * its rate. If there is no memory for the shuffle, the order stays.
 */
void pool_mix(struct rte_mempool *pool);

/*
 * Take over a replaced pool while some of its mbufs may still lie in a port's ring (NULL: nothing to do). It and those taken
 * over earlier are freed once all their mbufs have come back: now or in a later call.
 */
void pool_retire(struct rte_mempool *pool);

/* Free the retired pools that are complete again. Returns how many still wait. */
unsigned int pools_free_retired(void);

#endif
