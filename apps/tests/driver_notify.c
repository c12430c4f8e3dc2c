/* SPDX-License-Identifier: BSD-3-Clause */
/* Doorbells that are rung after DD (net_crossover_notify()). */
#include <errno.h>
#include <string.h>

#include "driver_suite.h"
#include "net_crossover.h"
#include "qwait.h"

#define QUEUES 8

static union {
	struct qwait set;
	uint8_t bytes[65536];
} memory;
static struct qwait_doorbell bells[QUEUES];
static struct qwait_waiter waiter;

/* A set of the port's queues, all of them armed. `events`: it takes events from its only sender. */
static void wait_for(uint16_t port, bool events)
{
	const struct qwait_config config = {.queues = QUEUES, .one_waiter = events, .one_poster = events};

	memset(bells, 0, sizeof(bells));
	CHECK(qwait_bytes(QUEUES) <= sizeof(memory), "too small");
	CHECK_EQUAL(qwait_init(&memory.set, &config), 0);
	qwait_waiter_init(&waiter, &memory.set);
	for (uint32_t q = 0; q < QUEUES; q++)
		CHECK_EQUAL(qwait_add(&memory.set, q, &bells[q], 1), 0);
	for (uint32_t q = 0; q < QUEUES; q++)
		qwait_rearm(&memory.set, qwait_next(&waiter));
	CHECK_EQUAL(qwait_next(&waiter), QWAIT_NONE);
	CHECK_EQUAL(net_crossover_notify(port, bells, QUEUES), 0);
}

/* Serves each ready queue once; returns the queues' bits, and how many frames were received. */
static uint32_t serve(uint16_t port, unsigned int *frames)
{
	uint32_t served = 0;

	*frames = 0;
	for (uint32_t q = qwait_next(&waiter); q != QWAIT_NONE; q = qwait_next(&waiter)) {
		*frames += receive_all(port, (uint16_t)q);
		served |= 1u << q;
		qwait_rearm(&memory.set, q);
	}
	return served;
}

/* By rings, then by events: at least one per queue, however often it was rung. */
static void every_queue_with_frames_is_rung(void)
{
	struct port_setup many = {.rx_queues = QUEUES, .rss_types = RSS_UDP}, one = {0};
	unsigned int frames;

	for (int events = 0; events < 2; events++) {
		pair_up(&many, &one);
		wait_for(port_a, events);
		for (int i = 0; i < 50; i++) {
			CHECK(send_frames(port_b, 0, 256, FRAME_BYTES), "not sent");
			CHECK_EQUAL(serve(port_a, &frames), (1u << QUEUES) - 1);
			CHECK_EQUAL(frames, 256);
			CHECK_EQUAL(serve(port_a, &frames), 0);
		}
		CHECK(memory.set.events.posted >= 50 * QUEUES * (unsigned int)events, "events are missing");
		CHECK_EQUAL(memory.set.events.posted, memory.set.events.next);
		CHECK(send_frames(port_b, 0, 1, FRAME_BYTES), "not sent");
		CHECK_EQUAL(__builtin_popcount(serve(port_a, &frames)), 1);
		CHECK_EQUAL(frames, 1);
		CHECK_EQUAL(net_crossover_notify(port_a, NULL, 0), 0);
	}
}

/* Two senders may not write events; both ring the waiter that could read them. */
static void several_senders_write_no_events(void)
{
	struct port_setup many = {.rx_queues = QUEUES, .rss_types = RSS_UDP}, two = {.tx_queues = 2};
	unsigned int frames;

	pair_up(&many, &two);
	wait_for(port_a, true);
	for (uint16_t sender = 0; sender < 2; sender++) {
		CHECK(send_frames(port_b, sender, 256, FRAME_BYTES), "not sent");
		CHECK_EQUAL(serve(port_a, &frames), (1u << QUEUES) - 1);
		CHECK_EQUAL(frames, 256);
	}
	CHECK_EQUAL(memory.set.events.posted, 0);
	CHECK_EQUAL(net_crossover_notify(port_a, NULL, 0), 0);
}

/* Frames are not classified here: the other gate. */
static void the_only_queue_is_rung(void)
{
	unsigned int frames;

	for (int events = 0; events < 2; events++) {
		pair_up(NULL, NULL);
		wait_for(port_b, events);
		CHECK(send_frames(port_a, 0, 100, FRAME_BYTES), "not sent");
		CHECK_EQUAL(memory.set.events.posted > 0, events);
		CHECK_EQUAL(serve(port_b, &frames), 1);
		CHECK_EQUAL(frames, 100);
		CHECK_EQUAL(net_crossover_notify(port_b, NULL, 0), 0);
	}
}

/*
 * Nothing comes in, because the pool was empty when the ring was last polled: only a poll can post buffers again. After that poll, a full ring is not
 * announced again.
 */
