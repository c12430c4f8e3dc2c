/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For stress tests that stop their threads between any two steps: maybe_stall() before each atomic access. Before including it,
 * define STALL_ODDS (one access in so many sleeps, up to STALL_NS) and YIELD_ODDS (one in so many yields its processor).
 */
#ifndef STALL_H
#define STALL_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

static _Thread_local uint32_t draws = 1; /* never 0; each thread sets its own */
static _Thread_local uint64_t stalls;    /* number of sleeps of this thread */

/* xorshift32 (Marsaglia, 2003) */
static uint32_t draw(void)
{
	draws ^= draws << 13;
	draws ^= draws >> 17;
	draws ^= draws << 5;
	return draws;
}

static void maybe_stall(void)
{
	const uint32_t drawn = draw();

	if (drawn % STALL_ODDS == 0) {
		nanosleep(&(struct timespec){.tv_nsec = (long)(draw() % STALL_NS)}, NULL);
		stalls++;
	} else if (drawn % YIELD_ODDS == 0) {
		sched_yield();
	}
}

#endif
