/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The schedule of intended departure times (slots) of an open-loop generator, in TSC cycles.
 *
 * Slots are absolute: each follows from the one before by the arrival process alone, never from when a packet was really sent.
 * So a late packet does not move later slots. A due slot may be sent together with other due slots, up to one burst per
 * iteration of the loop. A slot that is reached more than `late_max_cycles` after its time is skipped and counted as unsent;
 * the schedule is never made up for silently. Lateness within the limit appears in its histogram.
 */
#ifndef PACING_H
#define PACING_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

/* TSC cycles in 64.64 fixed point: a constant rate drifts by less than one cycle in 2^64 packets. */
__extension__ typedef unsigned __int128 pacing_time;

struct pacer {
	pacing_time next; /* the first slot not yet taken */
	pacing_time step; /* constant arrivals: distance of two slots */
	double mean_q20;  /* Poisson arrivals: mean distance, 44.20 fixed point */
	uint64_t late_max_cycles;
	bool poisson;
	const uint32_t *gaps_ns; /* recorded distances, taken in order; NULL: none */
	uint32_t gaps;
	uint32_t gap;               /* the next one */
	uint64_t cycles_per_ns_q40; /* 24.40 fixed point */
	const uint32_t *
	        turns; /* distances of this sender's slots among all, taken in order; NULL: all slots are its own */
	uint32_t turns_count;
	uint32_t turn; /* the next one */
	struct rng rng;
	struct rng_exponential layers;
};

/*
 * The most skipped slots that one call of pacer_take() counts if each must be drawn, so that a schedule faster than it can be
 * counted does not block the loop.
 */
#define PACING_SKIPS_PER_TURN 4096

/* Make slots every `interval_cycles` (> 0, may be fractional) from `begin_tsc` on, the first one at begin_tsc. */
void pacer_constant(struct pacer *pacer, uint64_t begin_tsc, long double interval_cycles,
                    uint64_t late_max_cycles);

/* Make a Poisson process with this mean distance: the first slot lies one exponential distance after begin_tsc. */
void pacer_poisson(struct pacer *pacer, uint64_t begin_tsc, double interval_cycles, uint64_t late_max_cycles,
                   uint64_t seed);

/*
 * Make slots at recorded distances, stretched to `cycles_per_ns` (2^-40 < 2^24), over and over. gaps_ns[0] lies before the
 * first slot, from the second repetition on; the first slot is at begin_tsc. The record must outlive the pacer. Its unit may be
 * any other than ns.
 */
void pacer_gaps(struct pacer *pacer, uint64_t begin_tsc, const uint32_t *gaps_ns, uint32_t gaps,
                double cycles_per_ns, uint64_t late_max_cycles);

/*
 * Keep only some of the coming slots, because the others belong to other senders: the one after `first` more, then each as many
 * after the one before as turns[] says, from turns[1] on and over and over. turns[] must outlive the pacer. Without any: no
 * slot.
 */
void pacer_share(struct pacer *pacer, uint32_t first, const uint32_t *turns, uint32_t turns_count);

/* Make no slot, ever. */
void pacer_silent(struct pacer *pacer);

/*
 * Change the mean distance of Poisson arrivals from `now` on. The process has no memory, so the next slot is drawn again from
 * there; take those due before `now` first. For a pacer made by pacer_poisson().
 */
void pacer_set_mean(struct pacer *pacer, uint64_t now, double interval_cycles);

/* Return the time of the first slot not yet taken. */
static inline uint64_t pacer_next(const struct pacer *pacer)
{
	return (uint64_t)(pacer->next >> 64);
}

static inline bool pacer_is_constant(const struct pacer *pacer)
{
	return !pacer->poisson && pacer->gaps_ns == NULL && pacer->turns == NULL;
}

/* Draw the distance of the next two slots of a Poisson process. */
static inline pacing_time pacer_draw(const struct pacer *pacer, struct rng *rng)
{
	return (pacing_time)(uint64_t)(rng_exponential(&pacer->layers, rng) * pacer->mean_q20) << 44;
}

/* Advance by this many slots, of any sender. */
static inline void pacer_step(struct pacer *pacer, uint32_t slots)
{
	if (pacer->poisson) {
		pacing_time next = pacer->next;
		struct rng rng = pacer->rng;

		for (; slots > 0; slots--)
			next += pacer_draw(pacer, &rng);
		pacer->next = next;
		pacer->rng = rng;
	} else if (pacer->gaps_ns != NULL)
		for (; slots > 0; slots--) {
			pacer->next += (pacing_time)pacer->gaps_ns[pacer->gap] * pacer->cycles_per_ns_q40
			               << 24;
			if (++pacer->gap == pacer->gaps)
				pacer->gap = 0;
		}
	else
		pacer->next += pacer->step * slots;
}

/* Advance to the next slot of this sender. */
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

/* Give up slots before `limit`: all at once with constant distances, else at most `most`, one by one. Returns how many. */
uint64_t pacer_skip(struct pacer *pacer, uint64_t limit, uint64_t most);

/* List the slots before `end` in intended[], at most `max`, if they are recorded or shared with other senders. */
unsigned int pacer_list_by_steps(struct pacer *pacer, uint64_t end, uint64_t *intended, unsigned int max);

/* The same for any process. Each process has a loop of its own, which keeps its state in registers. */
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
		    end) /* all of them are past: nothing to compare */
			for (; n < max; next += step)
				intended[n++] = (uint64_t)(next >> 64);
		for (; n < max && (uint64_t)(next >> 64) < end; next += step)
			intended[n++] = (uint64_t)(next >> 64);
	}
	pacer->next = next;
	return n;
}

/*
 * Take up to `max` slots that are due at `now` and lie before `limit`, oldest first, into intended[]. Slots that are too late
 * are counted in *skipped instead. Returns the number of slots taken.
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

/* Make no slot due until pacer_set_mean(). */
static inline void pacer_hold(struct pacer *pacer)
{
	pacer->next = ~(pacing_time)0;
}

/* Give up all slots before `limit`; returns how many. */
uint64_t pacer_skip_until(struct pacer *pacer, uint64_t limit);

#endif
