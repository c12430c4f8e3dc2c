/* SPDX-License-Identifier: BSD-3-Clause */
/* feed=infinite: every poll is served, with frames that any stack accepts. */
#include <math.h>
#include <string.h>

#include <rte_ip.h>
#include <rte_malloc.h>
#include <rte_udp.h>

#include "driver_suite.h"
#include "net_crossover.h"

#define FLOWS 7

/* Overwrites received frames, as a forwarding application does, so that frames made only once would show. */
static void poll_and_check(uint32_t bytes, uint64_t *flows_seen)
{
	struct rte_mbuf *burst[BURST];

	for (unsigned int round = 0; round < 200; round++) {
		uint16_t got = rte_eth_rx_burst(port_a, 0, burst, BURST);

		CHECK_EQUAL(got, BURST);
		for (uint16_t i = 0; i < got; i++) {
			struct rte_ipv4_hdr *ip =
			        rte_pktmbuf_mtod_offset(burst[i], struct rte_ipv4_hdr *, 14);

			CHECK(frame_is_udp(burst[i], bytes), "round %u, frame %u is not valid", round, i);
			*flows_seen |= UINT64_C(1) << (rte_be_to_cpu_32(ip->src_addr) % 64);
			memset(rte_pktmbuf_mtod(burst[i], void *), 0, 60);
		}
		rte_pktmbuf_free_bulk(burst, got);
	}
}

static void every_poll_is_served(void)
{
	uint64_t flows_seen = 0;

	pair_up(NULL, NULL);
	poll_and_check(60, &flows_seen);
	CHECK_EQUAL(__builtin_popcountll(flows_seen), FLOWS);
	CHECK_EQUAL(stats_of(port_a).ipackets, 200 * BURST);
	CHECK_EQUAL(stats_of(port_a).ibytes, 200 * BURST * 60);
	CHECK_EQUAL(stats_of(port_b).ipackets, 0);
	CHECK_EQUAL(rte_eth_stats_reset(port_a), 0);
	CHECK_EQUAL(stats_of(port_a).ipackets, 0);
}

static void sizes_are_as_asked(void)
{
	uint64_t flows_seen = 0;

	pair_up(NULL, NULL);
	poll_and_check(1514, &flows_seen);
}

static void sent_frames_are_counted_and_gone(void)
{
	pair_up(NULL, NULL);
	CHECK(send_frames(port_a, 0, 10000, FRAME_BYTES), "not sent");
	CHECK_EQUAL(stats_of(port_a).opackets, 10000);
	CHECK_EQUAL(xstat_of(port_a, "tx_q0_wire_sampled_frames"), 0);
	CHECK_EQUAL(stats_of(port_b).ipackets, 0);
	CHECK_EQUAL(stats_of(port_b).imissed, 0);
}

static void hash_fits_the_frame(void)
{
	struct port_setup hashed = {
	        .rx_queues = 2, .rss_types = RSS_UDP, .rx_offloads = RTE_ETH_RX_OFFLOAD_RSS_HASH};
	struct rte_mbuf *first, *second;

	pair_up(&hashed, &hashed);
	first = must_receive(port_a, 0);
	second = must_receive(port_a, 1);
	CHECK(first->ol_flags == RTE_MBUF_F_RX_RSS_HASH && first->hash.rss != second->hash.rss,
	      "no hash of its own");
	rte_pktmbuf_free(first);
	rte_pktmbuf_free(second);
}

static void frames_must_fit_a_buffer(void)
{
	struct port_setup long_frames = {.mtu = 9000, .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER};

	CHECK_LOGGED(port_up(port_a, &long_frames), -EINVAL, "size=9000");
	CHECK(rte_mempool_full(pool), "a start that failed keeps mbufs");
}

static unsigned int heap_blocks(void)
{
	struct rte_malloc_socket_stats stats;

	return rte_malloc_get_socket_stats(0, &stats) == 0 ? stats.alloc_count : 0;
}

