/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock of every measurement: the time-stamp counter of this core, in cycles of tsc_hz (not of the core's clock). */
#ifndef CYCLES_H
#define CYCLES_H

#include <stdint.h>
#include <rte_cycles.h>

/*
 * Read a stamp with plain rdtsc. It does not wait for earlier instructions, so it marks when they were issued, not when they
 * completed; over a loop the parts that overlap a stamp cancel. It costs a fraction of a serialised read, and neighbouring
 * polls overlap as they do without it.
 */
static __rte_always_inline uint64_t cycles_stamp(void)
{
	return rte_rdtsc();
}

/* Read after all earlier instructions and before all later ones; for calibration. */
static inline uint64_t cycles_serialised(void)
{
	const uint64_t now = rte_rdtsc_precise();

	rte_rmb();
	return now;
}

static inline uint64_t cycles_of_ns(uint64_t ns, uint64_t tsc_hz)
{
	return (uint64_t)((unsigned __int128)ns * tsc_hz / 1000000000u);
}

static inline uint64_t cycles_to_ns(uint64_t cycles, uint64_t tsc_hz)
{
	return (uint64_t)((unsigned __int128)cycles * 1000000000u / tsc_hz);
}

#endif
