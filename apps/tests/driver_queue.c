/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues: set-up, start and stop, run-time set-up, information, descriptor status. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_power_intrinsics.h>

#include "crossover_ring.h"
#include "net_crossover.h"
#include "ports/pools.h"
#include "driver_suite.h"

static void sizes_are_checked(void)
{
	static const struct {
		uint16_t size;
		bool good;
	} sizes[] = {{64, true},  {192, true},  {4096, true}, {32, false},
	             {63, false}, {100, false}, {4160, false}};

	CHECK_EQUAL(rte_eth_dev_configure(port_a, 1, 1, &(struct rte_eth_conf){0}), 0);
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		int rx = rte_eth_rx_queue_setup(port_a, 0, sizes[i].size, SOCKET_ID_ANY, NULL, pool);
		int tx = rte_eth_tx_queue_setup(port_a, 0, sizes[i].size, SOCKET_ID_ANY, NULL);

		CHECK((rx == 0) == sizes[i].good, "RX ring of %u: %d", sizes[i].size, rx);
		CHECK((tx == 0) == sizes[i].good, "TX ring of %u: %d", sizes[i].size, tx);
	}
}

static void thresholds_are_checked(void)
{
	struct rte_eth_rxconf rx = {.rx_free_thresh = 33};
	struct rte_eth_txconf tx = {.tx_free_thresh = 65};

	CHECK_EQUAL(rte_eth_dev_configure(port_a, 1, 1, &(struct rte_eth_conf){0}), 0);
	CHECK_EQUAL(rte_eth_rx_queue_setup(port_a, 0, 64, SOCKET_ID_ANY, &rx, pool), -EINVAL);
	CHECK_EQUAL(rte_eth_tx_queue_setup(port_a, 0, 64, SOCKET_ID_ANY, &tx), -EINVAL);
	tx = (struct rte_eth_txconf){.tx_rs_thresh = 64};
	CHECK_EQUAL(rte_eth_tx_queue_setup(port_a, 0, 64, SOCKET_ID_ANY, &tx), -EINVAL);
	rx.rx_free_thresh = tx.tx_free_thresh = 32;
	tx.tx_rs_thresh = 16;
	CHECK_EQUAL(rte_eth_rx_queue_setup(port_a, 0, 64, SOCKET_ID_ANY, &rx, pool), 0);
	CHECK_EQUAL(rte_eth_tx_queue_setup(port_a, 0, 64, SOCKET_ID_ANY, &tx), 0);
}

static void tells_about_queues(void)
{
	struct rte_eth_rxq_info rx;
	struct rte_eth_txq_info tx;
	struct rte_eth_burst_mode mode;

	CHECK_EQUAL(
	        port_up(port_a, &(struct port_setup){.rx_desc = 128, .tx_desc = 256, .rx_free_thresh = 16}),
	        0);
	CHECK_EQUAL(rte_eth_rx_queue_info_get(port_a, 0, &rx), 0);
	CHECK_EQUAL(rx.nb_desc, 128);
	CHECK_EQUAL(rx.conf.rx_free_thresh, 16);
	CHECK_EQUAL(rx.rx_buf_size, 2048);
	CHECK(rx.mp == pool && !rx.scattered_rx, "wrong pool or scattering");
	CHECK_EQUAL(rte_eth_tx_queue_info_get(port_a, 0, &tx), 0);
	CHECK_EQUAL(tx.nb_desc, 256);
	CHECK_EQUAL(tx.conf.tx_free_thresh, 256);
	CHECK_EQUAL(rte_eth_rx_burst_mode_get(port_a, 0, &mode), 0);
	CHECK(strstr(mode.info, "dma=swap") != NULL, "burst mode is %s", mode.info);
	CHECK(rte_eth_rx_queue_info_get(port_a, 1, &rx) < 0, "tells about a queue that is not there");
	CHECK(rte_eth_tx_queue_info_get(port_a, 1, &tx) < 0, "tells about a queue that is not there");
}

/* The sender's cost per frame differs between these programs (crossover.h), so the port names the one that runs. */
static void the_burst_mode_names_the_program_of_the_wire(void)
{
	static const struct {
		uint16_t queues;
		uint64_t rss_types;
		const char *program;
	} ports[] = {{1, 0, "frames not classified"},
	             {1, RSS_UDP, "frames not classified"},
	             {2, RSS_UDP, "frames sorted by queue"},
	             {4, RSS_UDP, "frames sorted by queue"},
	             {5, RSS_UDP, "frames in order"}};
	struct rte_eth_burst_mode mode;

	for (unsigned int i = 0; i < RTE_DIM(ports); i++) {
		struct port_setup setup = {.rx_queues = ports[i].queues, .rss_types = ports[i].rss_types};

		pair_up(NULL, &setup);
		CHECK_EQUAL(rte_eth_tx_burst_mode_get(port_a, 0, &mode), 0);
		CHECK(strstr(mode.info, ports[i].program) != NULL, "%u queues: %s", ports[i].queues,
		      mode.info);
	}
}

