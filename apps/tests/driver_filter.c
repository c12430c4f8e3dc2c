/* SPDX-License-Identifier: BSD-3-Clause */
/* MAC filter: what a port that is not promiscuous takes. */
#include <string.h>

#include "driver_suite.h"

static const struct rte_ether_addr broadcast = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
static const struct rte_ether_addr group = {{0x33, 0x33, 0, 0, 0, 1}};
static const struct rte_ether_addr stranger = {{0x02, 1, 2, 3, 4, 5}};

static bool arrives(const struct rte_ether_addr *to)
{
	struct rte_mbuf *m = frame_make(pool, FRAME_BYTES, 0);

	rte_pktmbuf_mtod(m, struct rte_ether_hdr *)->dst_addr = *to;
	return send_one(port_a, 0, m) && receive_all(port_b, 0) == 1;
}

static void choosy_pair_up(void)
{
	pair_up(NULL, NULL);
	CHECK_EQUAL(rte_eth_promiscuous_disable(port_b), 0);
	CHECK_EQUAL(rte_eth_allmulticast_disable(port_b), 0);
}

static void own_address_and_broadcast_only(void)
{
	struct rte_ether_addr own;

	choosy_pair_up();
	CHECK_EQUAL(rte_eth_macaddr_get(port_b, &own), 0);
	CHECK(arrives(&own) && arrives(&broadcast), "own address or broadcast did not arrive");
	CHECK(!arrives(&stranger), "a stranger's frame arrived");
	CHECK(!arrives(&group), "a multicast frame arrived");
	CHECK_EQUAL(xstat_of(port_b, "rx_filtered_packets"), 2);
	CHECK_EQUAL(stats_of(port_b).ipackets + xstat_of(port_b, "rx_filtered_packets"),
	            stats_of(port_a).opackets);
	CHECK_EQUAL(stats_of(port_b).imissed, 0);
	CHECK_EQUAL(rte_eth_promiscuous_enable(port_b), 0);
	CHECK(arrives(&stranger) && arrives(&group), "a promiscuous port filters");
	CHECK_EQUAL(xstat_of(port_b, "rx_filtered_packets"), 2);
}

static void addresses_come_and_go(void)
{
	struct rte_ether_addr added = stranger, own;

	choosy_pair_up();
	CHECK_EQUAL(rte_eth_macaddr_get(port_b, &own), 0);
	CHECK_EQUAL(rte_eth_dev_mac_addr_add(port_b, &added, 0), 0);
	CHECK(arrives(&stranger) && arrives(&own), "an added address did not arrive");
	CHECK_EQUAL(rte_eth_dev_mac_addr_remove(port_b, &added), 0);
	CHECK(!arrives(&stranger), "a removed address arrived");
	CHECK_EQUAL(rte_eth_dev_default_mac_addr_set(port_b, &added), 0);
	CHECK(arrives(&stranger) && !arrives(&own), "the default address was not replaced");
	for (uint8_t i = 0; i < 63; i++) {
		added.addr_bytes[5] = (uint8_t)(100 + i);
		CHECK_EQUAL(rte_eth_dev_mac_addr_add(port_b, &added, 0), 0);
	}
	CHECK(arrives(&added), "the 64th address did not arrive");
	added.addr_bytes[5] = 200;
	CHECK_EQUAL(rte_eth_dev_mac_addr_add(port_b, &added, 0), -ENOSPC);
}

static void multicast_by_list_or_all(void)
{
	struct rte_ether_addr list[65];

	choosy_pair_up();
	for (unsigned int i = 0; i < RTE_DIM(list); i++) {
		list[i] = group;
		list[i].addr_bytes[4] = (uint8_t)i;
	}
	CHECK_EQUAL(rte_eth_dev_set_mc_addr_list(port_b, list, 64), 0);
	CHECK(arrives(&group) && arrives(&list[63]), "a listed group did not arrive");
	CHECK(!arrives(&list[64]), "a group that is not listed arrived");
	CHECK_EQUAL(rte_eth_dev_set_mc_addr_list(port_b, list, 65), -ENOSPC);
	CHECK_EQUAL(rte_eth_dev_set_mc_addr_list(port_b, NULL, 0), 0);
	CHECK(!arrives(&group), "a group arrived after the list was emptied");
	CHECK_EQUAL(rte_eth_allmulticast_enable(port_b), 0);
	CHECK(arrives(&group) && arrives(&list[64]), "all multicast does not take all");
	CHECK(!arrives(&stranger), "all multicast takes a stranger's frame");
}

const struct driver_case driver_filter_cases[] = {
        CASE(own_address_and_broadcast_only, "dma=copy", "dma=swap"),
        CASE(addresses_come_and_go, ""),
        CASE(multicast_by_list_or_all, ""),
        {0},
};
