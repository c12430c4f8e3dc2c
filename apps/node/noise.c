/* SPDX-License-Identifier: BSD-3-Clause */
#include "noise.h"

#include <time.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "clock.h"
#include "cycles.h"
#include "fields.h"
#include "lcore.h"

#define DURATION_MAX_NS UINT64_C(60000000000)
#define LAUNCH_NS       1000000 /* until all lcores spin */

struct spin {
	bool asked;
	uint64_t begin_tsc;
	uint64_t end_tsc;
	uint64_t limit[3]; /* 1, 10, 100 us in cycles */
	uint64_t over[3];
	uint64_t longest;
	uint64_t duration;
};

static struct spin spins[RTE_MAX_LCORE];

static int run_spin(void *arg)
{
	struct spin *spin = arg;
	uint64_t last;

	while (cycles_stamp() < spin->begin_tsc)
		;
	const uint64_t first = last = cycles_stamp();

	while (last < spin->end_tsc) {
		const uint64_t now = cycles_stamp(), gap = now - last;

		last = now;
		if (likely(gap <= spin->limit[0]))
			continue;
		for (int i = 0; i < 3; i++)
			spin->over[i] += gap > spin->limit[i];
		spin->longest = RTE_MAX(spin->longest, gap);
	}
	spin->duration = last - first;
	return 0;
}

static int parse(json_t *request, uint64_t *duration_ns, struct node_error *err)
{
	static const struct field fields[] = {
	        FIELDS_OF_REQUEST,
	        {.key = "lcores", .required = true},
	        {"duration_ns", FIELD_NUMBER, 0, sizeof(uint64_t), .min = 1000, .max = DURATION_MAX_NS},
	        {0}};
	unsigned int lcores[RTE_MAX_LCORE], lcore;

	RTE_LCORE_FOREACH (lcore)
		spins[lcore] = (struct spin){0};
	*duration_ns = 1000000000;
	if (fields_read(request, "", fields, duration_ns, err))
		return -1;
	const int n = lcore_list(json_object_get(request, "lcores"), "lcores", lcores, err);

	for (int i = 0; i < n; i++)
		spins[lcores[i]].asked = true;
	return n < 0 ? -1 : 0;
}

static int launch(uint64_t duration_ns, struct node_error *err)
{
	const uint64_t hz = clock_tsc_hz();
	const uint64_t begin = cycles_stamp() + cycles_of_ns(LAUNCH_NS, hz);
	unsigned int lcore;
	int status = 0;

	RTE_LCORE_FOREACH_WORKER (lcore) {
		struct spin *spin = &spins[lcore];

		if (!spin->asked)
			continue;
		spin->begin_tsc = begin;
		spin->end_tsc = begin + cycles_of_ns(duration_ns, hz);
		for (uint64_t i = 0, ns = 1000; i < 3; i++, ns *= 10)
			spin->limit[i] = cycles_of_ns(ns, hz);
		if (rte_eal_remote_launch(run_spin, spin, lcore) < 0)
			status = node_fail(err, "lcores", "lcore %u cannot be launched", lcore);
	}
	/* not lcore_wait_all() alone, whose wake-ups would be noise on the main lcore's CPU */
	const struct timespec duration = {.tv_sec = (time_t)(duration_ns / NS_PER_S),
	                                  .tv_nsec = (long)(duration_ns % NS_PER_S)};

	nanosleep(&duration, NULL);
	lcore_wait_all();
	return status;
}

json_t *noise(json_t *request, struct node_error *err)
{
	const uint64_t hz = clock_tsc_hz();
	uint64_t duration_ns;
	unsigned int lcore;

	if (parse(request, &duration_ns, err) || launch(duration_ns, err) < 0)
		return NULL;
	json_t *list = json_array();

	RTE_LCORE_FOREACH_WORKER (lcore) {
		const struct spin *s = &spins[lcore];

		if (!s->asked)
			continue;
		json_array_append_new(list,
		                      json_pack("{s:i,s:i,s:I,s:I,s:I,s:I,s:I}", "lcore", (int)lcore, "cpu",
		                                lcore_cpu(lcore), "duration_ns",
		                                (json_int_t)cycles_to_ns(s->duration, hz), "over_1us",
		                                (json_int_t)s->over[0], "over_10us", (json_int_t)s->over[1],
		                                "over_100us", (json_int_t)s->over[2], "longest_ns",
		                                (json_int_t)cycles_to_ns(s->longest, hz)));
	}
	return list;
}
