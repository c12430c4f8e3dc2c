/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NICs with a clock, for tests/test_gen_nic_stamps.py. Preloaded into pollscope-node, this answers rte_eth_timesync_*() for all its
 * ports, like a driver that stamps only PTP frames, and of those only frames sent with RTE_MBUF_F_TX_IEEE1588_TMST. Times are taken
 * when the driver takes frames and hands them out, from CLOCK_MONOTONIC in steps of 8 ns.
 *
 * NIC_CLOCK: "one": one clock for all ports; "two": the clock of every second port is 1 s ahead; "stale": a received frame has the
 * time of the one before; "silent": no frame is stamped; "none": there is no clock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_ethdev.h>

#define STEP_NS 8

struct stamp {
	struct timespec time;
	bool is_there;
};

static struct stamp sent[RTE_MAX_ETHPORTS], came[RTE_MAX_ETHPORTS], before[RTE_MAX_ETHPORTS];

static bool is_clock(const char *name)
{
	const char *clock = getenv("NIC_CLOCK");

	return clock != NULL && strcmp(clock, name) == 0;
}

static struct timespec now_of(uint16_t port)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now.tv_nsec -= now.tv_nsec % STEP_NS;
	now.tv_sec += is_clock("two") && port % 2;
	return now;
}

static bool is_ptp(const struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_mtod(mbuf, const struct rte_ether_hdr *)->ether_type ==
	       RTE_BE16(RTE_ETHER_TYPE_1588);
}

static uint16_t stamp_sent(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, void *unused)
{
	(void)queue;
	(void)unused;
	for (uint16_t i = 0; i < n; i++)
		if (mbufs[i]->ol_flags & RTE_MBUF_F_TX_IEEE1588_TMST && !is_clock("silent"))
			sent[port] = (struct stamp){now_of(port), true};
	return n;
}

static uint16_t stamp_came(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n, uint16_t most,
                           void *unused)
{
	(void)queue;
	(void)most;
	(void)unused;
	for (uint16_t i = 0; i < n; i++) {
		if (!is_ptp(mbufs[i]) || is_clock("silent"))
			continue;
		before[port] = came[port];
		came[port] = (struct stamp){now_of(port), true};
		mbufs[i]->ol_flags |= RTE_MBUF_F_RX_IEEE1588_PTP | RTE_MBUF_F_RX_IEEE1588_TMST;
	}
	return n;
}

int rte_eth_timesync_enable(uint16_t port)
{
	struct rte_eth_dev_info info;

	if (is_clock("none") || rte_eth_dev_info_get(port, &info) != 0)
		return -ENOTSUP;
	for (uint16_t queue = 0; queue < info.nb_tx_queues; queue++)
		rte_eth_add_tx_callback(port, queue, stamp_sent, NULL);
	for (uint16_t queue = 0; queue < info.nb_rx_queues; queue++)
		rte_eth_add_rx_callback(port, queue, stamp_came, NULL);
	return 0;
}

int rte_eth_timesync_disable(uint16_t port)
{
	(void)port;
	return 0;
}

static int hand_out(struct stamp *stamp, struct timespec *time)
{
	if (!stamp->is_there)
		return -EAGAIN;
	*time = stamp->time;
	stamp->is_there = false;
	return 0;
}

int rte_eth_timesync_read_tx_timestamp(uint16_t port, struct timespec *time)
{
	return hand_out(&sent[port], time);
}

int rte_eth_timesync_read_rx_timestamp(uint16_t port, struct timespec *time, uint32_t flags)
{
	(void)flags;
	return hand_out(is_clock("stale") ? &before[port] : &came[port], time);
}

int rte_eth_timesync_read_time(uint16_t port, struct timespec *time)
{
	*time = now_of(port);
	return 0;
}
