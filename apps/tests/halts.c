/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: emulate a processor that can halt on one line and on several, to test the notifications monitor and
 * monitor-multi elsewhere. It halts until a DPDK condition reports that a line has the expected value. The file that
 * POLLSCOPE_HALTS names counts in two numbers of 64 bits how many halts ended so, and how many by time.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_common.h>
#include <rte_cpuflags.h>
#include <rte_cycles.h>
#include <rte_power_intrinsics.h>

enum end { BY_WRITE, BY_TIME, ENDS };
static uint64_t uncounted[ENDS], *ended = uncounted;

static __attribute__((constructor)) void map_counters(void)
{
	const char *path = getenv("POLLSCOPE_HALTS");

	if (path == NULL)
		return;
	ended = mmap(NULL, sizeof(uncounted), PROT_READ | PROT_WRITE, MAP_SHARED, open(path, O_RDWR), 0);
	if (ended == MAP_FAILED)
		abort();
}

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
			if (is_written(&lines[i])) {
				ended[BY_WRITE]++;
				return 0;
			}
		sched_yield();
		rte_compiler_barrier();
	} while (rte_rdtsc() < end_tsc);
	ended[BY_TIME]++;
	return 0;
}

int rte_power_monitor(const struct rte_power_monitor_cond *line, const uint64_t end_tsc)
{
	return rte_power_monitor_multi(line, 1, end_tsc);
}
