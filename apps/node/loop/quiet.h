/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits of a loop that polls all its queues (SOURCE_WAITING): after some sweeps without a packet it waits for a
 * packet or for time (enum poller_wait), and then polls on. That time is set aside and counted as waiting.
 *
 * To wait for a packet the lcore arms the doorbell of its queues, looks at all of them once more, and sleeps. The
 * sender sets DD and then looks at the doorbell. qwait_protocol.h explains why neither misses the other: the doorbell
 * is armed before the look, and after every wait the loop polls all queues.
 */
#ifndef QUIET_H
#define QUIET_H

#include "poller.h"

/* Count a sweep with this many packets. Returns true if it is time to wait. */
static inline bool quiet_enough(struct poller *p, uint64_t packets)
{
	if (packets) {
		p->quiet_sweeps = 0;
		return false;
	}
	return ++p->quiet_sweeps >= p->quiet_limit;
}

/* Set how many sweeps without a packet take p->wait_after_cycles now; with `waits` false, practically never wait. */
void quiet_plan(struct poller *p, bool waits);

/* Wait at most to the end of the trial's stage, and at most QUIET_WAIT_NS. */
#define QUIET_WAIT_NS UINT64_C(1000000)
void quiet_wait(struct poller *p);

/*
 * Return whether processor and DPDK can halt on a line (rte_power_monitor()), or on several
 * (rte_power_monitor_multi()).
 */
bool quiet_has_monitor(bool several);

#endif
