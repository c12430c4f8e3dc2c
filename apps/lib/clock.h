/* SPDX-License-Identifier: BSD-3-Clause */
/* The time-stamp counter, on which all windows are cut: the same for all processes of a host. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <x86intrin.h>

static inline uint64_t clock_tsc(void)
{
	return __rdtsc();
}

/*
 * Its frequency, measured against CLOCK_MONOTONIC_RAW for 20 ms at the first call: right to some millionths. That of
 * DPDK, rte_get_tsc_hz(), may be rounded to 10 MHz (eal_common_timer.c), which is 0.15 % on a host of 2596 MHz. The first
 * call belongs to the start of a program, before its threads.
 */
uint64_t clock_tsc_hz(void);

#endif
