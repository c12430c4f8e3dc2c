/* SPDX-License-Identifier: BSD-3-Clause */
#include "clock.h"

#include <time.h>

#define MEASURE_NS 20000000

struct pair {
	uint64_t tsc;
	uint64_t ns;
};

static uint64_t raw_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Read both clocks at about the same time: of several tries, the one in which the two reads were closest. */
static struct pair read_pair(void)
{
	struct pair best = {0, 0};
	uint64_t least = UINT64_MAX;

	for (unsigned int i = 0; i < 32; i++) {
		const uint64_t before = clock_tsc(), ns = raw_ns(), after = clock_tsc();

		if (after - before < least) {
			least = after - before;
			best = (struct pair){before + least / 2, ns};
		}
	}
	return best;
}

uint64_t clock_tsc_hz(void)
{
	static uint64_t hz;
	const struct timespec pause = {.tv_nsec = MEASURE_NS};

	if (!hz) {
		const struct pair from = read_pair();

		nanosleep(&pause, NULL);
		const struct pair to = read_pair();

		hz = (uint64_t)((unsigned __int128)(to.tsc - from.tsc) * 1000000000u / (to.ns - from.ns));
	}
	return hz;
}
