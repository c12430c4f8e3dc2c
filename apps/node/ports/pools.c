/* SPDX-License-Identifier: BSD-3-Clause */
#include "pools.h"

#include <stdio.h>
#include <stdlib.h>

#include "rng.h"

struct retired {
	struct retired *next;
	struct rte_mempool *pool;
};

static struct retired *waiting;

/* Bypass the cache of this lcore, which would keep the last objects in order. */
void pool_mix(struct rte_mempool *pool)
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

void pool_retire(struct rte_mempool *pool)
{
	struct retired *entry;

	if (!pool)
		return;
	entry = malloc(sizeof(*entry));
	if (!entry) {
		fprintf(stderr, "mempool %s stays for good: no memory to keep its name\n", pool->name);
		return;
	}
	*entry = (struct retired){.next = waiting, .pool = pool};
	waiting = entry;
	pools_free_retired();
}

unsigned int pools_free_retired(void)
{
	struct retired **link = &waiting;
	unsigned int left = 0;

	while (*link) {
		struct retired *entry = *link;

		if (rte_mempool_full(entry->pool)) {
			*link = entry->next;
			rte_mempool_free(entry->pool);
			free(entry);
		} else {
			link = &entry->next;
			left++;
		}
	}
	return left;
}
