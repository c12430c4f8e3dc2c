/* SPDX-License-Identifier: BSD-3-Clause */
#include "tsc_offsets.h"

#include <sched.h>
#include <stdbool.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "clock.h"
#include "cycles.h"
#include "lcore.h"
#include "tsc_offset.h"

#define LIMIT_NS 50000000 /* per CPU, which may be busy with other work */

static struct tsc_ball ball;

static int answer(void *arg)
{
	tsc_offset_answer(arg);
	return 0;
}

static json_t *absent(int cpu, const char *reason)
{
	return json_pack("{s:i,s:s}", "cpu", cpu, "absent", reason);
}

static json_t *measure(unsigned int lcore)
{
	const uint64_t limit = cycles_stamp() + cycles_of_ns(LIMIT_NS, clock_tsc_hz());

	atomic_store(&ball.ping, 0);
	atomic_store(&ball.pong, 0);
	if (rte_eal_remote_launch(answer, &ball, lcore) < 0)
		return absent(lcore_cpu(lcore), "the lcore cannot be launched");
	const struct tsc_offset offset = tsc_offset_ask(&ball, limit);

	lcore_wait_all();
	if (offset.rounds == 0)
		return absent(lcore_cpu(lcore), "no answer within 50 ms: something else has the CPU");
	return json_pack("{s:i,s:I,s:I,s:I}", "cpu", lcore_cpu(lcore), "low_cycles", (json_int_t)offset.low,
	                 "high_cycles", (json_int_t)offset.high, "rounds", (json_int_t)offset.rounds);
}

static bool is_bound(unsigned int lcore)
{
	const rte_cpuset_t set = rte_lcore_cpuset(lcore);

	return CPU_COUNT(&set) == 1;
}

json_t *tsc_offsets_json(void)
{
	const unsigned int main_lcore = rte_get_main_lcore();
	const int reference = lcore_cpu(main_lcore);
	rte_cpuset_t done;
	json_t *list = json_array();
	unsigned int lcore;

	CPU_ZERO(&done);
	CPU_SET((unsigned int)reference, &done);
	RTE_LCORE_FOREACH_WORKER (lcore) {
		const int cpu = lcore_cpu(lcore);
		const bool bound = is_bound(lcore) && is_bound(main_lcore);

		if (bound && CPU_ISSET((unsigned int)cpu, &done))
			continue;
		CPU_SET((unsigned int)cpu, &done);
		json_array_append_new(list, bound ? measure(lcore)
		                                  : absent(cpu, "an lcore is bound to several CPUs"));
	}
	return json_pack("{s:i,s:o}", "reference_cpu", reference, "cpus", list);
}
