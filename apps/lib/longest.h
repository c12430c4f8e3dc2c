/* SPDX-License-Identifier: BSD-3-Clause */
/* The N longest of many intervals, with the TSC at which each ended. One writer. */
#ifndef LONGEST_H
#define LONGEST_H

#include <stdint.h>
#include <jansson.h>

#define LONGEST_MAX 256

struct longest_entry {
	uint64_t tsc;
	uint64_t cycles;
	uint32_t sweeps; /* iterations in the interval */
};

struct longest {
	uint64_t floor; /* an interval must be longer than this to enter */
	uint32_t n;
	uint32_t capacity; /* 0..LONGEST_MAX */
	struct longest_entry entries[LONGEST_MAX];
};

void longest_reset(struct longest *l, uint32_t capacity);

/* Replace the shortest entry and raise the floor. */
void longest_insert(struct longest *l, struct longest_entry entry);

static inline void longest_offer(struct longest *l, uint64_t tsc, uint64_t cycles, uint32_t sweeps)
{
	if (__builtin_expect(cycles > l->floor, 0))
		longest_insert(l, (struct longest_entry){tsc, cycles, sweeps});
}

/* Return [{"tsc":...,"cycles":...,"sweeps":...}], longest first, a new reference. */
json_t *longest_to_json(const struct longest *l);

#endif
