/* SPDX-License-Identifier: BSD-3-Clause */
/* Every packet is freed. */
#include "poll_loop.h"
#include "workload.h"

static __rte_always_inline uint16_t process_drop(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	RTE_SET_USED(p);
	rte_pktmbuf_free_bulk(packets, n);
	return 0;
}

POLL_LOOPS(loops_drop, receive_scale_out, process_drop);

const struct workload workload_drop = {.name = "drop", .sends = false, .loops = loops_drop};
