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

bool lcore_is_listed(unsigned int lcore, const unsigned int lcores[], unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (lcores[i] == lcore)
			return true;
	return false;
}

/* Read the number of a worker lcore of this process. Returns 0, or -1 if it is none. */
static int read_worker(const json_t *value, unsigned int *lcore)
{
	const json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;

	if (number < 0 || number >= RTE_MAX_LCORE || !rte_lcore_is_enabled((unsigned int)number) ||
	    (unsigned int)number == rte_get_main_lcore())
		return -1;
	*lcore = (unsigned int)number;
	return 0;
}

int lcore_list(const json_t *list, const char *where, unsigned int lcores[], struct node_error *err)
{
	json_t *item;
	size_t i;
	int n = 0;

	if (!json_is_array(list) || json_array_size(list) == 0)
		return node_fail(err, where, "must be an array of at least one lcore");
	json_array_foreach(list, i, item)
	{
		unsigned int lcore;

		if (read_worker(item, &lcore))
			return node_fail(err, where, "item %zu is not a worker lcore of this process", i);
		if (lcore_is_listed(lcore, lcores, (unsigned int)n))
			return node_fail(err, where, "lcore %u is listed twice", lcore);
		lcores[n++] = lcore;
	}
	return n;
}
