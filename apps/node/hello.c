/* SPDX-License-Identifier: BSD-3-Clause */
#include "hello.h"

#include <stdio.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_version.h>

#include "clock.h"
#include "lcore.h"
#include "pmu.h"
#include "ports/ports.h"
#include "tsc_offsets.h"

#define PROTOCOL 3

static json_t *lcores_json(void)
{
	json_t *list = json_array();
	unsigned int lcore;

	RTE_LCORE_FOREACH (lcore)
		json_array_append_new(list,
		                      json_pack("{s:i,s:i,s:i}", "lcore", (int)lcore, "cpu", lcore_cpu(lcore),
		                                "socket", (int)rte_lcore_to_socket_id(lcore)));
	return list;
}

/* Each missing counter with its reason; one line if all are missing for the same one. */
static void add_absent_counters(json_t *absent)
{
	struct pmu_event events[PMU_COUNTERS];
	struct pmu pmu;

	pmu_events_of_host(events);
	pmu_open(&pmu, events);
	if (!pmu.any)
		json_object_set_new(absent, "pmu", json_string(pmu.reason[PMU_INSTRUCTIONS]));
	for (int i = 0; pmu.any && i < PMU_COUNTERS; i++) {
		char thing[32];

		if (pmu.fd[i] >= 0)
			continue;
		snprintf(thing, sizeof(thing), "pmu.%s", pmu_names[i]);
		json_object_set_new(absent, thing, json_string(pmu.reason[i]));
	}
	if (pmu.any && !pmu.user_readable)
		json_object_set_new(absent, "pmu.classes",
		                    json_string("counters cannot be read in user space (rdpmc)"));
	pmu_close(&pmu);
}

json_t *hello(void)
{
	json_t *absent = json_object();
	json_t *event = json_pack("{s:s,s:i,s:s,s:s,s:I,s:b,s:i,s:i,s:o,s:o}", "event", "hello", "protocol",
	                          PROTOCOL, "version", POLLSCOPE_VERSION, "dpdk", rte_version(), "tsc_hz",
	                          (json_int_t)clock_tsc_hz(), "hugepages", rte_eal_has_hugepages() != 0,
	                          "pid", (int)getpid(), "main_lcore", (int)rte_get_main_lcore(), "lcores",
	                          lcores_json(), "ports", ports_hello(absent));

	json_object_set_new(event, "tsc_offsets", tsc_offsets_json());
	add_absent_counters(absent);
	json_object_set_new(event, "absent", absent);
	return event;
}
