/* SPDX-License-Identifier: BSD-3-Clause */
/* Check the parts of a window: the requested number, none lost at its end, a host gap in one of them. */
#include "unit.h"

#include "series.h"

#define START    1000
#define INTERVAL 100
#define END      (START + SERIES_INTERVALS * INTERVAL)

/* Run a loop that reads the TSC every `step` cycles and gets one packet each time, until the window closes. */
static void run(struct series *s, struct account *a, uint64_t from, uint64_t step)
{
	uint64_t now = from;

	for (; now < END; now += step) {
		a->rx_packets++;
		a->sweeps += 2;
		if (now >= s->next_tsc)
			series_mark(s, a, now);
	}
	series_close(s, a, now);
}

static void test_parts_of_a_steady_loop(void)
{
	struct account a = {0};
	struct series s;

	series_reset(&s);
	series_open(&s, START, END);
	run(&s, &a, START, 10);
	UNIT_EQUAL(s.count, SERIES_INTERVALS + 1);
	for (uint32_t i = 2; i + 1 < s.count; i++) {
		UNIT_EQUAL(s.points[i].tsc - s.points[i - 1].tsc, INTERVAL);
		UNIT_EQUAL(s.points[i].sweeps - s.points[i - 1].sweeps, 2 * INTERVAL / 10);
	}
	UNIT_EQUAL(s.points[s.count - 1].rx_packets, a.rx_packets);
	UNIT_EQUAL(s.next_tsc, UINT64_MAX);
}

static void test_a_gap_is_one_long_part(void)
{
	struct account a = {0};
	struct series s;

	series_open(&s, START, END);
	run(&s, &a, START + 10 * INTERVAL, 10);
	UNIT_EQUAL(s.points[1].tsc - s.points[0].tsc, 10 * INTERVAL);
	UNIT_EQUAL(s.points[2].tsc - s.points[1].tsc, INTERVAL);
	UNIT_EQUAL(s.count, SERIES_INTERVALS + 1 - 9);
}

static void test_an_early_stop_and_a_short_window(void)
{
	struct account a = {0};
	struct series s;

	series_open(&s, START, END);
	series_close(&s, &a, START + 7);
	UNIT_EQUAL(s.count, 2);
	series_reset(&s);
	series_close(&s, &a, END);
	UNIT_EQUAL(s.count, 0);
	series_open(&s, START, START); /* nothing to cut, and no division by zero */
	series_mark(&s, &a, START + SERIES_INTERVALS);
	series_close(&s, &a, START + SERIES_INTERVALS + 1);
	UNIT_EQUAL(s.count, 3);
}

static const struct unit_case cases[] = {
        {"a steady loop has parts of one length", test_parts_of_a_steady_loop},
        {"a gap is one long part", test_a_gap_is_one_long_part},
        {"an early stop, a window without length", test_an_early_stop_and_a_short_window},
        {NULL, NULL},
};

const struct unit_suite unit_series = {"series", cases};
