/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting inside the loop, for delays added on purpose and for locks. The time is set aside (accounting.h). */
#ifndef WAIT_H
#define WAIT_H

#include <rte_branch_prediction.h>

#include "poller.h"

/*
 * A wait overshoots by one read of the TSC, tens of cycles. If it overshoots by more than this, an interrupt or the
 * host prolonged it.
 */
#define WAIT_OVERSHOOT_CYCLES 2000

static __rte_always_inline void set_aside(struct poller *p, uint64_t cycles)
{
	p->aside_cycles += cycles;
}

/*
 * Return whether the window should have ended a second ago: a timed interval can last for hundreds of packets, each
 * with a delay. Without a trial the cost of a wait is being calibrated.
 */
static __rte_always_inline bool is_overdue(const struct poller *p, uint64_t now)
{
	return p->trial && p->stage != STAGE_DRAIN && now > p->trial->end_tsc + p->trial->tsc_hz;
}

/*
 * Wait, counted from `start`, for the whole outstanding delay. A wait takes slightly longer than requested; the excess
 * is subtracted from the next one, so that a delay of c cycles adds c cycles on average.
 */
static __rte_always_inline void wait_since(struct poller *p, uint64_t start)
{
	const int64_t wanted = unlikely(is_overdue(p, start)) ? 0 : p->owed_cycles - p->wait_cost_cycles;
	int64_t waited;

	do
		waited = (int64_t)(cycles_stamp() - start);
	while (waited < wanted);
	if (unlikely(waited > wanted + WAIT_OVERSHOOT_CYCLES))
		waited = RTE_MAX(wanted, INT64_C(0));
	/* delays shorter than the shortest wait must not accumulate credit for longer ones */
	p->owed_cycles = RTE_MAX(wanted - waited, (int64_t)-WAIT_OVERSHOOT_CYCLES);
	p->account->waited_cycles += (uint64_t)waited;
	set_aside(p, (uint64_t)waited);
}

/*
 * Wait for the delays of n packets. Drawing service times takes time, which counts as part of the wait. Fixed delays
 * shorter than the cost of a wait accumulate until they are worth one.
 */
static __rte_always_inline void wait_for_packets(struct poller *p, uint16_t n)
{
	const bool drawn = p->delays.service_drawn;
	const uint64_t before = drawn ? cycles_stamp() : 0;

	p->owed_cycles += (int64_t)delays_due(&p->delays, n, &p->account->delays);
	if (drawn)
		wait_since(p, before);
	else if (p->owed_cycles > p->wait_cost_cycles)
		wait_since(p, cycles_stamp());
}

/* Take the lock; count and time the wait if another lcore holds it. */
static __rte_always_inline void wait_for_lock(struct poller *p, rte_spinlock_t *lock)
{
	if (likely(rte_spinlock_trylock(lock)))
		return;
	const uint64_t start = cycles_stamp();

	rte_spinlock_lock(lock);
	const uint64_t waited = cycles_stamp() - start;

	p->account->lock_waits++;
	p->account->lock_cycles += waited;
	set_aside(p, waited);
}

#endif