static void deferred_queues_wait(void)
{
	struct port_setup deferred = {.rx_deferred = true, .tx_deferred = true};

	pair_up(&deferred, &deferred);
	CHECK(!send_frames(port_a, 0, 1, FRAME_BYTES), "a TX queue that was not started sends");
	CHECK_EQUAL(rte_eth_dev_tx_queue_start(port_a, 0), 0);
	CHECK(send_frames(port_a, 0, 5, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 0);
	CHECK_EQUAL(stats_of(port_b).imissed, 5);
	CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_b, 0), 0);
	CHECK(send_frames(port_a, 0, 3, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 3);
	CHECK_EQUAL(stats_of(port_b).imissed, 5);
}

/* ethdev does not prevent polling a queue that was never started, or not since the last stop. */
static void check_polls_find_nothing(void)
{
	static const struct port_setup two = {.rx_queues = 2, .rx_deferred = true};

	pair_up(NULL, &two);
	CHECK_EQUAL(receive_all(port_b, 0), 0);
	CHECK_EQUAL(rte_eth_rx_queue_count(port_b, 0), 0);
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
	CHECK(send_frames(port_a, 0, 5, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 0);
	CHECK_EQUAL(stats_of(port_b).imissed, 5);
}

static void polls_before_the_first_start_find_nothing(void)
{
	check_polls_find_nothing();
	CHECK_EQUAL(pair_make(""), 0);
	CHECK_EQUAL(net_crossover_rx_buffers(port_b, NET_CROSSOVER_SHARED, 64), 0);
	check_polls_find_nothing();
}

static void a_queue_start_checks_the_mtu(void)
{
	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_queues = 2, .rx_deferred = true}), 0);
	CHECK_EQUAL(rte_eth_rx_queue_setup(port_a, 1, 128, SOCKET_ID_ANY, NULL, small_pool), 0);
	CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_a, 1), -EINVAL);
	CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_a, 0), 0);
	CHECK_EQUAL(rte_eth_dev_set_mtu(port_a, 200), 0);
	CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_a, 1), 0);
	CHECK_EQUAL(rte_eth_dev_set_mtu(port_a, 1500), -EINVAL);
}

static void queues_stop_and_start(void)
{
	struct port_setup two = {.rx_queues = 2, .tx_queues = 2};

	pair_up(&two, &two);
	CHECK(send_frames(port_a, 0, 10, FRAME_BYTES), "not sent");
	CHECK_EQUAL(rte_eth_dev_rx_queue_stop(port_b, 0), 0);
	CHECK_EQUAL(receive_all(port_b, 0), 0);
	CHECK_EQUAL(xstat_of(port_b, "rx_flushed_packets"), 10);
	CHECK(send_frames(port_a, 1, 7, FRAME_BYTES), "not sent");
	CHECK_EQUAL(xstat_of(port_b, "rx_q0_missed"), 7);
	CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_b, 0), 0);
	CHECK_EQUAL(rte_eth_dev_tx_queue_stop(port_a, 1), 0);
	CHECK(!send_frames(port_a, 1, 1, FRAME_BYTES), "a stopped TX queue sends");
	CHECK(send_frames(port_a, 0, 100, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 100);
	CHECK_EQUAL(rte_eth_dev_tx_queue_start(port_a, 1), 0);
	CHECK(send_frames(port_a, 1, 1, FRAME_BYTES), "not sent after the restart");
	CHECK_EQUAL(receive_all(port_b, 0), 1);
	CHECK(rte_eth_dev_rx_queue_stop(port_b, 2) < 0, "stops a queue that is not there");
}

