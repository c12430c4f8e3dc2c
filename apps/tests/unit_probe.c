/* SPDX-License-Identifier: BSD-3-Clause */
/* The probe plug-in without a program. Its sources are included, because the plug-in exports nothing. */
#include "unit.h"

#include <pthread.h>
#include <time.h>

#include "../probe/record.c" /* NOLINT(bugprone-suspicious-include) */

static const struct rte_eth_rxtx_callback *no_such_queue(int port, ...)
{
	(void)port;
	return NULL;
}

#define rte_eth_add_rx_callback no_such_queue
#define rte_eth_add_tx_callback no_such_queue
#include "../probe/callbacks.c" /* NOLINT(bugprone-suspicious-include) */

/* Clocks of threads are missing, as where /proc belongs to another PID namespace and numbers threads differently. */
static int no_clock_of_a_thread(clockid_t clock, struct timespec *now)
{
	return clock == CLOCK_MONOTONIC ? clock_gettime(clock, now) : -1;
}

#define clock_gettime no_clock_of_a_thread
#include "../probe/grace.c" /* NOLINT(bugprone-suspicious-include) */
#undef clock_gettime

#define TSC_HZ        2000000000
#define PACKET_CYCLES 2000
#define GAPS          1000
#define FULL          32
#define LINE_BYTES    64
#define ATTEMPTS      20
#define LIMIT_S       10

static void full_burst_is_no_interruption(void)
{
	static struct probe_thread thread;
	struct probe_gaps *gaps = &thread.sums[PROBE_SINGLE].gaps[PROBE_BUSY_EMPTY];

	set_limits(&thread, TSC_HZ);
	for (int i = 0; i < GAPS; i++)
		add_gap(gaps, 1, 0, PACKET_CYCLES);
	set_limits(&thread, TSC_HZ);
	UNIT_CHECK(!add_gap(gaps, FULL, 0, FULL * PACKET_CYCLES));
	UNIT_CHECK(add_gap(gaps, 1, 0, FULL * PACKET_CYCLES));
	UNIT_CHECK(add_gap(gaps, FULL, 0, 2 * FULL * PACKET_CYCLES));
}

static void queues_do_not_share_cache_lines(void)
{
	add_to_port(0, PROBE_RX);
	UNIT_EQUAL((uintptr_t)ports[0][PROBE_RX].queues % LINE_BYTES, 0);
}

struct spinning {
	bool has_begun, is_over;
};

static void *spin(void *argument)
{
	struct spinning *state = argument;

	__atomic_store_n(&state->has_begun, true, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&state->is_over, __ATOMIC_RELAXED))
		;
	return NULL;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A busy host may hold up this thread between the two calls. */
static bool the_thread_is_inside_at_first(void)
{
	for (int i = 0; i < ATTEMPTS; i++)
		if (probe_grace_begin() == 0 && tasks_count > 0 && !is_outside(&tasks[0]))
			return true;
	return false;
}

/* The thread uses a CPU during that second, which proves nothing in a virtual machine whose CPU the host has stopped. */
static void grace_lasts_a_second_also_without_a_clock_of_the_thread(void)
{
	struct spinning state = {0};
	const time_t end = time(NULL) + LIMIT_S;
	int64_t begun_ms;
	pthread_t thread;

	if (pthread_create(&thread, NULL, spin, &state) != 0) {
		unit_fail(__FILE__, __LINE__, "pthread_create failed");
		return;
	}
	while (!__atomic_load_n(&state.has_begun, __ATOMIC_RELAXED))
		;
	begun_ms = now_ms();
	UNIT_CHECK(the_thread_is_inside_at_first());
	while (!probe_grace_over() && time(NULL) < end)
		;
	UNIT_CHECK(probe_grace_over());
	UNIT_CHECK(now_ms() - begun_ms >= 1000);
	__atomic_store_n(&state.is_over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

static const struct unit_case cases[] = {
        {"a full burst among single packets is no interruption", full_burst_is_no_interruption},
        {"queues do not share cache lines", queues_do_not_share_cache_lines},
        {"a grace period lasts a second, also without a clock of the thread",
         grace_lasts_a_second_also_without_a_clock_of_the_thread},
        {NULL, NULL},
};

const struct unit_suite unit_probe = {"probe", cases};
