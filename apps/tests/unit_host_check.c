/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>

#include "host_check.h"
#include "clock.h"
#include "cycles.h"
#include "unit.h"

#define SECOND_NS UINT64_C(1000000000)

static void *follow(void *line)
{
	host_check_line_follow(line);
	return NULL;
}

static uint64_t in_ns(uint64_t ns)
{
	return cycles_stamp() + cycles_of_ns(ns, clock_tsc_hz());
}

static void line_goes_to_and_fro(void)
{
	static struct host_check_line line;
	pthread_t follower;

	/* two threads of one CPU need a scheduler slice for each of 2048 moves */
	host_check_line_reset(&line, in_ns(60 * SECOND_NS));
	UNIT_EQUAL(pthread_create(&follower, NULL, follow, &line), 0);
	host_check_line_lead(&line);
	pthread_join(follower, NULL);
	UNIT_CHECK(line.complete);
	UNIT_EQUAL(atomic_load(&line.turn), 2 * HOST_CHECK_LINE_BATCHES * HOST_CHECK_LINE_TRIPS);
	for (int i = 0; i < HOST_CHECK_LINE_BATCHES; i++)
		UNIT_CHECK(line.cycles[i] > HOST_CHECK_LINE_TRIPS);
}

static void line_without_follower_gives_up(void)
{
	static struct host_check_line line;
	const uint64_t deadline = in_ns(1000000);

	host_check_line_reset(&line, deadline);
	host_check_line_lead(&line);
	UNIT_CHECK(!line.complete);
	UNIT_CHECK(cycles_stamp() > deadline);
	host_check_line_reset(&line, in_ns(1000000));
	host_check_line_follow(&line); /* returns as well */
	UNIT_EQUAL(atomic_load(&line.turn), 0);
}

static const struct unit_case cases[] = {
        {"a line makes round trips between two threads", line_goes_to_and_fro},
        {"a line without a follower gives up in time", line_without_follower_gives_up},
        {NULL, NULL},
};

const struct unit_suite unit_host_check = {"host_check", cases};
