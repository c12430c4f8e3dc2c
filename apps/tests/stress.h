/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For stress tests that stop their threads between any two steps: maybe_stall() before each atomic access. Before including it,
 * define STALL_ODDS (one access in so many sleeps, up to STALL_NS) and YIELD_ODDS (one in so many yields its processor).
 */
#ifndef STRESS_H
#define STRESS_H

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../lib/argument.h"

static uint32_t seed;                    /* of all threads' draws */
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

/* Says what is wrong with which item or count, and ends the program. */
static _Noreturn void wrong(const char *what, uint64_t number)
{
	fprintf(stderr, "%s: %s (%" PRIu64 ", seed %" PRIu32 ")\n", program_invocation_short_name, what,
	        number, seed);
	_Exit(EXIT_FAILURE);
}

/* Keeps the value if the argument is missing. */
static bool number(int argc, char **argv, int i, uint64_t least, uint64_t most, uint64_t *value)
{
	return i >= argc || argument_number(argv[i], least, most, value);
}

#endif
