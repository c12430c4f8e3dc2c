/* SPDX-License-Identifier: BSD-3-Clause */
/* Hops through memory in random order. Each load depends on the one before, so the rate is the latency of memory. */
#include "work.h"

#include "rng.h"

#define STEP_HOPS 256

void chase_link(struct chase_element *elements, size_t n, uint64_t seed)
{
	struct rng rng;

	rng_seed(&rng, seed);
	for (size_t i = 0; i < n; i++)
		elements[i].next = &elements[i];
	/* Sattolo (IPL 22(6), 1986): partners from below i only, so that one cycle contains all elements */
	for (size_t i = n - 1; i > 0; i--) {
		struct chase_element *partner = &elements[rng_below(&rng, i)], *held = elements[i].next;

		elements[i].next = partner->next;
		partner->next = held;
	}
}

static uint64_t chase_step(struct work *work)
{
	const struct chase_element *at = work->at;

	for (unsigned int hop = 0; hop < STEP_HOPS; hop++)
		at = at->next;
	work->at = at;
	return STEP_HOPS;
}

void chase_prepare(struct work *work, uint64_t seed)
{
	const size_t n = work->footprint_bytes / CHASE_ELEMENT_BYTES;
	struct chase_element *elements = work->memory;

	chase_link(elements, n, seed);
	work->at = elements;
	work->size = n;
	work->footprint_bytes = n * CHASE_ELEMENT_BYTES;
	work->unit = "hops";
	work->step = chase_step;
}
