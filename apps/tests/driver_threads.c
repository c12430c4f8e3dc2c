/* SPDX-License-Identifier: BSD-3-Clause */
/* Several lcores at once: senders that share an RX queue, and control threads that take rings away from senders. */
#include <stdatomic.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include "driver_suite.h"

#define SENDERS     2
#define FRAMES_EACH 100000u
#define LIMIT_S     60

static atomic_bool stop_sending;
static atomic_uint sent_total, senders_done;

/* Sends FRAMES_EACH numbered frames, or until told to stop; the number is (lcore's TX queue << 24) + n. */
static int sender(void *argument)
{
	uint16_t queue = (uint16_t)(uintptr_t)argument;
	uint32_t n = 0;

	while (n < FRAMES_EACH && !atomic_load(&stop_sending)) {
		struct rte_mbuf *burst[8];
		uint16_t sent;

		if (rte_pktmbuf_alloc_bulk(pool, burst, RTE_DIM(burst)) != 0) {
			rte_pause();
			continue;
		}
		for (uint32_t i = 0; i < RTE_DIM(burst); i++) {
			uint32_t *data = (uint32_t *)rte_pktmbuf_append(burst[i], FRAME_BYTES);

			for (unsigned int word = 0; word < FRAME_BYTES / 4; word++)
				data[word] = (uint32_t)queue << 24 | (n + i);
		}
		sent = rte_eth_tx_burst(port_a, queue, burst, RTE_DIM(burst));
		rte_pktmbuf_free_bulk(burst + sent, RTE_DIM(burst) - sent);
		n += sent;
		atomic_fetch_add(&sent_total, sent);
	}
	atomic_fetch_add(&senders_done, 1);
	return 0;
}

static void launch_senders(bool all_on_one_queue)
{
	unsigned int lcore, launched = 0;

	atomic_store(&stop_sending, false);
	atomic_store(&sent_total, 0);
	atomic_store(&senders_done, 0);
	RTE_LCORE_FOREACH_WORKER (lcore)
		if (launched < (all_on_one_queue ? 1 : SENDERS))
			rte_eal_remote_launch(sender, (void *)(uintptr_t)launched++, lcore);
}

static void join_senders(void)
{
	atomic_store(&stop_sending, true);
	rte_eal_mp_wait_lcore();
}

/* Every word of a frame is its number, numbers of one sender rise. */
static bool in_order(const struct rte_mbuf *m, uint32_t *last)
{
	const uint32_t *data = rte_pktmbuf_mtod(m, const uint32_t *);
	uint32_t queue = data[0] >> 24, n = data[0] & 0xffffff;
	bool right = queue < SENDERS && n + 1 > last[queue] && m->pkt_len == FRAME_BYTES;

	for (unsigned int word = 1; word < FRAME_BYTES / 4; word++)
		right = right && data[word] == data[0];
	if (right)
		last[queue] = n + 1;
	return right;
}

/* Returns the frames received; stops at the first wrong one. */
static unsigned int receive_in_order(uint32_t *last, bool *right)
{
	struct rte_mbuf *burst[BURST];
	uint16_t got = rte_eth_rx_burst(port_b, 0, burst, BURST);

	for (uint16_t i = 0; i < got; i++)
		*right = *right && in_order(burst[i], last);
	rte_pktmbuf_free_bulk(burst, got);
	return got;
}

static void senders_share_a_queue(void)
{
	struct port_setup a = {.tx_queues = SENDERS}, b = {.rx_desc = 1024};
	uint64_t limit = rte_get_tsc_cycles() + LIMIT_S * rte_get_tsc_hz();
	uint32_t last[SENDERS] = {0};
	unsigned int received = 0, got;
	bool right = true, done;

	pair_up(&a, &b);
	CHECK_SO_FAR();
	launch_senders(false);
	do {
		done = atomic_load(&senders_done) == SENDERS;
		got = receive_in_order(last, &right);
		received += got;
	} while (right && rte_get_tsc_cycles() < limit && (!done || got > 0));
	join_senders();
	CHECK(right, "a frame is damaged or out of order after %u", received);
	CHECK_EQUAL(atomic_load(&sent_total), SENDERS * FRAMES_EACH);
	CHECK_EQUAL(stats_of(port_a).opackets, SENDERS * FRAMES_EACH);
	CHECK_EQUAL(received + stats_of(port_b).imissed, SENDERS * FRAMES_EACH);
	
}

