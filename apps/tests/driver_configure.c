/* SPDX-License-Identifier: BSD-3-Clause */
/* Device information, configuration, MTU, taking a pair apart. */
#include <string.h>

#include <rte_bus_vdev.h>
#include <rte_cycles.h>

#include "driver_suite.h"

#define MANY_QUEUES RTE_MAX_QUEUES_PER_PORT

static void tells_its_limits(void)
{
	struct rte_eth_dev_info info;

	CHECK_EQUAL(rte_eth_dev_info_get(port_a, &info), 0);
	CHECK(strcmp(info.driver_name, "net_crossover") == 0, "driver is %s", info.driver_name);
	CHECK_EQUAL(info.max_rx_queues, MANY_QUEUES);
	CHECK_EQUAL(info.max_tx_queues, MANY_QUEUES);
	CHECK_EQUAL(info.max_mtu, 9000);
	CHECK_EQUAL(info.rx_desc_lim.nb_min, 64);
	CHECK_EQUAL(info.rx_desc_lim.nb_max, 4096);
	CHECK_EQUAL(info.rx_desc_lim.nb_align, 64);
	CHECK_EQUAL(info.tx_desc_lim.nb_max, 4096);
	CHECK_EQUAL(info.hash_key_size, 40);
	CHECK_EQUAL(info.reta_size, 512);
	CHECK((info.rx_offload_capa & ~(RTE_ETH_RX_OFFLOAD_RSS_HASH | RTE_ETH_RX_OFFLOAD_SCATTER |
	                                RTE_ETH_RX_OFFLOAD_CHECKSUM)) == 0,
	      "claims RX offloads %#" PRIx64, info.rx_offload_capa);
	CHECK(info.dev_capa & RTE_ETH_DEV_CAPA_RUNTIME_RX_QUEUE_SETUP, "no run-time RX queue set-up");
	CHECK(info.dev_capa & RTE_ETH_DEV_CAPA_RUNTIME_TX_QUEUE_SETUP, "no run-time TX queue set-up");
}

static void refuses_offloads_and_modes_it_lacks(void)
{
	static const struct port_setup lacking[] = {{.rx_offloads = RTE_ETH_RX_OFFLOAD_SCTP_CKSUM},
	                                            {.rx_offloads = RTE_ETH_RX_OFFLOAD_VLAN_STRIP},
	                                            {.tx_offloads = RTE_ETH_TX_OFFLOAD_UDP_CKSUM},
	                                            {.rss_types = RTE_ETH_RSS_L2_PAYLOAD},
	                                            {.rx_queues = MANY_QUEUES + 1}};
	struct rte_eth_conf vmdq = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_VMDQ_ONLY}};
	struct rte_eth_conf slow = {.link_speeds = RTE_ETH_LINK_SPEED_10G | RTE_ETH_LINK_SPEED_FIXED};
	struct rte_eth_conf loop = {.lpbk_mode = 1};
	struct rte_eth_conf fixed = {.link_speeds = RTE_ETH_LINK_SPEED_100G | RTE_ETH_LINK_SPEED_FIXED};

	for (unsigned int i = 0; i < RTE_DIM(lacking); i++)
		CHECK(port_up(port_a, &lacking[i]) < 0, "port %u was taken", i);
	CHECK_EQUAL(rte_eth_dev_configure(port_a, 1, 1, &vmdq), -ENOTSUP);
	CHECK_EQUAL(rte_eth_dev_configure(port_a, 1, 1, &slow), -EINVAL);
	CHECK_EQUAL(rte_eth_dev_configure(port_a, 1, 1, &loop), -ENOTSUP);
	CHECK_EQUAL(rte_eth_dev_configure(port_a, 1, 1, &fixed), 0);
}

