/* SPDX-License-Identifier: BSD-3-Clause */
#include "lcore.h"

#include <time.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#define NAP_NS 200000

void lcore_wait_all(void)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	unsigned int lcore;

	RTE_LCORE_FOREACH_WORKER (lcore) {
		while (rte_eal_get_lcore_state(lcore) == RUNNING)
			nanosleep(&nap, NULL);
		rte_eal_wait_lcore(lcore);
	}
}

int lcore_cpu(unsigned int lcore)
{
	const rte_cpuset_t set = rte_lcore_cpuset(lcore);

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			return cpu;
	return -1;
}
