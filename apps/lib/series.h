/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of a polling lcore over its window, in SERIES_INTERVALS parts of about equal length, so that a reader sees whether
 * the lcore had settled when the window opened. A part ends at the first read of the TSC after its time, so a host gap makes
 * one part long and swallows the next ones. One lcore writes; read after its window has closed.
 */
#ifndef SERIES_H
#define SERIES_H

#include <stdint.h>

#include "accounting.h"

#define SERIES_INTERVALS 64

/* Counters since the window opened; the first point is the opening itself. */
struct series_point {
	uint64_t tsc;
	uint64_t rx_packets;
	uint64_t tx_packets;
	uint64_t sweeps;
	uint64_t interrupted_cycles;
};

struct series {
	uint64_t next_tsc; /* time of the next point; UINT64_MAX: none */
	uint64_t interval_cycles;
	uint32_t count;
	struct series_point points[SERIES_INTERVALS + 1];
};

/* No point is due. */
void series_reset(struct series *s);

/* The window opened at `start` and will close at `end` (> start). */
void series_open(struct series *s, uint64_t start, uint64_t end);

/* Keep the counters of `a` at `now` and plan the next point. */
void series_mark(struct series *s, const struct account *a, uint64_t now);

/* The window closed at `now`: the last point. */
void series_close(struct series *s, const struct account *a, uint64_t now);

#endif
