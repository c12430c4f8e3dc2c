/* SPDX-License-Identifier: BSD-3-Clause */
#include "pacing.h"

#include <math.h>

void pacer_constant(struct pacer *pacer, uint64_t begin_tsc, long double interval_cycles,
                    uint64_t late_max_cycles)
{
	const uint64_t whole = (uint64_t)interval_cycles;
	const uint64_t fraction = (uint64_t)ldexpl(interval_cycles - (long double)whole, 64);

	*pacer = (struct pacer){
	        .next = (pacing_time)begin_tsc << 64,
	        .step = ((pacing_time)whole << 64) | fraction,
	        .late_max_cycles = late_max_cycles,
	};
}

void pacer_poisson(struct pacer *pacer, uint64_t begin_tsc, double interval_cycles, uint64_t late_max_cycles,
                   uint64_t seed)
{
	*pacer = (struct pacer){
	        .next = (pacing_time)begin_tsc << 64,
	        .mean_q20 = ldexp(interval_cycles, 20),
	        .late_max_cycles = late_max_cycles,
	        .poisson = true,
	};
	rng_seed(&pacer->rng, seed);
	rng_exponential_init(&pacer->layers);
	pacer_advance(pacer);
}

void pacer_gaps(struct pacer *pacer, uint64_t begin_tsc, const uint32_t *gaps_ns, uint32_t gaps,
                double cycles_per_ns, uint64_t late_max_cycles)
{
	*pacer = (struct pacer){
	        .next = (pacing_time)begin_tsc << 64,
	        .late_max_cycles = late_max_cycles,
	        .gaps_ns = gaps_ns,
	        .gaps = gaps,
	        .gap = 1 % gaps,
	        .cycles_per_ns_q40 = (uint64_t)ldexp(cycles_per_ns, 40),
	};
}

void pacer_share(struct pacer *pacer, uint32_t first, const uint32_t *turns, uint32_t turns_count)
{
	if (turns_count == 0) {
		pacer_silent(pacer);
		return;
	}
	pacer_step(pacer, first);
	pacer->turns = turns;
	pacer->turns_count = turns_count;
	pacer->turn = 1 % turns_count;
}

void pacer_silent(struct pacer *pacer)
{
	*pacer = (struct pacer){.next = ~(pacing_time)0};
}

void pacer_set_mean(struct pacer *pacer, uint64_t now, double interval_cycles)
{
	pacer->next = (pacing_time)now << 64;
	pacer->mean_q20 = ldexp(interval_cycles, 20);
	pacer_advance(pacer);
}

unsigned int pacer_list_by_steps(struct pacer *pacer, uint64_t end, uint64_t *intended, unsigned int max)
{
	unsigned int n = 0;

	for (; n < max && pacer_next(pacer) < end; pacer_advance(pacer))
		intended[n++] = pacer_next(pacer);
	return n;
}

uint64_t pacer_skip(struct pacer *pacer, uint64_t limit, uint64_t most)
{
	uint64_t skipped = 0;

	if (pacer_next(pacer) >= limit)
		return 0;
	if (pacer_is_constant(pacer)) {
		const pacing_time ahead = ((pacing_time)limit << 64) - pacer->next;

		skipped = (uint64_t)((ahead + pacer->step - 1) / pacer->step);
		pacer->next += skipped * pacer->step;
		return skipped;
	}
	if (pacer->poisson && pacer->turns == NULL) {
		pacing_time next = pacer->next;
		struct rng rng = pacer->rng;

		for (; skipped < most && (uint64_t)(next >> 64) < limit; skipped++)
			next += pacer_draw(pacer, &rng);
		pacer->next = next;
		pacer->rng = rng;
		return skipped;
	}
	for (; skipped < most && pacer_next(pacer) < limit; skipped++)
		pacer_advance(pacer);
	return skipped;
}

uint64_t pacer_skip_until(struct pacer *pacer, uint64_t limit)
{
	return pacer_skip(pacer, limit, UINT64_MAX);
}
