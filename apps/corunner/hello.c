/* SPDX-License-Identifier: BSD-3-Clause */
#include "hello.h"

#include <sched.h>
#include <unistd.h>

#include "clock.h"
#include "frequency.h"
#include "pmu.h"
#include "stress_ng.h"

#define PROTOCOL 3

static json_t *cpus_json(void)
{
	json_t *list = json_array();
	cpu_set_t allowed;

	CPU_ZERO(&allowed);
	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			json_array_append_new(list, json_integer(cpu));
	return list;
}

static void add_absent(json_t *absent, const char *thing, const char *reason)
{
	if (reason && *reason)
		json_object_set_new(absent, thing, json_string(reason));
}

static json_t *absent_json(void)
{
	json_t *absent = json_object();
	struct pmu_event events[PMU_COUNTERS];
	struct frequency frequency;
	struct pmu pmu;

	pmu_events_of_host(events);
	pmu_open(&pmu, events);
	add_absent(absent, "pmu", pmu.reason[PMU_CYCLES]);
	pmu_close(&pmu);
	frequency_open(&frequency, 0);
	if (frequency.source == FREQUENCY_ABSENT)
		add_absent(absent, "frequency", frequency.reason);
	frequency_close(&frequency);
	add_absent(absent, "stress-ng", stress_ng_absent());
	return absent;
}

json_t *hello(void)
{
	return json_pack("{s:s,s:i,s:s,s:s,s:I,s:i,s:o,s:o}", "event", "hello", "protocol", PROTOCOL,
	                 "program", "pollscope-corunner", "version", POLLSCOPE_VERSION, "tsc_hz",
	                 (json_int_t)clock_tsc_hz(), "pid", (int)getpid(), "cpus", cpus_json(), "absent",
	                 absent_json());
}
