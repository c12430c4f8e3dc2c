/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "mix_pool.h"
#include "rng.h"

/* Past the cache of this lcore, which would keep the last ones in order. */
void mix_pool(struct rte_mempool *pool)
{
	void **objects = malloc(pool->size * sizeof(*objects));
	struct rng rng;

	rng_seed(&rng, 0);
	if (objects && rte_mempool_generic_get(pool, objects, pool->size, NULL) == 0) {
		rng_shuffle(&rng, objects, pool->size, sizeof(*objects));
		rte_mempool_generic_put(pool, objects, pool->size, NULL);
	}
	free(objects);
}
