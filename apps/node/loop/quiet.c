/* SPDX-License-Identifier: BSD-3-Clause */
#include "quiet.h"

#include <time.h>

#include <rte_common.h>
#include <rte_cpuflags.h>
#include <rte_ethdev.h>
#include <rte_pause.h>
#include <rte_power_intrinsics.h>

#include "clock.h"
#include "event.h"

#define QUIET_LIMIT_MAX UINT32_MAX

/* WAIT_RAMP: the first and the longest wait; each is twice the one before. */
#define NAP_MIN_NS UINT64_C(1000)
#define NAP_MAX_NS UINT64_C(256000)

/* WAIT_PAUSE: the default of DPDK's power management (rte_power_pmd_mgmt_set_pause_duration()). */
#define PAUSE_NS UINT64_C(1000)

void quiet_plan(struct poller *p, bool waits)
{
	const double sweep_cycles = RTE_MAX(p->poll_cycles, 1.0) * p->queues;
	const double sweeps = (double)p->wait_after_cycles / sweep_cycles;

	p->quiet_limit =
	        waits ? 1 + (uint32_t)RTE_MIN(sweeps, (double)(QUIET_LIMIT_MAX - 2)) : QUIET_LIMIT_MAX;
}

/* Return whether the sender ends the wait, so that a doorbell must be armed. */
static bool needs_ring(const struct poller *p)
{
	return p->wait == WAIT_INTERRUPT || p->wait == WAIT_MONITOR;
}

/* Return whether a packet came while the doorbell was not armed. */
static bool look(const struct poller *p)
{
	for (uint32_t q = p->first_queue; q < p->end_queue; q += p->queue_step)
		if (rte_eth_rx_descriptor_status(p->rx_port, (uint16_t)q, 0) == RTE_ETH_RX_DESC_DONE)
			return true;
	return false;
}

/*
 * Disarm, because a polling lcore needs no ring. A ring already under way ends the next wait early (a spurious
 * wake-up).
 */
static void disarm(struct poller *p)
{
	if (!qwait_take_back(p->waiter.set, 0))
		qwait_next(&p->waiter);
}

static int has_changed(const uint64_t value, const uint64_t opaque[RTE_POWER_MONITOR_OPAQUE_SZ])
{
	RTE_SET_USED(opaque);
	return value != 0 ? -1 : 0;
}

static void halt(struct poller *p, uint64_t end_tsc)
{
	struct qwait *set = p->waiter.set;
	const struct rte_power_monitor_cond on_summary = {
	        .addr = &set->ready.summary, .fn = has_changed, .size = sizeof(set->ready.summary)};

	p->waiter.sleeps++;
	rte_power_monitor(&on_summary, end_tsc);
}

/*
 * Find the lines of the next packets of all queues. A packet that is there already, or comes meanwhile, prevents the
 * halt.
 */
static void find_lines(const struct poller *p)
{
	uint32_t i = 0;

	for (uint32_t q = p->first_queue; q < p->end_queue; q += p->queue_step)
		rte_eth_get_monitor_addr(p->rx_port, (uint16_t)q, &p->lines[i++]);
}

static void halt_on_lines(struct poller *p, uint64_t end_tsc)
{
	p->waiter.sleeps++;
	rte_power_monitor_multi(p->lines, p->queues, end_tsc);
}

static void nap(struct poller *p, uint64_t left_ns)
{
	const bool first = p->quiet_sweeps == p->quiet_limit || p->nap_ns == 0;

	p->nap_ns = first ? NAP_MIN_NS : RTE_MIN(2 * p->nap_ns, NAP_MAX_NS);
	const struct timespec time = {.tv_nsec = (long)RTE_MIN(p->nap_ns, left_ns)};

	p->waiter.sleeps++;
	nanosleep(&time, NULL);
}

static void pause_until(uint64_t end_tsc)
{
	while (cycles_stamp() < end_tsc)
		rte_pause();
}

void quiet_wait(struct poller *p)
{
	struct account *a = p->account;
	const uint64_t begin = cycles_stamp(), boundary = poll_boundary(p);
	const uint64_t left_ns = cycles_to_ns(boundary > begin ? boundary - begin : 0, p->trial->tsc_hz);
	const uint64_t max_ns = RTE_MIN(left_ns, QUIET_WAIT_NS);
	bool waits = true;

	if (needs_ring(p)) {
		qwait_rearm(p->waiter.set, 0);
		/* also consumes an old ring, which would otherwise end the wait at once */
		waits = qwait_next(&p->waiter) == QWAIT_NONE && !look(p);
	} else if (p->wait == WAIT_MONITORS) {
		find_lines(p);
	}
	const uint64_t start = cycles_stamp();
	uint64_t end = start;

	if (waits) {
		if (p->wait == WAIT_INTERRUPT)
			qwait_idle(&p->waiter, max_ns);
		else if (p->wait == WAIT_MONITOR)
			halt(p, begin + cycles_of_ns(max_ns, p->trial->tsc_hz));
		else if (p->wait == WAIT_MONITORS)
			halt_on_lines(p, begin + cycles_of_ns(max_ns, p->trial->tsc_hz));
		else if (p->wait == WAIT_PAUSE)
			pause_until(begin + cycles_of_ns(RTE_MIN(max_ns, PAUSE_NS), p->trial->tsc_hz));
		else
			nap(p, max_ns);
		end = cycles_stamp();
		a->idle_waits++;
		a->idle_cycles += end - start;
	}
	if (needs_ring(p))
		disarm(p);
	const uint64_t now = cycles_stamp();

	/* arming, looking and disarming are no polls; the loop needs them to wait */
	a->event_cycles += (now - begin) - (end - start);
	p->aside_cycles += now - begin;
}

bool quiet_has_monitor(bool several)
{
	struct rte_cpu_intrinsics found;

	rte_cpu_get_intrinsics_support(&found);
	return several ? found.power_monitor_multi : found.power_monitor;
}