static void queues_are_set_up_while_running(void)
{
	struct rte_eth_conf conf = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_RSS},
	                            .rx_adv_conf = {.rss_conf = {.rss_hf = RSS_UDP}}};
	uint64_t missed;

	CHECK_EQUAL(port_up(port_a, NULL), 0);
	CHECK_EQUAL(rte_eth_dev_configure(port_b, 2, 1, &conf), 0);
	CHECK_EQUAL(rte_eth_rx_queue_setup(port_b, 0, 512, SOCKET_ID_ANY, NULL, pool), 0);
	CHECK_EQUAL(rte_eth_tx_queue_setup(port_b, 0, 512, SOCKET_ID_ANY, NULL), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
	CHECK_EQUAL(rte_eth_promiscuous_enable(port_b), 0);
	CHECK(send_frames(port_a, 0, 200, FRAME_BYTES), "not sent");
	missed = stats_of(port_b).imissed;
	CHECK(missed > 50, "only %" PRIu64 " frames for the queue that is not there", missed);
	CHECK_EQUAL(receive_all(port_b, 0), 200 - missed);
	CHECK_EQUAL(rte_eth_rx_queue_setup(port_b, 1, 256, SOCKET_ID_ANY, NULL, pool), 0);
	CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_b, 1), 0);
	CHECK(send_frames(port_a, 0, 200, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 1), missed);
	CHECK_EQUAL(stats_of(port_b).imissed, missed);
}

static void rx_descriptors_have_a_status(void)
{
	CHECK_EQUAL(port_up(port_a, NULL), 0);
	CHECK_EQUAL(port_up(port_b, &(struct port_setup){.rx_desc = 64}), 0);
	CHECK_EQUAL(rte_eth_promiscuous_enable(port_b), 0);
	CHECK_EQUAL(rte_eth_rx_descriptor_status(port_b, 0, 0), RTE_ETH_RX_DESC_AVAIL);
	CHECK_EQUAL(rte_eth_rx_queue_count(port_b, 0), 0);
	CHECK(send_frames(port_a, 0, 10, FRAME_BYTES), "not sent");
	CHECK_EQUAL(rte_eth_rx_queue_count(port_b, 0), 10);
	CHECK_EQUAL(rte_eth_rx_descriptor_status(port_b, 0, 9), RTE_ETH_RX_DESC_DONE);
	CHECK_EQUAL(rte_eth_rx_descriptor_status(port_b, 0, 10), RTE_ETH_RX_DESC_AVAIL);
	CHECK_EQUAL(rte_eth_rx_descriptor_status(port_b, 0, 64), -EINVAL);
	CHECK_EQUAL(receive_all(port_b, 0), 10);
	/* 10 taken and, below the threshold of 32, not posted again. */
	CHECK_EQUAL(rte_eth_rx_descriptor_status(port_b, 0, 53), RTE_ETH_RX_DESC_AVAIL);
	CHECK_EQUAL(rte_eth_rx_descriptor_status(port_b, 0, 54), RTE_ETH_RX_DESC_UNAVAIL);
}

static void tx_descriptors_have_a_status(void)
{
	pair_up(NULL, &(struct port_setup){.tx_desc = 128});
	CHECK(send_frames(port_b, 0, 100, FRAME_BYTES), "not sent");
	CHECK_EQUAL(rte_eth_tx_descriptor_status(port_b, 0, 0), RTE_ETH_TX_DESC_DONE);
	CHECK_EQUAL(rte_eth_tx_descriptor_status(port_b, 0, 127), RTE_ETH_TX_DESC_DONE);
	CHECK_EQUAL(rte_eth_tx_descriptor_status(port_b, 0, 128), -EINVAL);
}

static void monitor_address_is_the_next_dd(void)
{
	struct rte_power_monitor_cond before, after;
	const volatile uint64_t *word;

	pair_up(NULL, NULL);
	CHECK_EQUAL(rte_eth_get_monitor_addr(port_b, 0, &before), 0);
	CHECK_EQUAL(before.size, 8);
	word = before.addr;
	CHECK_EQUAL(before.fn(*word, before.opaque), 0);
	CHECK(send_frames(port_a, 0, 1, FRAME_BYTES), "not sent");
	CHECK_EQUAL(before.fn(*word, before.opaque), -1);
	CHECK_EQUAL(receive_all(port_b, 0), 1);
	CHECK_EQUAL(rte_eth_get_monitor_addr(port_b, 0, &after), 0);
	CHECK(after.addr != before.addr, "the address did not move on");
	CHECK_EQUAL(before.fn(0, before.opaque), -1); /* posted again: by a lock's other users, say */
	CHECK_EQUAL(after.fn(*(const volatile uint64_t *)after.addr, after.opaque), 0);
	CHECK(rte_eth_get_monitor_addr(port_b, 9, &after) < 0,
	      "tells an address of a queue that is not there");
}

/* A queue begins with its ring. */
static struct crossover_rx_ring *ring_of(uint16_t port, uint16_t queue)
{
	return rte_eth_fp_ops[port].rxq.data[queue];
}