static void an_empty_ring_is_rung(void)
{
	static struct rte_mbuf *taken[POOL_MBUFS];
	unsigned int count, frames;
	uint32_t posted;

	for (int events = 0; events < 2; events++) {
		pair_up(NULL, &(struct port_setup){.rx_desc = 64, .rx_pool = other_pool});
		wait_for(port_b, events);
		CHECK(send_frames(port_a, 0, 64, FRAME_BYTES), "not sent");
		CHECK_EQUAL(qwait_next(&waiter), 0);
		count = pool_drain(other_pool, taken);
		for (unsigned int i = 0; i < 64; i++)
			taken[count++] = must_receive(port_b, 0);
		qwait_rearm(&memory.set, 0);
		CHECK_EQUAL(serve(port_b, &frames), 0);
		rte_pktmbuf_free_bulk(taken, count);
		CHECK(send_frames(port_a, 0, 1, FRAME_BYTES), "not sent");
		CHECK_EQUAL(stats_of(port_b).imissed, 1);
		CHECK_EQUAL(serve(port_b, &frames), 1);
		CHECK_EQUAL(frames, 0);
		CHECK(send_frames(port_a, 0, 64, FRAME_BYTES), "not sent");
		posted = memory.set.events.posted;
		CHECK(send_frames(port_a, 0, 1, FRAME_BYTES), "not sent");
		CHECK_EQUAL(memory.set.events.posted, posted);
		CHECK_EQUAL(stats_of(port_b).imissed, 2);
		CHECK_EQUAL(serve(port_b, &frames), 1);
		CHECK_EQUAL(frames, 64);
		CHECK_EQUAL(net_crossover_notify(port_b, NULL, 0), 0);
	}
}

static void nobody_rings_who_was_not_asked(void)
{
	unsigned int frames;

	pair_up(NULL, NULL);
	wait_for(port_b, false);
	CHECK_EQUAL(net_crossover_notify(port_b, NULL, 0), 0);
	CHECK(send_frames(port_a, 0, 100, FRAME_BYTES), "not sent");
	CHECK_EQUAL(serve(port_b, &frames), 0);
	CHECK_EQUAL(receive_all(port_b, 0), 100);
	/* the other direction was not configured */
	CHECK(send_frames(port_b, 0, 1, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_a, 0), 1);
}

static void a_ring_outlives_a_change_of_the_filter(void)
{
	unsigned int frames;

	pair_up(NULL, NULL);
	wait_for(port_b, false);
	CHECK_EQUAL(rte_eth_promiscuous_disable(port_b), 0);
	CHECK_EQUAL(rte_eth_promiscuous_enable(port_b), 0);
	CHECK_EQUAL(rte_eth_dev_set_link_down(port_a), 0);
	CHECK_EQUAL(rte_eth_dev_set_link_up(port_a), 0);
	CHECK(send_frames(port_a, 0, 3, FRAME_BYTES), "not sent");
	CHECK_EQUAL(serve(port_b, &frames), 1);
	CHECK_EQUAL(frames, 3);
	CHECK_EQUAL(net_crossover_notify(port_b, NULL, 0), 0);
}

static void queues_that_share_a_bell_ring_it(void)
{
	enum { SHARED = 3 };
	struct port_setup many = {.rx_queues = QUEUES, .rss_types = RSS_UDP}, one = {0};
	unsigned int frames = 0;

	pair_up(&many, &one);
	wait_for(port_a, false);
	CHECK_EQUAL(net_crossover_notify(port_a, bells, SHARED), 0);
	CHECK(send_frames(port_b, 0, 256, FRAME_BYTES), "not sent");
	for (uint32_t bell = 0; bell < SHARED; bell++)
		CHECK_EQUAL(qwait_next(&waiter), bell);
	CHECK_EQUAL(qwait_next(&waiter), QWAIT_NONE);
	for (uint16_t q = 0; q < QUEUES; q++)
		frames += receive_all(port_a, q);
	CHECK_EQUAL(frames, 256);
	CHECK_EQUAL(net_crossover_notify(port_a, NULL, 0), 0);
}

static void without_a_sender_nobody_rings(void)
{
	pair_up(NULL, NULL);
	CHECK_EQUAL(net_crossover_notify(port_a, bells, QUEUES), -ENOTSUP);
	CHECK_EQUAL(net_crossover_notify(port_a, NULL, 0), 0);
	CHECK_EQUAL(net_crossover_notify(port_a, bells, 0), -EINVAL);
	CHECK_EQUAL(net_crossover_notify(UINT16_MAX, bells, QUEUES), -ENODEV);
}

const struct driver_case driver_notify_cases[] = {
        CASE(every_queue_with_frames_is_rung, "", "dma=swap"),
        CASE(the_only_queue_is_rung, ""),
        CASE(an_empty_ring_is_rung, ""),
        CASE(several_senders_write_no_events, ""),
        CASE(nobody_rings_who_was_not_asked, ""),
        CASE(a_ring_outlives_a_change_of_the_filter, ""),
        CASE(queues_that_share_a_bell_ring_it, ""),
        CASE(without_a_sender_nobody_rings, "feed=infinite"),
        {0},
};
