/* SPDX-License-Identifier: BSD-3-Clause */
#include "dispatcher.h"

#include "loop/loop.h"

/* Drop what the ring does not take: its workers are behind. */
static __rte_always_inline void send_ring(struct poller *p, struct rte_mbuf **packets, uint16_t n,
                                          uint64_t bytes)
{
	struct account *a = p->account;
	const uint16_t handed = handoff_put(p->ring, packets, n);

	RTE_SET_USED(bytes);
	if (unlikely(handed != n)) {
		a->ring_full += n - handed;
		rte_pktmbuf_free_bulk(packets + handed, n - handed);
	}
	a->handed_packets += handed;
}

SAMPLED_LOOP(loop_dispatcher, SOURCE_RX_QUEUES, false, receive_alone, process_nothing, false, send_ring)

const poll_loop_fn dispatcher_loop = loop_dispatcher;
