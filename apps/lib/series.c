/* SPDX-License-Identifier: BSD-3-Clause */
#include "series.h"

static void keep(struct series *s, const struct account *a, uint64_t now)
{
	s->points[s->count++] = (struct series_point){
	        .tsc = now,
	        .rx_packets = a->rx_packets,
	        .tx_packets = a->tx_packets,
	        .sweeps = a->sweeps,
	        .interrupted_cycles = a->interrupted_cycles,
	};
}

void series_reset(struct series *s)
{
	s->count = 0;
	s->next_tsc = UINT64_MAX;
}

void series_open(struct series *s, uint64_t start, uint64_t end)
{
	const uint64_t interval = (end - start) / SERIES_INTERVALS;

	s->interval_cycles = interval ? interval : 1;
	s->points[0] = (struct series_point){.tsc = start};
	s->count = 1;
	s->next_tsc = start + s->interval_cycles;
}

void series_mark(struct series *s, const struct account *a, uint64_t now)
{
	const uint64_t passed = (now - s->points[0].tsc) / s->interval_cycles;

	keep(s, a, now);
	/* series_close() ends the last part. */
	s->next_tsc = passed + 1 < SERIES_INTERVALS ? s->points[0].tsc + (passed + 1) * s->interval_cycles
	                                            : UINT64_MAX;
}

void series_close(struct series *s, const struct account *a, uint64_t now)
{
	if (s->count > 0 && now > s->points[s->count - 1].tsc)
		keep(s, a, now);
	s->next_tsc = UINT64_MAX;
}
