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

/* Its frequency, measured against CLOCK_MONOTONIC_RAW for 20 ms at the first call: right to some millionths. */
uint64_t clock_tsc_hz(void);

#endif
