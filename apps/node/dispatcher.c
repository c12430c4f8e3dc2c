/* SPDX-License-Identifier: BSD-3-Clause */
/* A dispatcher reads its RX queues and hands every burst on through its ring. */
#include "poll_loop.h"
#include "workload.h"

static __rte_always_inline uint16_t process_nothing(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	RTE_SET_USED(p);
	RTE_SET_USED(packets);
	return n;
}

POLL_LOOPS(loops_dispatcher, SOURCE_RX_QUEUES, false, receive_alone, process_nothing, false, send_ring);

const poll_loop_fn *const dispatcher_loops = loops_dispatcher;
