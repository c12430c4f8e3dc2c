/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a loop that polls all its queues does when nothing comes (SOURCE_WAITING): after some sweeps without a packet it waits, for a
 * packet or for time (enum poller_wait), and polls on. That time is set aside and counted as waiting.
 *
 * Who waits for a packet arms the doorbell of its queues, looks at them all once more, and sleeps; who sends sets DD and looks at the
 * arming. Why none of them misses the other stands in qwait_protocol.h: the doorbell is armed before the look, as in
 * qwait.h, and after a wait of any outcome the loop polls all queues.
 */
#ifndef QUIET_H
#define QUIET_H

#include "poller.h"

/* A sweep found so many packets. True: it is time to wait. */
static inline bool quiet_enough(struct poller *p, uint64_t packets)
{
	if (packets) {
		p->quiet_sweeps = 0;
		return false;
	}
	return ++p->quiet_sweeps >= p->quiet_limit;
}

/* Sweeps without a packet that take p->wait_after_cycles at present; when `waits` is false, as good as for ever. */
void quiet_plan(struct poller *p, bool waits);

/* Wait, but no longer than to the end of the trial's stage, and QUIET_WAIT_NS. */
#define QUIET_WAIT_NS UINT64_C(1000000)
void quiet_wait(struct poller *p);

/* This processor and this DPDK can halt on a line (rte_power_monitor()), or on several (rte_power_monitor_multi()). */
bool quiet_has_monitor(bool several);

#endif