static void mtu_needs_buffers_or_scattering(void)
{
	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.mtu = 9000}), -EINVAL);
	CHECK_EQUAL(
	        port_up(port_a, &(struct port_setup){.mtu = 9000, .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER}),
	        0);
	CHECK_EQUAL(rte_eth_dev_set_mtu(port_a, 9000), 0);
	CHECK_EQUAL(rte_eth_dev_set_mtu(port_a, 9001), -EINVAL);
	CHECK_EQUAL(rte_eth_dev_set_mtu(port_a, 67), -EINVAL);
	CHECK_EQUAL(port_up(port_b, NULL), 0);
	CHECK_EQUAL(rte_eth_dev_set_mtu(port_b, 2000), 0);
	CHECK_EQUAL(rte_eth_dev_set_mtu(port_b, 2048), -EINVAL);
}

static void start_fails_without_buffers(void)
{
	/* 4 x 4096 descriptors want twice what the pool has. */
	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_queues = 4, .rx_desc = 4096}), -ENOMEM);
	CHECK(rte_mempool_full(pool), "a start that failed keeps %u mbufs", rte_mempool_in_use_count(pool));
	CHECK_EQUAL(port_up(port_b, NULL), 0);
	CHECK(link_is(port_b, RTE_ETH_LINK_DOWN), "carrier with one port");
}

static void many_queues_come_up_fast(void)
{
	struct port_setup many = {.rx_queues = MANY_QUEUES,
	                          .tx_queues = MANY_QUEUES,
	                          .rx_desc = 64,
	                          .tx_desc = 64,
	                          .rss_types = RSS_UDP,
	                          .rx_pool = NULL,
	                          .leave_stopped = true};
	uint64_t start = rte_get_tsc_cycles();
	struct rte_eth_dev_info info;
	double seconds;

	CHECK_EQUAL(port_up(port_a, &many), 0);
	seconds = (double)(rte_get_tsc_cycles() - start) / (double)rte_get_tsc_hz();
	CHECK_EQUAL(rte_eth_dev_info_get(port_a, &info), 0);
	CHECK_EQUAL(info.reta_size, MANY_QUEUES);
	CHECK(seconds < 1.0, "%u queues took %.2f s", MANY_QUEUES, seconds);
}

static void reconfigures_with_fewer_and_more(void)
{
	static const uint16_t queues[] = {1, 7, 16, 3, 1, 12};

	for (unsigned int i = 0; i < RTE_DIM(queues); i++) {
		struct port_setup setup = {
		        .rx_queues = queues[i], .tx_queues = queues[i], .rx_desc = 64, .rss_types = RSS_UDP};

		pair_up(&setup, &setup);
		CHECK(send_frames(port_a, queues[i] - 1, 64, FRAME_BYTES), "not sent with %u queues",
		      queues[i]);
		for (uint16_t queue = 0; queue < queues[i]; queue++)
			receive_all(port_b, queue);
		CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
		CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
		CHECK(rte_mempool_full(pool), "a stop keeps %u mbufs", rte_mempool_in_use_count(pool));
	}
}

static void one_port_closes_alone(void)
{
	struct rte_mbuf *m;

	pair_up(NULL, NULL);
	CHECK(send_frames(port_b, 0, 100, FRAME_BYTES), "not sent");
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	CHECK_EQUAL(rte_eth_dev_close(port_a), 0);
	CHECK(link_is(port_b, RTE_ETH_LINK_DOWN), "carrier with one port");
	m = frame_make(pool, FRAME_BYTES, 0);
	CHECK(!send_one(port_b, 0, m), "sent towards a port that is gone");
	CHECK_EQUAL(stats_of(port_b).opackets, 100);
}

const struct driver_case driver_configure_cases[] = {
        CASE(tells_its_limits, ""),
        CASE(refuses_offloads_and_modes_it_lacks, ""),
        CASE(mtu_needs_buffers_or_scattering, ""),
        CASE(start_fails_without_buffers, ""),
        CASE(many_queues_come_up_fast, ""),
        CASE(reconfigures_with_fewer_and_more, "dma=copy", "dma=swap"),
        CASE(one_port_closes_alone, ""),
        {0},
};