/* The pair is removed afterwards, so memory that is left of it was lost. */
static void a_failed_start_keeps_no_memory(void)
{
	unsigned int before;

	CHECK_EQUAL(pair_make("feed=infinite"), 0);
	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.leave_stopped = true}), 0);
	pair_remove();
	before = heap_blocks();
	CHECK(before > 0, "no heap");
	for (unsigned int i = 0; i < 5; i++) {
		CHECK_EQUAL(pair_make("feed=infinite"), 0);
		CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_desc = 2048, .rx_pool = other_pool}),
		            -ENOMEM);
		pair_remove();
	}
	CHECK_EQUAL(heap_blocks(), before);
}

static void an_empty_pool_ends_it(void)
{
	struct rte_mbuf *taken[1024];
	unsigned int count = 0;
	uint16_t got;

	pair_up(&(struct port_setup){.rx_desc = 64, .rx_pool = other_pool}, NULL);
	while ((got = rte_eth_rx_burst(port_a, 0, taken + count, BURST)) > 0)
		count += got;
	CHECK(count > 900, "only %u frames before the pool was empty", count);
	CHECK(stats_of(port_a).rx_nombuf > 0, "an empty pool was not counted");
	rte_pktmbuf_free_bulk(taken, count);
	CHECK_EQUAL(rte_eth_rx_burst(port_a, 0, taken, BURST), 0);
	count = rte_eth_rx_burst(port_a, 0, taken, BURST);
	CHECK_EQUAL(count, BURST);
	rte_pktmbuf_free_bulk(taken, count);
}

#define QUEUE_POLLS 200000
#define PROBABILITY 0.05

struct queue_poll_counts {
	unsigned int busy;
	unsigned int busy_after_busy;
	unsigned int packets;
	bool is_spoilt; /* an invalid frame, or a descriptor that contradicts the poll */
};

static struct queue_poll_counts queue_poll(uint16_t queue, unsigned int queue_polls)
{
	struct queue_poll_counts counts = {0};
	struct rte_mbuf *burst[BURST];
	bool was_busy = false;

	for (unsigned int i = 0; i < queue_polls; i++) {
		bool waits = rte_eth_rx_descriptor_status(port_a, queue, 0) == RTE_ETH_RX_DESC_DONE;
		uint16_t got = rte_eth_rx_burst(port_a, queue, burst, BURST);

		counts.is_spoilt |= waits != (got > 0);
		for (uint16_t k = 0; k < got; k++)
			counts.is_spoilt |= !frame_is_udp(burst[k], 60);
		rte_pktmbuf_free_bulk(burst, got);
		counts.busy += got > 0;
		counts.busy_after_busy += got > 0 && was_busy;
		counts.packets += got;
		was_busy = got > 0;
	}
	return counts;
}

/* 5 standard deviations of a binomial count: one honest run in 10^6 is outside. */
static bool is_share(unsigned int count, unsigned int of, double share)
{
	double off = count - share * of;

	return off * off < 25 * share * (1 - share) * of;
}

static void cold_queue_polls_find_packets_by_chance(void)
{
	struct queue_poll_counts counts;

	pair_up(&(struct port_setup){.rx_queues = 2}, NULL);
	CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 1, PROBABILITY, 7), 0);
	counts = queue_poll(1, QUEUE_POLLS);
	CHECK(!counts.is_spoilt, "a frame or a descriptor is wrong");
	CHECK(is_share(counts.busy, QUEUE_POLLS, PROBABILITY), "%u of %u polls were busy", counts.busy,
	      QUEUE_POLLS);
	CHECK(is_share(counts.busy_after_busy, counts.busy, PROBABILITY),
	      "%u of %u busy polls follow a busy one", counts.busy_after_busy, counts.busy);
	CHECK_EQUAL(counts.packets, counts.busy);
	counts = queue_poll(0, 1000);
	CHECK_EQUAL(counts.packets, 1000 * BURST);
	CHECK_EQUAL(stats_of(port_a).rx_nombuf, 0);
}

