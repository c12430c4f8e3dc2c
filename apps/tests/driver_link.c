/* SPDX-License-Identifier: BSD-3-Clause */
/* The cable: carrier on both ends or none. */
#include "driver_suite.h"

static unsigned int events[2];

static int count_event(uint16_t port, enum rte_eth_event_type type, void *argument __rte_unused,
                       void *result __rte_unused)
{
	if (type == RTE_ETH_EVENT_INTR_LSC)
		events[port == port_b]++;
	return 0;
}

static bool both(int status)
{
	return link_is(port_a, status) && link_is(port_b, status);
}

static void both_ports_must_run(void)
{
	CHECK(both(RTE_ETH_LINK_DOWN), "carrier before the start");
	CHECK_EQUAL(port_up(port_a, NULL), 0);
	CHECK(both(RTE_ETH_LINK_DOWN), "carrier with one port");
	CHECK(!send_frames(port_a, 0, 1, FRAME_BYTES), "sent without carrier");
	CHECK_EQUAL(port_up(port_b, NULL), 0);
	CHECK(both(RTE_ETH_LINK_UP), "no carrier with both ports");
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	CHECK(both(RTE_ETH_LINK_DOWN), "carrier after the stop of one port");
	CHECK(!send_frames(port_b, 0, 1, FRAME_BYTES), "sent without carrier");
	CHECK_EQUAL(stats_of(port_b).opackets, 0);
	CHECK_EQUAL(stats_of(port_a).imissed, 0);
}

static void set_down_is_seen_by_the_peer(void)
{
	pair_up(NULL, NULL);
	CHECK(send_frames(port_a, 0, 9, FRAME_BYTES), "not sent");
	CHECK_EQUAL(rte_eth_dev_set_link_down(port_b), 0);
	CHECK(both(RTE_ETH_LINK_DOWN), "one end keeps carrier");
	CHECK(!send_frames(port_a, 0, 1, FRAME_BYTES), "sent without carrier");
	CHECK_EQUAL(receive_all(port_b, 0), 9);
	CHECK_EQUAL(rte_eth_dev_set_link_up(port_b), 0);
	CHECK(both(RTE_ETH_LINK_UP), "no carrier");
	CHECK(send_frames(port_a, 0, 9, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 9);
}

static void changes_call_back(void)
{
	struct port_setup lsc = {.lsc = true};

	events[0] = events[1] = 0;
	CHECK_EQUAL(rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_INTR_LSC, count_event, NULL), 0);
	pair_up(&lsc, NULL);
	CHECK_EQUAL(rte_eth_dev_set_link_down(port_b), 0);
	CHECK_EQUAL(rte_eth_dev_set_link_down(port_b), 0);
	CHECK_EQUAL(rte_eth_dev_set_link_up(port_b), 0);
	CHECK_EQUAL(rte_eth_dev_callback_unregister(RTE_ETH_ALL, RTE_ETH_EVENT_INTR_LSC, count_event, NULL),
	            0);
	/* Up at the start, down, up; the second "down" changes nothing; port b did not ask for interrupts. */
	CHECK_EQUAL(events[0], 3);
	CHECK_EQUAL(events[1], 0);
}

const struct driver_case driver_link_cases[] = {
        CASE(both_ports_must_run, ""),
        CASE(set_down_is_seen_by_the_peer, ""),
        CASE(changes_call_back, ""),
        {0},
};
