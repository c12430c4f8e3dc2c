/* SPDX-License-Identifier: BSD-3-Clause */
/* Mempools from which packets come and in which they may stay for a while. For the control thread only. */
#ifndef POOLS_H
#define POOLS_H

#include <rte_mempool.h>

/*
 * Brings the objects of a pool, none of which is in use, into random order (the same each time). A new pool gives them out
 * by address; cores that share it then walk along their parts at a constant distance, and a prefetcher goes on into the
 * other's part and takes the lines away from it: two cores with a queue each did 1.6 times the work of one (feed=infinite,
 * cores far from each other), and 2.0 times with the objects mixed. Any pool gets mixed by use, and then one core has no
 * constant distances for its prefetcher either (up to 5 % of its rate). Where there is no memory for it, the order stays.
 */
void pool_mix(struct rte_mempool *pool);

/*
 * Takes over a pool that was replaced while some of its mbufs may still lie in a port's ring (NULL: nothing to do). Frees it
 * and those taken over before as soon as all of their mbufs have come back: now or in a later call.
 */
void pool_retire(struct rte_mempool *pool);

/* Frees the retired pools that are whole again. Returns how many still wait. */
unsigned int pools_free_retired(void);

#endif
