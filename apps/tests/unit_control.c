/* SPDX-License-Identifier: BSD-3-Clause */
/* Check the parts of the node's conversation: errors, medians, the list of the longest, counters. */
#include "unit.h"

#include <string.h>

#include "longest.h"
#include "median.h"
#include "node_error.h"
#include "pmu.h"

static void errors_stay_utf8_when_cut(void)
{
	struct node_error err;
	char umlauts[600];

	for (int i = 0; i < 598; i += 2)
		memcpy(umlauts + i, "\xc3\xa4", 2);
	umlauts[598] = '\0';
	for (int shift = 0; shift < 2; shift++) {
		node_fail(&err, umlauts, "%s%s", shift ? "x" : "", umlauts);
		json_t *text = json_string(err.text), *where = json_string(err.where);

		UNIT_CHECK(text != NULL && where != NULL);
		json_decref(text);
		json_decref(where);
	}
}

static void median_has_its_interval(void)
{
	double values[11] = {5, 3, 9, 1, 7, 11, 2, 10, 4, 8, 6}, two[2] = {4, 1};
	struct median m = median_of(values, 11);

	UNIT_NEAR(m.median, 6, 0);
	/* P(fewer than 2 of 11 below the median) = 0.006, fewer than 3: 0.033 */
	UNIT_NEAR(m.low, 2, 0);
	UNIT_NEAR(m.high, 10, 0);
	m = median_of(two, 2);
	UNIT_NEAR(m.median, 2.5, 0);
	UNIT_NEAR(m.low, 1, 0);
	UNIT_NEAR(m.high, 4, 0);
}

static void longest_keeps_the_longest(void)
{
	static struct longest l;
	json_int_t first, second, third;

	longest_reset(&l, 3);
	for (uint64_t i = 0; i < 1000; i++)
		longest_offer(&l, i, (i * 619) % 1000, 1);
	json_t *list = longest_to_json(&l);

	UNIT_EQUAL(json_array_size(list), 3);
	UNIT_EQUAL(json_unpack(list, "[{s:I},{s:I},{s:I}]", "cycles", &first, "cycles", &second, "cycles",
	                       &third),
	           0);
	UNIT_CHECK(first == 999 && second == 998 && third == 997);
	json_decref(list);
	longest_reset(&l, 0);
	longest_offer(&l, 1, UINT64_MAX, 1);
	UNIT_EQUAL(l.n, 0);
}

/* Software events stand in for hardware events, which virtual machines often lack: same calls, same files. */
static void counters_count_and_absent_ones_say_why(void)
{
	struct pmu_event events[PMU_COUNTERS];
	struct pmu_reading from, to;
	double value = 0, share = 1;
	struct pmu pmu;

	for (int i = 0; i < PMU_COUNTERS; i++)
		events[i] = (struct pmu_event){.type = PMU_NO_EVENT};
	events[0] = (struct pmu_event){.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK};
	events[1] = (struct pmu_event){.type = PERF_TYPE_SOFTWARE, .config = UINT64_MAX};
	pmu_open(&pmu, events);
	UNIT_CHECK(pmu.reason[1][0] != '\0' && pmu.reason[2][0] != '\0');
	UNIT_CHECK(!pmu.user_readable);
	if (pmu.any) { /* not if perf_event_paranoid forbids it */
		volatile unsigned int spins = 0;

		pmu_read(&pmu, &from);
		while (spins < 10000000)
			spins++;
		pmu_read(&pmu, &to);
		UNIT_CHECK(pmu_difference(&from, &to, 0, &value, &share));
		UNIT_CHECK(value > 100000 && value < 60e9);
		UNIT_NEAR(share, 0, 0);
		UNIT_CHECK(!pmu_difference(&from, &from, 0, &value, &share));
	}
	pmu_close(&pmu);
}

static void multiplexed_counters_are_scaled(void)
{
	struct pmu_reading from = {0}, to = {0};
	double value, share;

	to.value[3] = 500;
	to.enabled_ns[3] = 1000;
	to.running_ns[3] = 250;
	UNIT_CHECK(pmu_difference(&from, &to, 3, &value, &share));
	UNIT_NEAR(value, 2000, 1e-9);
	UNIT_NEAR(share, 0.75, 1e-9);
}

static const struct unit_case cases[] = {
        {"errors stay UTF-8 when cut", errors_stay_utf8_when_cut},
        {"median has its interval", median_has_its_interval},
        {"longest keeps the longest", longest_keeps_the_longest},
        {"counters count, and absent ones say why", counters_count_and_absent_ones_say_why},
        {"multiplexed counters are scaled", multiplexed_counters_are_scaled},
        {NULL, NULL},
};

const struct unit_suite unit_control = {"control", cases};
