/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The schedule of intended departure times (slots) of an open-loop generator, in TSC cycles.
 *
 * Slots are absolute: each follows from the one before it by the arrival process alone, never from when a
 * packet was really sent, so being late once does not move the slots that follow. A slot that is due (its
 * time has come) may be sent together with other due slots, up to one burst per iteration of the loop. A slot
 * that is reached more than `late_max_cycles` after its time is skipped and counted as unsent: the schedule
 * is never made up for behind the reader's back. What is sent late, but within the limit, is seen in the
 * histogram of lateness.
 */
#ifndef PACING_H
#define PACING_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

/* TSC cycles in 64.64 fixed point: a constant rate drifts by less than one cycle in 2^64 packets. */
__extension__ typedef unsigned __int128 pacing_time;

struct pacer {
	pacing_time next; /* the first slot that was not taken yet */
	pacing_time step; /* constant arrivals: distance of two slots */
	double mean_q20;  /* Poisson arrivals: mean distance, 44.20 fixed point */
	uint64_t late_max_cycles;
	bool poisson;
	const uint32_t *gaps_ns; /* recorded distances, taken in turn; NULL: not of a record */
	uint32_t gaps;
	uint32_t gap;               /* the next one */
	uint64_t cycles_per_ns_q40; /* 24.40 fixed point */
	const uint32_t
	        *turns; /* distances of one's own slots among all, taken in turn; NULL: all are one's own */
	uint32_t turns_count;
	uint32_t turn; /* the next one */
	struct rng rng;
	struct rng_exponential layers;
};

/*
 * Skipped slots that one call of pacer_take() may count where each has to be drawn, so that a schedule that runs
 * faster than it can be counted does not hold up the loop.
 */
#define PACING_SKIPS_PER_TURN 4096

/* Slots every `interval_cycles` (> 0, may be fractional) from `begin_tsc` on, the first one at begin_tsc. */
void pacer_constant(struct pacer *pacer, uint64_t begin_tsc, long double interval_cycles,
                    uint64_t late_max_cycles);

/* A Poisson process with that mean distance: the first slot lies one exponential distance after begin_tsc. */
void pacer_poisson(struct pacer *pacer, uint64_t begin_tsc, double interval_cycles, uint64_t late_max_cycles,
                   uint64_t seed);

/*
 * Slots as far apart as recorded, stretched to `cycles_per_ns` (2^-40 < 2^24), over and over. gaps_ns[0] lies before the first slot,
 * which is at begin_tsc, from the second turn on. The record outlives the pacer. Its unit may be any other than ns.
 */
void pacer_gaps(struct pacer *pacer, uint64_t begin_tsc, const uint32_t *gaps_ns, uint32_t gaps,
                double cycles_per_ns, uint64_t late_max_cycles);

/*
 * Of the slots that were to come only some from now on, the others are somebody else's: the one after `first` more, then each as
 * many after the one before as turns[] says, from turns[1] on and over and over. It outlives the pacer. Without any: no slot.
 */
void pacer_share(struct pacer *pacer, uint32_t first, const uint32_t *turns, uint32_t turns_count);

/* No slot, ever. */
void pacer_silent(struct pacer *pacer);

/*
 * Poisson arrivals with another mean distance from `now` on. The process has no memory, so the next slot is simply drawn anew
 * from there; those that were due before `now` should have been taken. For a pacer made by pacer_poisson().
 */
void pacer_set_mean(struct pacer *pacer, uint64_t now, double interval_cycles);

/* Time of the first slot that was not taken yet. */
static inline uint64_t pacer_next(const struct pacer *pacer)
{
	return (uint64_t)(pacer->next >> 64);
}

static inline bool pacer_is_constant(const struct pacer *pacer)
{
	return !pacer->poisson && pacer->gaps_ns == NULL && pacer->turns == NULL;
}

