/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: emulate a processor that can halt on one line and on several, to test the notifications monitor and
 * monitor-multi elsewhere. It halts until a DPDK condition reports that a line has the expected value.
 */
#include <sched.h>
#include <string.h>

#include <rte_common.h>
#include <rte_cpuflags.h>
#include <rte_cycles.h>
#include <rte_power_intrinsics.h>

static int is_written(const struct rte_power_monitor_cond *line)
{
	uint64_t value = 0;

	memcpy(&value, (const void *)(uintptr_t)line->addr, line->size);
	return line->fn(value, line->opaque) != 0;
}

void rte_cpu_get_intrinsics_support(struct rte_cpu_intrinsics *found)
{
	*found = (struct rte_cpu_intrinsics){.power_monitor = 1, .power_pause = 1, .power_monitor_multi = 1};
}

int rte_power_monitor_multi(const struct rte_power_monitor_cond lines[], const uint32_t n,
                            const uint64_t end_tsc)
{
	do {
		for (uint32_t i = 0; i < n; i++)
			if (is_written(&lines[i]))
				return 0;
		sched_yield();
		rte_compiler_barrier();
	} while (rte_rdtsc() < end_tsc);
	return 0;
}

int rte_power_monitor(const struct rte_power_monitor_cond *line, const uint64_t end_tsc)
{
	return rte_power_monitor_multi(line, 1, end_tsc);
}
