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

/* As where /proc belongs to another PID namespace and numbers threads differently. */
static int no_such_clock(clockid_t clock, struct timespec *used)
{
	(void)clock, (void)used;
	return -1;
}

#define clock_gettime no_such_clock
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

/* A busy host may hold up this thread between the two calls. */
static bool is_over_at_once(void)
{
	for (int i = 0; i < ATTEMPTS; i++)
		if (probe_grace_begin() == 0 && !probe_grace_over())
			return false;
	return true;
}

static void grace_lasts_without_a_clock_of_the_thread(void)
{
	struct spinning state = {0};
	const time_t end = time(NULL) + LIMIT_S;
	pthread_t thread;

	if (pthread_create(&thread, NULL, spin, &state) != 0) {
		unit_fail(__FILE__, __LINE__, "pthread_create failed");
		return;
	}
	while (!__atomic_load_n(&state.has_begun, __ATOMIC_RELAXED))
		;
	UNIT_CHECK(!is_over_at_once());
	while (!probe_grace_over() && time(NULL) < end)
		;
	UNIT_CHECK(probe_grace_over());
	__atomic_store_n(&state.is_over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

static const struct unit_case cases[] = {
        {"a full burst among single packets is no interruption", full_burst_is_no_interruption},
        {"queues do not share cache lines", queues_do_not_share_cache_lines},
        {"a grace period lasts without a clock of the thread", grace_lasts_without_a_clock_of_the_thread},
        {NULL, NULL},
};

const struct unit_suite unit_probe = {"probe", cases};
