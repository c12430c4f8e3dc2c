/* SPDX-License-Identifier: BSD-3-Clause */
/* The time-stamp counter that cuts all windows; the same for all processes of a host. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <x86intrin.h>

static inline uint64_t clock_tsc(void)
{
	return __rdtsc();
}

/*
 * Return its frequency, measured against CLOCK_MONOTONIC_RAW for 20 ms at the first call and right to a few millionths. DPDK's
 * rte_get_tsc_hz() can be rounded to 10 MHz (eal_common_timer.c), which is 0.15 % on a host of 2596 MHz. Make the first call at
 * the start of a program, before its threads.
 */
uint64_t clock_tsc_hz(void);

#endif
