/* SPDX-License-Identifier: BSD-3-Clause */
#include "longest.h"

#include <stdlib.h>
#include <string.h>

void longest_reset(struct longest *l, uint32_t capacity)
{
	memset(l, 0, sizeof(*l));
	l->capacity = capacity < LONGEST_MAX ? capacity : LONGEST_MAX;
	l->floor = l->capacity ? 0 : UINT64_MAX;
}

static uint32_t shortest_of(const struct longest *l)
{
	uint32_t shortest = 0;

	for (uint32_t i = 1; i < l->n; i++)
		if (l->entries[i].cycles < l->entries[shortest].cycles)
			shortest = i;
	return shortest;
}

void longest_insert(struct longest *l, struct longest_entry entry)
{
	if (l->n < l->capacity)
		l->entries[l->n++] = entry;
	else
		l->entries[shortest_of(l)] = entry;
	if (l->n == l->capacity)
		l->floor = l->entries[shortest_of(l)].cycles;
}

static int by_cycles_descending(const void *a, const void *b)
{
	const struct longest_entry *x = a, *y = b;

	return (x->cycles < y->cycles) - (x->cycles > y->cycles);
}

json_t *longest_to_json(const struct longest *l)
{
	struct longest_entry sorted[LONGEST_MAX];
	json_t *list = json_array();

	memcpy(sorted, l->entries, l->n * sizeof(sorted[0]));
	qsort(sorted, l->n, sizeof(sorted[0]), by_cycles_descending);
	for (uint32_t i = 0; i < l->n; i++)
		json_array_append_new(list, json_pack("{s:I,s:I,s:I}", "tsc", (json_int_t)sorted[i].tsc,
		                                      "cycles", (json_int_t)sorted[i].cycles, "sweeps",
		                                      (json_int_t)sorted[i].sweeps));
	return list;
}
