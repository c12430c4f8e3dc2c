/* SPDX-License-Identifier: BSD-3-Clause */
/* RX queue mode corec through ethdev: one lcore, several lcores on one queue, empty mempools, changes of the mode. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>
#include <rte_power_intrinsics.h>

#include "net_crossover.h"
#include "driver_suite.h"

#define FRAMES     200000u
#define RING       128
#define STOPS      30u
#define MAX_FRAMES (1u << 24)

static void frames_arrive_in_order(void)
{
	pair_up(NULL, &(struct port_setup){.rx_desc = RING});
	for (unsigned int round = 0; round < 50; round++) {
		const unsigned int count = 1 + round * 7 % 100;

		CHECK(send_frames(port_a, 0, count, 60 + round), "not sent");
		CHECK_EQUAL(rte_eth_rx_queue_count(port_b, 0), count);
		CHECK_EQUAL(rte_eth_rx_descriptor_status(port_b, 0, (uint16_t)(count - 1)),
		            RTE_ETH_RX_DESC_DONE);
		CHECK_EQUAL(rte_eth_rx_descriptor_status(port_b, 0, (uint16_t)count), RTE_ETH_RX_DESC_AVAIL);
		for (uint32_t flow = 0; flow < count; flow++)
			expect_frame(port_b, 0, 60 + round, flow, 1);
		CHECK(receive_one(port_b, 0) == NULL, "a frame from nowhere");
	}
	CHECK_EQUAL(stats_of(port_b).imissed, 0);
	CHECK_EQUAL(xstat_of(port_b, "rx_race_lost"), 0);
}

/* All mbufs are in use: nothing is received or lost, and receiving continues with the first mbuf that is freed. */
static void an_empty_mempool_loses_nothing(void)
{
	static struct rte_mbuf *taken[POOL_MBUFS];
	const uint64_t *lost;
	unsigned int count;

	pair_up(NULL, &(struct port_setup){.rx_desc = 64, .rx_pool = other_pool});
	count = pool_drain(other_pool, taken);
	CHECK(send_frames(port_a, 0, 70, FRAME_BYTES), "not sent");
	for (unsigned int poll = 0; poll < 3; poll++)
		CHECK(receive_one(port_b, 0) == NULL, "a frame without a buffer in exchange");
	CHECK_EQUAL(xstat_of(port_b, "rx_refill_failures"), 3);
	CHECK_EQUAL(stats_of(port_b).rx_nombuf, 3);
	rte_pktmbuf_free(taken[--count]); /* one buffer: a burst gets one frame, again and again */
	for (uint32_t flow = 0; flow < 64; flow++) {
		struct rte_mbuf *burst[BURST];

		CHECK_EQUAL(rte_eth_rx_burst(port_b, 0, burst, BURST), 1);
		CHECK(frame_is(burst[0], FRAME_BYTES, flow), "frame %u", flow);
		rte_pktmbuf_free(burst[0]);
	}
	CHECK_EQUAL(stats_of(port_b).imissed, 6);
	CHECK_EQUAL(net_crossover_race_lost(port_b, 0, rte_lcore_id(), &lost), 0);
	CHECK_EQUAL(*lost, 0);
	rte_pktmbuf_free_bulk(taken, count);
	CHECK(send_frames(port_a, 0, 64, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 64);
}

static void what_it_cannot_is_refused(void)
{
	struct rte_eth_dev_info info;
	const uint64_t *lost;

	CHECK_EQUAL(rte_eth_dev_info_get(port_b, &info), 0);
	CHECK_EQUAL(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER, 0);
	CHECK_LOGGED(port_up(port_b, &(struct port_setup){.rx_desc = 192}), -EINVAL,
	             "192 descriptors are not a power of two");
	CHECK_EQUAL(port_up(port_b, NULL), 0);
	CHECK_EQUAL(net_crossover_race_lost(port_b, 0, 0, &lost), 0);
	CHECK_EQUAL(net_crossover_race_lost(port_b, 1, 0, &lost), -EINVAL);
	CHECK_EQUAL(net_crossover_race_lost(RTE_MAX_ETHPORTS - 1, 0, 0, &lost), -ENODEV);
	CHECK_EQUAL(net_crossover_rx_corec(port_b, false), -EBUSY);
	CHECK_EQUAL(net_crossover_rx_corec(RTE_MAX_ETHPORTS - 1, true), -ENODEV);
	CHECK_EQUAL(pair_make("feed=infinite"), 0);
	CHECK_EQUAL(net_crossover_rx_corec(port_b, true), -ENOTSUP);
	CHECK_EQUAL(net_crossover_rx_corec(port_b, false), 0);
}

/* A queue that was set up for the standard path and cannot be in the mode does not start in it. */
static void a_start_checks_what_was_set_up_before(void)
{
	CHECK_EQUAL(port_up(port_b, &(struct port_setup){.rx_desc = 192, .leave_stopped = true}), 0);
	CHECK_EQUAL(net_crossover_rx_corec(port_b, true), 0);
	CHECK_LOGGED(rte_eth_dev_start(port_b), -EINVAL, "192 descriptors");
	CHECK_EQUAL(net_crossover_rx_corec(port_b, false), 0);
	CHECK_EQUAL(port_up(port_b, &(struct port_setup){.rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER,
	                                                 .leave_stopped = true}),
	            0);
	CHECK_EQUAL(net_crossover_rx_corec(port_b, true), 0);
	CHECK_LOGGED(rte_eth_dev_start(port_b), -EINVAL, "RTE_ETH_RX_OFFLOAD_SCATTER");
}

static bool corec_runs(uint16_t port)
{
	struct rte_eth_burst_mode mode = {0};

	return rte_eth_rx_burst_mode_get(port, 0, &mode) == 0 && strstr(mode.info, "rx=corec") != NULL;
}

static void the_mode_changes_between_starts(void)
{
	unsigned int received = 0;

	pair_up(NULL, NULL);
	for (unsigned int round = 0; round < 6; round++) {
		const bool corec = round % 2 == 0;

		CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
		CHECK_EQUAL(net_crossover_rx_corec(port_b, corec), 0);
		CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
		CHECK_EQUAL(corec_runs(port_b), corec);
		CHECK(send_frames(port_a, 0, 300, FRAME_BYTES), "not sent");
		for (unsigned int i = 0; i < 200; i++, received++)
			expect_frame(port_b, 0, FRAME_BYTES, i, 1);
	}
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(stats_of(port_b).ipackets, received + xstat_of(port_b, "rx_flushed_packets"));
}

/*
 * A core gets the address to halt on, and another core takes the frames that come before it halts. The first core must not halt, because the next frame is
 * written elsewhere. A full wrap later the address is right again.
 */
static void a_core_does_not_halt_where_another_took(void)
{
	struct rte_power_monitor_cond stale, now;

	pair_up(NULL, &(struct port_setup){.rx_desc = RING});
	CHECK_EQUAL(rte_eth_get_monitor_addr(port_b, 0, &stale), 0);
	for (unsigned int taken = 0; taken < RING; taken += 8) {
		CHECK_EQUAL(stale.fn(*(const volatile uint64_t *)stale.addr, stale.opaque),
		            taken == 0 ? 0 : -1);
		CHECK(send_frames(port_a, 0, 8, FRAME_BYTES), "not sent");
		CHECK_EQUAL(rte_eth_get_monitor_addr(port_b, 0, &now), 0);
		CHECK_EQUAL(now.fn(*(const volatile uint64_t *)now.addr, now.opaque), -1);
		CHECK_EQUAL(receive_all(port_b, 0), 8);
		CHECK_EQUAL(*(const volatile uint64_t *)stale.addr, 0);
	}
	CHECK_EQUAL(rte_eth_get_monitor_addr(port_b, 0, &now), 0);
	CHECK(now.addr == stale.addr, "a wrap ends elsewhere");
	CHECK_EQUAL(stale.fn(0, stale.opaque), 0);
}

/* ethdev does not prevent polling a stopped queue. */
static void polls_of_a_stopped_queue_find_nothing(void)
{
	pair_up(NULL, &(struct port_setup){.rx_desc = RING});
	for (unsigned int round = 1; round <= 3; round++) {
		CHECK(send_frames(port_a, 0, 40, FRAME_BYTES), "not sent");
		expect_frame(port_b, 0, FRAME_BYTES, 0, 1);
		CHECK_EQUAL(rte_eth_dev_rx_queue_stop(port_b, 0), 0);
		CHECK(send_frames(port_a, 0, 40, FRAME_BYTES), "not sent");
		CHECK(receive_one(port_b, 0) == NULL, "a frame from a stopped queue");
		CHECK_EQUAL(rte_eth_rx_queue_count(port_b, 0), 0);
		CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_b, 0), 0);
		CHECK_EQUAL(xstat_of(port_b, "rx_flushed_packets"), 39 * round);
		CHECK_EQUAL(stats_of(port_b).imissed, 40 * round);
	}
	CHECK(send_frames(port_a, 0, RING, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), RING);
}