/* Distance of the next two slots of a Poisson process. */
static inline pacing_time pacer_draw(const struct pacer *pacer, struct rng *rng)
{
	return (pacing_time)(uint64_t)(rng_exponential(&pacer->layers, rng) * pacer->mean_q20) << 44;
}

/* By so many slots, whosever they are. */
static inline void pacer_step(struct pacer *pacer, uint32_t slots)
{
	if (pacer->poisson)
		for (; slots > 0; slots--)
			pacer->next += pacer_draw(pacer, &pacer->rng);
	else if (pacer->gaps_ns != NULL)
		for (; slots > 0; slots--) {
			pacer->next += (pacing_time)pacer->gaps_ns[pacer->gap] * pacer->cycles_per_ns_q40
			               << 24;
			if (++pacer->gap == pacer->gaps)
				pacer->gap = 0;
		}
	else
		pacer->next += pacer->step * slots;
}

/* To one's own next slot. */
static inline void pacer_advance(struct pacer *pacer)
{
	uint32_t slots = 1;

	if (pacer->turns != NULL) {
		slots = pacer->turns[pacer->turn];
		if (++pacer->turn == pacer->turns_count)
			pacer->turn = 0;
	}
	pacer_step(pacer, slots);
}

/* Give up slots before `limit`: all of constant distances at once, else at most `most`, one by one. Returns how many. */
uint64_t pacer_skip(struct pacer *pacer, uint64_t limit, uint64_t most);

/* The slots before `end` into intended[], at most `max`; where they are recorded, or some are somebody else's. */
unsigned int pacer_list_by_steps(struct pacer *pacer, uint64_t end, uint64_t *intended, unsigned int max);

/* The same of any. A loop for each process, which has what it changes in registers. */
static inline unsigned int pacer_list(struct pacer *pacer, uint64_t end, uint64_t *intended, unsigned int max)
{
	pacing_time next = pacer->next;
	unsigned int n = 0;

	if (__builtin_expect(pacer->turns != NULL || pacer->gaps_ns != NULL, 0))
		return pacer_list_by_steps(pacer, end, intended, max);
	if (pacer->poisson) {
		struct rng rng = pacer->rng;

		for (; n < max && (uint64_t)(next >> 64) < end; next += pacer_draw(pacer, &rng))
			intended[n++] = (uint64_t)(next >> 64);
		pacer->rng = rng;
	} else {
		const pacing_time step = pacer->step;

		if ((uint64_t)((next + (max - 1) * step) >> 64) <
		    end) /* behind by all of them: nothing to compare */
			for (; n < max; next += step)
				intended[n++] = (uint64_t)(next >> 64);
		for (; n < max && (uint64_t)(next >> 64) < end; next += step)
			intended[n++] = (uint64_t)(next >> 64);
	}
	pacer->next = next;
	return n;
}

/*
 * Take up to `max` slots that are due at `now` and lie before `limit`, oldest first, into intended[]. Slots
 * that are too late are counted in *skipped instead. Returns the number of slots taken.
 */
static inline unsigned int pacer_take(struct pacer *pacer, uint64_t now, uint64_t limit, uint64_t *intended,
                                      unsigned int max, uint64_t *skipped)
{
	const uint64_t end = now < limit ? now + 1 : limit; /* a slot at `now` is due */

	if (pacer_next(pacer) >= end)
		return 0;
	if (__builtin_expect(now - pacer_next(pacer) > pacer->late_max_cycles, 0)) {
		const uint64_t too_late = now - pacer->late_max_cycles;

		*skipped += pacer_skip(pacer, too_late < end ? too_late : end, PACING_SKIPS_PER_TURN);
		if (pacer_next(pacer) < too_late)
			return 0;
	}
	return pacer_list(pacer, end, intended, max);
}

/* From now on no slot is due until pacer_set_mean(). */
static inline void pacer_hold(struct pacer *pacer)
{
	pacer->next = ~(pacing_time)0;
}

/* Give up all slots before `limit`; returns how many. */
uint64_t pacer_skip_until(struct pacer *pacer, uint64_t limit);

#endif
