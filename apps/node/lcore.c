/* SPDX-License-Identifier: BSD-3-Clause */
#include "lcore.h"

#include <time.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "cycles.h"

#define NAP_NS 200000

bool lcore_is_out(unsigned int lcore)
{
	return rte_eal_get_lcore_state(lcore) == RUNNING;
}

bool lcore_wait_until(uint64_t limit_tsc)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	unsigned int lcore;

	RTE_LCORE_FOREACH_WORKER (lcore) {
		while (lcore_is_out(lcore)) {
			if (cycles_stamp() >= limit_tsc)
				return false;
			nanosleep(&nap, NULL);
		}
		rte_eal_wait_lcore(lcore);
	}
	return true;
}

void lcore_wait_all(void)
{
	lcore_wait_until(UINT64_MAX);
}

int lcore_cpu(unsigned int lcore)
{
	const rte_cpuset_t set = rte_lcore_cpuset(lcore);

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			return cpu;
	return -1;
}