/* How often each number came; written by all pollers. */
static _Atomic uint8_t *seen;
static atomic_uint received_total, damaged_total;

static bool note_frame(const struct rte_mbuf *m)
{
	const uint32_t number = number_of(m);

	return number < MAX_FRAMES && atomic_fetch_add(&seen[number], 1) == 0;
}

static unsigned int poll_once(void)
{
	struct rte_mbuf *burst[BURST];
	uint16_t got = rte_eth_rx_burst(port_b, 0, burst, BURST);
	unsigned int wrong = 0;

	for (uint16_t i = 0; i < got; i++)
		wrong += !note_frame(burst[i]);
	rte_pktmbuf_free_bulk(burst, got);
	atomic_fetch_add(&received_total, got);
	atomic_fetch_add(&damaged_total, wrong);
	return got;
}

static int poller(void *argument __rte_unused)
{
	while (!lcores_stop())
		poll_once();
	return 0;
}

static void begin_polling(void)
{
	seen = calloc(MAX_FRAMES, sizeof(*seen));
	atomic_store(&received_total, 0);
	atomic_store(&damaged_total, 0);
	rte_eal_mp_remote_launch(poller, NULL, SKIP_MAIN);
}

static void check_seen(uint32_t numbers, uint64_t expected)
{
	uint64_t once = 0, more = 0;

	for (uint32_t i = 0; i < numbers; i++) {
		once += seen[i] == 1;
		more += seen[i] > 1;
	}
	free(seen);
	CHECK_EQUAL(atomic_load(&damaged_total), 0);
	CHECK_EQUAL(more, 0);
	CHECK_EQUAL(once, expected);
	CHECK_EQUAL(atomic_load(&received_total), expected);
}

