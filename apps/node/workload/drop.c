/* SPDX-License-Identifier: BSD-3-Clause */
/* Every packet is freed, and no byte of it looked at: as a verdict (drop), or as the receiver of a rate test (rx). */
#include "loop/loop.h"
#include "workload.h"

static __rte_always_inline uint16_t process_drop(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	RTE_SET_USED(p);
	rte_pktmbuf_free_bulk(packets, n);
	return 0;
}

WORKLOAD_LOOPS(loops_drop, process_drop, false);

const struct workload workload_drop = {.receives = true, .loops = &loops_drop};
const struct workload workload_rx = {.receives = true, .loops = &loops_drop};