static void queue_polls_change_at_once(void)
{
	static const double turns[] = {0, 1, 0.5, 1, 0, 0.999, 0.001, 1};

	pair_up(&(struct port_setup){.rx_desc = 64}, NULL);
	for (unsigned int i = 0; i < RTE_DIM(turns); i++) {
		struct queue_poll_counts counts;

		CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 0, turns[i], i), 0);
		counts = queue_poll(0, 5000);
		CHECK(!counts.is_spoilt, "turn %u: a frame or a descriptor is wrong", i);
		if (turns[i] == 0 || turns[i] == 1)
			CHECK_EQUAL(counts.packets, turns[i] * 5000 * BURST);
		else
			CHECK(is_share(counts.busy, 5000, turns[i]), "turn %u: %u busy", i, counts.busy);
	}
}

static void queue_polls_hold_over_a_restart(void)
{
	struct queue_poll_counts counts;

	pair_up(NULL, NULL);
	CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 0, 0.5, 1), 0);
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_a), 0);
	counts = queue_poll(0, 5000);
	CHECK(is_share(counts.busy, 5000, 0.5), "%u busy after a restart", counts.busy);
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	CHECK_EQUAL(port_up(port_a, &(struct port_setup){0}), 0);
	counts = queue_poll(0, 100);
	CHECK_EQUAL(counts.packets, 100 * BURST);
}

static void a_cold_queue_outlives_an_empty_pool(void)
{
	struct rte_mbuf *taken[1024];
	unsigned int count = 0;

	pair_up(&(struct port_setup){.rx_desc = 64, .rx_pool = other_pool}, NULL);
	CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 0, 0.9, 3), 0);
	for (unsigned int i = 0; i < 20000 && count < RTE_DIM(taken) - BURST; i++)
		count += rte_eth_rx_burst(port_a, 0, taken + count, BURST);
	CHECK(stats_of(port_a).rx_nombuf > 0, "%u frames, and the pool was not empty", count);
	rte_pktmbuf_free_bulk(taken, count);
	CHECK(is_share(queue_poll(0, 5000).busy, 5000, 0.9), "it does not continue");
}

static void bad_queue_polls_are_refused(void)
{
	pair_up(NULL, NULL);
	CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 0, -0.001, 1), -EINVAL);
	CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 0, 1.001, 1), -EINVAL);
	CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 0, (double)NAN, 1), -EINVAL);
	CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 1, 0.5, 1), -EINVAL);
	CHECK_EQUAL(net_crossover_feed_queue_polls(RTE_MAX_ETHPORTS - 1, 0, 0.5, 1), -ENODEV);
	CHECK_EQUAL(queue_poll(0, 10).packets, 10 * BURST);
	CHECK_EQUAL(pair_make("feed=wire"), 0);
	CHECK_EQUAL(port_up(port_a, NULL), 0);
	CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 0, 0.5, 1), -ENOTSUP);
}

const struct driver_case driver_feed_cases[] = {
        CASE(every_poll_is_served, "feed=infinite,flows=7"),
        CASE(sizes_are_as_asked, "feed=infinite,size=1518"),
        CASE(sent_frames_are_counted_and_gone, "feed=infinite"),
        CASE(hash_fits_the_frame, "feed=infinite"),
        CASE(frames_must_fit_a_buffer, "feed=infinite,size=9000"),
        CASE(a_failed_start_keeps_no_memory, "feed=infinite"),
        CASE(an_empty_pool_ends_it, "feed=infinite"),
        CASE(cold_queue_polls_find_packets_by_chance, "feed=infinite,flows=7"),
        CASE(queue_polls_change_at_once, "feed=infinite"),
        CASE(queue_polls_hold_over_a_restart, "feed=infinite"),
        CASE(a_cold_queue_outlives_an_empty_pool, "feed=infinite"),
        CASE(bad_queue_polls_are_refused, "feed=infinite"),
        {0},
};