/* Three lcores poll one queue while the fourth sends; all share the available processors, so they are preempted as well. */
static void lcores_share_a_queue(void)
{
	uint64_t lost = 0;
	unsigned int lcore;
	uint32_t sent;

	pair_up(NULL, &(struct port_setup){.rx_desc = RING});
	begin_polling();
	sent = send_numbered(port_a, 0, 0, FRAMES);
	join_lcores();
	while (poll_once() > 0)
		;
	CHECK_EQUAL(sent, FRAMES);
	CHECK_EQUAL(rte_eth_rx_descriptor_status(port_b, 0, RING - 1), RTE_ETH_RX_DESC_AVAIL);
	check_seen(sent, sent - stats_of(port_b).imissed);
	CHECK_EQUAL(stats_of(port_b).ipackets + stats_of(port_b).imissed, sent);
	RTE_LCORE_FOREACH (lcore) {
		const uint64_t *counter;

		CHECK_EQUAL(net_crossover_race_lost(port_b, 0, lcore, &counter), 0);
		lost += *counter;
	}
	CHECK_EQUAL(xstat_of(port_b, "rx_race_lost"), lost);
	CHECK_EQUAL(xstat_of(port_b, "rx_q0_race_lost"), lost);
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(xstat_of(port_b, "rx_race_lost"), lost);
	rte_eth_xstats_reset(port_b);
	CHECK_EQUAL(xstat_of(port_b, "rx_race_lost"), 0);
}

/* The pool has hardly more buffers than the ring, so pollers fail again and again. */
static void lcores_share_a_queue_and_few_buffers(void)
{
	static struct rte_mbuf *taken[POOL_MBUFS];
	unsigned int count;
	uint32_t sent;

	pair_up(NULL, &(struct port_setup){.rx_desc = RING, .rx_pool = other_pool});
	count = pool_drain(other_pool, taken);
	rte_pktmbuf_free_bulk(taken + count - 40, 40);
	count -= 40;
	begin_polling();
	sent = send_numbered(port_a, 0, 0, FRAMES);
	join_lcores();
	rte_pktmbuf_free_bulk(taken, count);
	while (poll_once() > 0)
		;
	CHECK_EQUAL(sent, FRAMES);
	check_seen(sent, sent - stats_of(port_b).imissed);
}

static void a_port_stops_between_polls(void)
{
	uint32_t sent = 0;

	pair_up(NULL, &(struct port_setup){.rx_desc = RING});
	begin_polling();
	for (unsigned int i = 0; i < STOPS; i++) {
		sent += send_numbered(port_a, 0, sent, FRAMES / STOPS);
		join_lcores();
		CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
		CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
		rte_eal_mp_remote_launch(poller, NULL, SKIP_MAIN);
	}
	join_lcores();
	while (poll_once() > 0)
		;
	check_seen(sent, sent - stats_of(port_b).imissed - xstat_of(port_b, "rx_flushed_packets"));
}

const struct driver_case driver_corec_cases[] = {
        CASE(frames_arrive_in_order, "rx=corec", "rx=corec,dma=swap"),
        CASE(an_empty_mempool_loses_nothing, "rx=corec"),
        CASE(what_it_cannot_is_refused, "rx=corec"),
        CASE(a_start_checks_what_was_set_up_before, ""),
        CASE(the_mode_changes_between_starts, ""),
        CASE(a_core_does_not_halt_where_another_took, "rx=corec"),
        CASE(polls_of_a_stopped_queue_find_nothing, "rx=corec", ""),
        CASE(lcores_share_a_queue, "rx=corec", "rx=corec,dma=swap"),
        CASE(lcores_share_a_queue_and_few_buffers, "rx=corec"),
        CASE(a_port_stops_between_polls, "rx=corec", "rx=corec,dma=swap"),
        {0},
};