/* A refill that gets no buffers writes no line that the sender reads: TAIL keeps a value that a write would undo. */
static void tail_stays_where_it_is(void)
{
	static struct rte_mbuf *taken[POOL_MBUFS];
	struct rte_mbuf *burst[BURST];
	struct crossover_rx_ring *ring;
	unsigned int count;
	uint32_t tail;

	pair_up(NULL, &(struct port_setup){.rx_desc = 64, .rx_pool = other_pool});
	ring = ring_of(port_b, 0);
	CHECK_EQUAL(ring->doorbell.tail, 64);
	count = pool_drain(other_pool, taken);
	CHECK(send_frames(port_a, 0, 40, FRAME_BYTES), "not sent");
	tail = ring->doorbell.tail++;
	CHECK_EQUAL(rte_eth_rx_burst(port_b, 0, burst, BURST), BURST);
	CHECK_EQUAL(xstat_of(port_b, "rx_q0_refill_failures"), 1);
	CHECK_EQUAL(ring->doorbell.tail, tail + 1);
	ring->doorbell.tail = tail;
	rte_pktmbuf_free_bulk(taken, count);
	rte_pktmbuf_free_bulk(burst, BURST);
	CHECK_EQUAL(receive_all(port_b, 0), 8);
	CHECK_EQUAL(ring->doorbell.tail, 64 + 32);
}

#define MIXED 500

static int by_address(const void *left, const void *right)
{
	const void *const *a = left, *const *b = right;

	return (*a > *b) - (*a < *b);
}

/* All objects are there, and almost no two neighbours follow each other. */
static void mixed_pools_have_no_stride(void)
{
	struct rte_mempool *mixed = rte_pktmbuf_pool_create("mixed", MIXED, 0, 0, 128, SOCKET_ID_ANY);
	void *given[MIXED], *sorted[MIXED];
	unsigned int steps = 0;

	CHECK(mixed != NULL, "no pool");
	pool_mix(mixed);
	CHECK_EQUAL(rte_mempool_avail_count(mixed), MIXED);
	CHECK_EQUAL(rte_mempool_get_bulk(mixed, given, MIXED), 0);
	memcpy(sorted, given, sizeof(given));
	qsort(sorted, MIXED, sizeof(sorted[0]), by_address);
	for (unsigned int i = 1; i < MIXED; i++) {
		CHECK(sorted[i] != sorted[i - 1], "an object was given out twice");
		steps += (uintptr_t)given[i] - (uintptr_t)given[i - 1] ==
		         (uintptr_t)sorted[1] - (uintptr_t)sorted[0];
	}
	rte_mempool_free(mixed);
	CHECK(steps < 20, "%u of %u objects follow their neighbours", steps, MIXED);
}

/* Pools whose mbufs lie in the ring of a peer when a node replaces them; more than there can be ports. */
static void replaced_pools_come_back(void)
{
	struct rte_mbuf *held[RTE_MAX_ETHPORTS + 8];
	char name[RTE_MEMPOOL_NAMESIZE];

	for (unsigned int i = 0; i < RTE_DIM(held); i++) {
		struct rte_mempool *replaced;

		snprintf(name, sizeof(name), "replaced_%u", i);
		replaced = rte_pktmbuf_pool_create(name, 1, 0, 0, RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
		CHECK(replaced != NULL, "no pool %u", i);
		held[i] = rte_pktmbuf_alloc(replaced);
		pool_retire(replaced);
	}
	CHECK_EQUAL(pools_free_retired(), RTE_DIM(held));
	rte_pktmbuf_free_bulk(held, RTE_DIM(held));
	CHECK_EQUAL(pools_free_retired(), 0);
	for (unsigned int i = 0; i < RTE_DIM(held); i++) {
		snprintf(name, sizeof(name), "replaced_%u", i);
		CHECK(rte_mempool_lookup(name) == NULL, "pool %u was not freed", i);
	}
}

const struct driver_case driver_queue_cases[] = {
        CASE(sizes_are_checked, ""),
        CASE(thresholds_are_checked, ""),
        CASE(tells_about_queues, "dma=swap"),
        CASE(the_burst_mode_names_the_program_of_the_wire, ""),
        CASE(deferred_queues_wait, ""),
        CASE(polls_before_the_first_start_find_nothing, "", "rx=corec"),
        CASE(a_queue_start_checks_the_mtu, ""),
        CASE(queues_stop_and_start, "dma=copy", "dma=swap"),
        CASE(queues_are_set_up_while_running, ""),
        CASE(rx_descriptors_have_a_status, ""),
        CASE(tx_descriptors_have_a_status, ""),
        CASE(monitor_address_is_the_next_dd, ""),
        CASE(mixed_pools_have_no_stride, ""),
        CASE(replaced_pools_come_back, ""),
        CASE(tail_stays_where_it_is, ""),
        {0},
};
