/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops that call the process function of a workload once per burst, instead of inlining it. */
#include "loop/loop.h"
#include "workload.h"

static __rte_always_inline uint16_t process_called(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	return p->process(p, packets, n);
}

WORKLOAD_LOOPS(loops_called, process_called, true);

const loop_table *const called_loops = &loops_called;
