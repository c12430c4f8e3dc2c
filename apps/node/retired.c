/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "retired.h"

struct retired {
	struct retired *next;
	struct rte_mempool *pool;
};

static struct retired *waiting;

void retired_add(struct rte_mempool *pool)
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
	retired_free();
}

unsigned int retired_free(void)
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
