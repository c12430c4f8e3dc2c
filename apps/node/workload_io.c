/* SPDX-License-Identifier: BSD-3-Clause */
/* Every packet goes out as it came in. */
#include "poll_loop.h"
#include "workload.h"

static __rte_always_inline uint16_t process_io(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	RTE_SET_USED(p);
	RTE_SET_USED(packets);
	return n;
}

WORKLOAD_LOOPS(loops_io, process_io, false);

const struct workload workload_io = {.name = "io", .receives = true, .sends = true, .loops = loops_io};
