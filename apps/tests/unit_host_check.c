/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "host_check.h"
#include "clock.h"
#include "cycles.h"
#include "median.h"
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

static double median_cycles(const uint64_t *cycles, size_t n)
{
	double values[HOST_CHECK_STEP_BATCHES];

	for (size_t i = 0; i < n; i++)
		values[i] = (double)cycles[i];
	return median_of(values, n).median;
}

static void core_is_timed(void)
{
	static struct host_check_core core;
	const size_t bytes = host_check_stream_bytes();
	void *buffer = aligned_alloc(64, bytes);

	UNIT_CHECK(buffer != NULL);
	if (!buffer)
		return;
	memset(buffer, 1, bytes);
	host_check_core_run(&core, buffer, bytes);
	free(buffer);
	const double chain = median_cycles(core.chain, HOST_CHECK_STEP_BATCHES);
	const double wide = median_cycles(core.wide, HOST_CHECK_STEP_BATCHES);

	/* a multiplication takes 3 to 4 cycles on any core of the last 15 years, and no core runs at 4 times its TSC */
	UNIT_CHECK(chain > 0.75 * HOST_CHECK_STEPS);
	/* parallel chains overlap: four cost less than four times one */
	UNIT_CHECK(wide < 0.75 * HOST_CHECK_WIDTH * chain);
	/* at most 256 bytes per cycle */
	UNIT_CHECK(median_cycles(core.stream, HOST_CHECK_STREAM_BATCHES) > (double)bytes / 256);
}

static void buffer_is_beyond_l2(void)
{
	const size_t bytes = host_check_stream_bytes();

	UNIT_EQUAL(bytes % 64, 0);
	UNIT_CHECK(bytes >= HOST_CHECK_STREAM_MIN && bytes <= HOST_CHECK_STREAM_MAX);
}

static const struct unit_case cases[] = {
        {"a line makes round trips between two threads", line_goes_to_and_fro},
        {"a line without a follower gives up in time", line_without_follower_gives_up},
        {"chains, wide work and reading are timed", core_is_timed},
        {"the buffer is a whole number of lines within its limits", buffer_is_beyond_l2},
        {NULL, NULL},
};

const struct unit_suite unit_host_check = {"host_check", cases};