static void ports_stop_under_traffic(void)
{
	struct rte_eth_stats stats;

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, NULL);
	CHECK_SO_FAR();
	launch_senders(false);
	for (unsigned int i = 0; i < 40; i++) {
		receive_all(port_b, 0);
		rte_delay_us_block(200);
		CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
		if (i % 2 == 0)
			CHECK_EQUAL(rte_eth_rx_queue_setup(port_b, 0, i % 4 == 0 ? 128 : 2048, SOCKET_ID_ANY,
			                                   NULL, pool),
			            0);
		CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
	}
	join_senders();
	receive_all(port_b, 0);
	stats = stats_of(port_a);
	CHECK_EQUAL(stats.opackets, atomic_load(&sent_total));
}

static void queues_stop_under_traffic(void)
{
	unsigned int received = 0;
	struct rte_eth_stats stats;

	pair_up(NULL, NULL);
	CHECK_SO_FAR();
	launch_senders(true);
	for (unsigned int i = 0; i < 100; i++) {
		received += receive_all(port_b, 0);
		CHECK_EQUAL(rte_eth_dev_rx_queue_stop(port_b, 0), 0);
		CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_b, 0), 0);
	}
	join_senders();
	received += receive_all(port_b, 0);
	stats = stats_of(port_b);
	CHECK_EQUAL(stats.ipackets + stats.imissed, stats_of(port_a).opackets);
	CHECK_EQUAL(received + xstat_of(port_b, "rx_flushed_packets"), stats.ipackets);
}

static void rss_changes_under_traffic(void)
{
	struct port_setup b = {
	        .rx_queues = 4, .rss_types = RSS_UDP, .rx_offloads = RTE_ETH_RX_OFFLOAD_RSS_HASH};
	uint8_t key[40];
	struct rte_eth_rss_conf conf = {.rss_key = key, .rss_key_len = sizeof(key), .rss_hf = RSS_UDP};

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, &b);
	CHECK_SO_FAR();
	launch_senders(false);
	for (unsigned int i = 0; i < 100; i++) {
		for (unsigned int j = 0; j < sizeof(key); j++)
			key[j] = (uint8_t)(i * 7 + j);
		CHECK_EQUAL(rte_eth_dev_rss_hash_update(port_b, &conf), 0);
		CHECK_EQUAL(i % 2 ? rte_eth_promiscuous_enable(port_b) : rte_eth_promiscuous_disable(port_b),
		            0);
		for (uint16_t queue = 0; queue < 4; queue++)
			receive_all(port_b, queue);
	}
	join_senders();
	for (uint16_t queue = 0; queue < 4; queue++)
		receive_all(port_b, queue);
	CHECK_EQUAL(stats_of(port_b).ipackets + stats_of(port_b).imissed +
	                    xstat_of(port_b, "rx_filtered_packets"),
	            stats_of(port_a).opackets);
}

const struct driver_case driver_threads_cases[] = {
        {"threads: two senders share an RX queue", "dma=copy", senders_share_a_queue},
        {"threads: two senders share an RX queue", "dma=swap", senders_share_a_queue},
        {"threads: a port stops under traffic", "dma=copy", ports_stop_under_traffic},
        {"threads: a port stops under traffic", "dma=swap", ports_stop_under_traffic},
        {"threads: a queue stops under traffic", "dma=copy", queues_stop_under_traffic},
        {"threads: a queue stops under traffic", "dma=swap", queues_stop_under_traffic},
        {"threads: RSS and filters change under traffic", "", rss_changes_under_traffic},
        {NULL, NULL, NULL},
};
