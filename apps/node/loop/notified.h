/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loops that are told which queue has packets (notification qwait), for SOURCE_NOTIFIED. loop.h makes one for every workload.
 *
 * A turn is: the next ready queue, one poll of it, work, and the queue is armed or made ready again. The doorbell has no counter, the DD
 * bit of the next descriptor says whether the queue is empty. So what qwait.h calls verify is the poll itself, and reconsider
 * is arm_or_activate(). With nothing ready the lcore waits, and that time is set aside (accounting.h).
 */
#ifndef NOTIFIED_H
#define NOTIFIED_H

#include <rte_branch_prediction.h>
#include <rte_ethdev.h>
#include <rte_pause.h>

#include "event.h"
#include "wait.h"

/* So long at most without a look at the trial's phase. */
#define SLEEP_MAX_NS UINT64_C(1000000)

/* Nothing is ready: wait, but not beyond the next look at the TSC. True: something is. */
static __rte_always_inline bool wait_for_ring(struct poller *p)
{
	struct qwait *set = p->waiter.set;
	const uint64_t start = cycles_stamp();
	uint64_t now = start;
	bool rung;

	if (set->config.idle == QWAIT_PAUSE) {
		while (!(rung = qwait_any(set)) && now - start < EVENT_CYCLES) {
			rte_pause();
			now = cycles_stamp();
		}
	} else {
		const uint64_t boundary = poll_boundary(p);
		const uint64_t left_ns = cycles_to_ns(boundary > now ? boundary - now : 0, p->trial->tsc_hz);

		rung = qwait_idle(&p->waiter, RTE_MIN(left_ns, SLEEP_MAX_NS));
	}
	now = cycles_stamp();
	p->account->idle_waits++;
	p->account->idle_cycles += now - start;
	p->account->stamps += 2;
	set_aside(p, now - start);
	return rung;
}

/*
 * Behind a poll that found n packets. A full burst left more behind, as a rule: the next turn of the queue looks. Otherwise it is
 * armed first and looked at then, or an arrival in between would be lost.
 */
static __rte_always_inline void arm_or_activate(struct poller *p, uint32_t qid, uint16_t queue, uint16_t n)
{
	struct qwait *set = p->waiter.set;

	if (n < p->burst) {
		qwait_rearm(set, qid);
		if (likely(rte_eth_rx_descriptor_status(p->rx_port, queue, 0) != RTE_ETH_RX_DESC_DONE) ||
		    !qwait_take_back(set, qid))
			return;
	}
	qwait_activate(set, qid);
}

/* Every queue is ready once, whatever became of its doorbell before: what waits in it is found. */
static inline void notify_all(struct poller *p)
{
	for (uint32_t qid = 0; qid < p->queues; qid++)
		qwait_activate(p->waiter.set, qid);
}

#endif
