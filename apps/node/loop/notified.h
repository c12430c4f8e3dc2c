/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notified loops (notification qwait, SOURCE_NOTIFIED). loop.h makes one for every workload.
 *
 * An iteration takes the next ready queue, polls it once, works, and arms the queue or makes it ready again. The
 * doorbell has no counter; the DD bit of the next descriptor says whether the queue is empty. So the poll itself is
 * what qwait.h calls verify, and arm_or_activate() is reconsider. With nothing ready the lcore waits, and that time
 * is set aside (accounting.h).
 */
#ifndef NOTIFIED_H
#define NOTIFIED_H

#include <rte_branch_prediction.h>
#include <rte_ethdev.h>
#include <rte_pause.h>

#include "event.h"
#include "wait.h"

/* The longest sleep without a look at the phase of the trial. */
#define SLEEP_MAX_NS UINT64_C(1000000)

/* A ready queue: the waiter whose set has it, its number there, and the RX queue. */
struct turn {
	struct qwait_waiter *of;
	uint32_t qid;
	uint16_t queue;
};

/* Take a queue from the set of a later worker. */
static __rte_noinline bool steal(struct poller *p, struct turn *turn)
{
	uint32_t v;

	turn->qid = qwait_steal(p->victims, p->nb_victims, &v);
	if (turn->qid == QWAIT_NONE)
		return false;
	turn->of = &p->victims[v];
	turn->queue = (uint16_t)((p->first_queue + 1 + v) % p->queue_step + turn->qid * p->queue_step);
	p->stolen++;
	p->waiter.sleep_at_ns = 0;
	return true;
}

/* Return true if *turn is the next queue. */
static __rte_always_inline bool next_turn(struct poller *p, struct turn *turn)
{
	turn->of = &p->waiter;
	turn->qid = qwait_next(&p->waiter);
	turn->queue = (uint16_t)(p->first_queue + turn->qid * p->queue_step);
	return likely(turn->qid != QWAIT_NONE) || (p->nb_victims > 0 && steal(p, turn));
}

/* Return whether a queue may be ready. */
static __rte_always_inline bool any_ready(struct poller *p)
{
	bool any = qwait_look(&p->waiter);

	for (uint32_t v = 0; unlikely(v < p->nb_victims) && !any; v++)
		any = qwait_any(p->victims[v].set);
	return any;
}

/* Wait because nothing is ready, but not beyond the next read of the TSC. Returns true if a queue is ready. */
static __rte_always_inline bool wait_for_ring(struct poller *p)
{
	const struct qwait *set = p->waiter.set;
	const uint64_t start = cycles_stamp();
	uint64_t now = start;
	bool rung;

	if (set->config.idle == QWAIT_PAUSE) {
		while (!(rung = any_ready(p)) && now - start < EVENT_CYCLES) {
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
 * Decide about a queue after a poll of n packets. A full burst usually leaves packets behind, so the queue is made
 * ready again. Otherwise it is armed first and then looked at, or an arrival in between would be lost. If every
 * arrival raises an event and the queue is still armed, nothing is to be done.
 */
static __rte_always_inline void arm_or_activate(struct poller *p, const struct turn *turn, uint16_t n)
{
	struct qwait *set = turn->of->set;

	if (n < p->burst) {
		if (likely(qwait_stays_armed(set, turn->qid)))
			return;
		qwait_rearm(set, turn->qid);
		if (likely(rte_eth_rx_descriptor_status(p->rx_port, turn->queue, 0) !=
		           RTE_ETH_RX_DESC_DONE) ||
		    !qwait_take_back(set, turn->qid))
			return;
	}
	qwait_activate(set, turn->qid);
}

#endif
