/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One trial as every lcore sees it. The main lcore fills it, launches the lcores and owns `phase`; the lcores read it. All
 * lcores of a node share one TSC (checked at the start: tsc_offsets.h), so the same TSC values cut every window.
 */
#ifndef TRIAL_H
#define TRIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TRIAL_NAME_MAX 128

enum trial_rate_kind {
	TRIAL_RATE_PPS,        /* value: packets per second, 0 = silent */
	TRIAL_RATE_LINE_SHARE, /* value: 0..1 of the TX port's line rate, framing as RFC 2544 (frame + 20 bytes) */
	TRIAL_RATE_TRACE_SHARE, /* value: of the rate at which the generator's trace was recorded */
	TRIAL_RATE_SATURATE,    /* as fast as the core can; value unused */
};

struct trial_rate {
	enum trial_rate_kind kind;
	double value;
};

/*
 * RUN:   traffic flows; the generator sends from begin_tsc to end_tsc.
 * DRAIN: the generator sends no more frames; every lcore continues to receive (and the DUT forwarding). A generator
 * enters it at end_tsc without waiting for the main lcore, which sets it for an early stop. Once all of its frames have
 * come back (or if it does not receive) a generator calls sched_yield() in every iteration: on small machines the main
 * lcore shares its CPU and needs it to watch the drain. Before that it does not, because the latency of these frames is
 * still recorded.
 * OVER:  lcore functions return at once.
 */
enum trial_phase { TRIAL_RUN, TRIAL_DRAIN, TRIAL_OVER };

struct trial {
	char name[TRIAL_NAME_MAX + 1];
	uint64_t tsc_hz;
	uint64_t begin_tsc; /* warm-up and traffic begin; in the future when lcores are launched */
	uint64_t start_tsc; /* window: counts of the result are those in [start_tsc, end_tsc) */
	uint64_t end_tsc;
	struct trial_rate rate;
	_Atomic(int) phase;  /* enum trial_phase; polled by lcores with a relaxed load */
	int wake_fd;         /* eventfd of the main lcore: see trial_wake() */
	atomic_bool *closed; /* by lcore: its window is closed; NULL: not needed */
};

static inline enum trial_phase trial_phase(const struct trial *trial)
{
	return (enum trial_phase)atomic_load_explicit(&trial->phase, memory_order_relaxed);
}

/* Tell the main lcore that this lcore has closed its window (or cannot continue). Called once per lcore and trial. */
void trial_wake(const struct trial *trial);

#endif
