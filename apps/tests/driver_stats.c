/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics: one account for every frame, reset, extended statistics of all queues. */
#include <stdio.h>
#include <string.h>

#include "driver_suite.h"

#define QUEUES      40
#define MOST_XSTATS 1024

static void every_frame_has_one_account(void)
{
	struct port_setup receiver = {.rx_queues = 4, .rx_desc = 64, .mtu = 1000, .rss_types = RSS_UDP};
	struct rte_eth_stats a, b;

	pair_up(NULL, &receiver);
	CHECK_EQUAL(rte_eth_dev_rx_queue_stop(port_b, 2), 0);
	CHECK(send_frames(port_a, 0, 1000, FRAME_BYTES) && send_frames(port_a, 0, 50, 1400), "not sent");
	CHECK_EQUAL(rte_eth_promiscuous_disable(port_b), 0);
	CHECK(send_frames(port_a, 0, 70, FRAME_BYTES), "not sent");
	a = stats_of(port_a);
	b = stats_of(port_b);
	CHECK_EQUAL(a.opackets, 1120);
	CHECK_EQUAL(a.obytes, 1070 * FRAME_BYTES + 50 * 1400);
	CHECK_EQUAL(b.ierrors, 50);
	CHECK_EQUAL(xstat_of(port_b, "rx_filtered_packets"), 70);
	CHECK_EQUAL(b.ipackets + b.imissed + b.ierrors + 70, a.opackets);
	CHECK_EQUAL(b.ibytes, b.ipackets * FRAME_BYTES);
	for (uint16_t queue = 0; queue < 4; queue++)
		b.ipackets -= receive_all(port_b, queue);
	CHECK_EQUAL(b.ipackets, 0);
}

static void reset_begins_at_zero(void)
{
	static const struct rte_eth_stats zero;
	struct rte_eth_stats stats;

	pair_up(NULL, &(struct port_setup){.rx_desc = 64, .mtu = 1000});
	CHECK(send_frames(port_a, 0, 100, FRAME_BYTES) && send_frames(port_a, 0, 3, 1400), "not sent");
	CHECK_EQUAL(rte_eth_stats_reset(port_b), 0);
	stats = stats_of(port_b);
	CHECK(memcmp(&stats, &zero, sizeof(zero)) == 0, "not all zero after the reset");
	CHECK_EQUAL(stats_of(port_a).opackets, 103);
	CHECK_EQUAL(rte_eth_xstats_reset(port_a), 0);
	CHECK_EQUAL(stats_of(port_a).opackets, 0);
	CHECK_EQUAL(receive_all(port_b, 0), 64);
	CHECK(send_frames(port_a, 0, 5, FRAME_BYTES) && send_frames(port_a, 0, 2, 1400), "not sent");
	CHECK_EQUAL(stats_of(port_a).opackets, 7);
	CHECK_EQUAL(stats_of(port_b).ipackets, 5);
	CHECK_EQUAL(stats_of(port_b).ierrors, 2);
	receive_all(port_b, 0);
}

static void queues_have_statistics(void)
{
	struct port_setup many = {
	        .rx_queues = QUEUES, .tx_queues = QUEUES, .rx_desc = 64, .rss_types = RSS_UDP};
	uint64_t packets = 0, bytes = 0;

	pair_up(&many, &many);
	for (uint16_t queue = 0; queue < QUEUES; queue++)
		CHECK(send_frames(port_a, queue, queue, FRAME_BYTES), "not sent");
	for (uint16_t queue = 0; queue < QUEUES; queue++) {
		char name[RTE_ETH_XSTATS_NAME_SIZE];

		snprintf(name, sizeof(name), "tx_q%u_packets", queue);
		CHECK_EQUAL(xstat_of(port_a, name), queue);
		snprintf(name, sizeof(name), "rx_q%u_packets", queue);
		packets += xstat_of(port_b, name);
		snprintf(name, sizeof(name), "rx_q%u_missed", queue);
		packets += xstat_of(port_b, name);
		snprintf(name, sizeof(name), "rx_q%u_bytes", queue);
		bytes += xstat_of(port_b, name);
		receive_all(port_b, queue);
	}
	CHECK_EQUAL(packets, QUEUES * (QUEUES - 1) / 2);
	CHECK_EQUAL(bytes, stats_of(port_b).ibytes);
	CHECK(xstat_of(port_b, "rx_q40_packets") == UINT64_MAX, "statistics of a queue that is not there");
}

static void names_and_values_agree(void)
{
	/* Static, because a failed CHECK returns. */
	static struct rte_eth_xstat_name names[MOST_XSTATS];
	static struct rte_eth_xstat values[MOST_XSTATS];
	int count;

	pair_up(NULL, NULL);
	count = rte_eth_xstats_get(port_a, NULL, 0);
	CHECK(count > 10 && count <= MOST_XSTATS, "%d extended statistics", count);
	CHECK_EQUAL(rte_eth_xstats_get_names(port_a, NULL, 0), count);
	CHECK_EQUAL(rte_eth_xstats_get_names(port_a, names, (unsigned int)count), count);
	CHECK_EQUAL(rte_eth_xstats_get(port_a, values, (unsigned int)count), count);
	CHECK_EQUAL(rte_eth_xstats_get(port_a, values, (unsigned int)count - 1), count);
	for (int i = 0; i < count; i++) {
		CHECK_EQUAL(values[i].id, i);
		for (int j = 0; j < i; j++)
			CHECK(strcmp(names[i].name, names[j].name) != 0, "two statistics are called %s",
			      names[i].name);
	}
}

static void missed_frames_belong_to_their_queue(void)
{
	struct port_setup two = {.tx_queues = 2};

	pair_up(&two, &(struct port_setup){.rx_desc = 64});
	CHECK(send_frames(port_a, 0, 70, FRAME_BYTES) && send_frames(port_a, 1, 5, FRAME_BYTES), "not sent");
	CHECK_EQUAL(xstat_of(port_b, "rx_q0_missed"), 11);
	/* The sender's queue goes; its account stays. */
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	CHECK_EQUAL(rte_eth_tx_queue_setup(port_a, 0, 64, SOCKET_ID_ANY, NULL), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_a), 0);
	CHECK_EQUAL(xstat_of(port_b, "rx_q0_missed"), 11);
	CHECK(send_frames(port_a, 0, 3, FRAME_BYTES), "not sent");
	CHECK_EQUAL(stats_of(port_b).imissed, 14);
	/* The receiver's queue goes, and another one begins at zero. */
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(rte_eth_rx_queue_setup(port_b, 0, 64, SOCKET_ID_ANY, NULL, pool), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
	CHECK_EQUAL(xstat_of(port_b, "rx_q0_missed"), 0);
	CHECK(send_frames(port_a, 1, 66, FRAME_BYTES), "not sent");
	CHECK_EQUAL(stats_of(port_b).imissed, 2);
	receive_all(port_b, 0);
}

struct wire_sample {
	uint64_t frames, cycles;
};

/* The samples while `frames` frames of one size were sent and received, in chunks of BURST. */
static struct wire_sample sample_wire(unsigned int frames, uint32_t bytes)
{
	struct wire_sample before = {xstat_of(port_a, "tx_q0_wire_sampled_frames"),
	                             xstat_of(port_a, "tx_q0_wire_sampled_cycles")};

	for (unsigned int sent = 0; sent < frames; sent += BURST) {
		send_frames(port_a, 0, BURST, bytes);
		receive_all(port_b, 0);
	}
	return (struct wire_sample){xstat_of(port_a, "tx_q0_wire_sampled_frames") - before.frames,
	                            xstat_of(port_a, "tx_q0_wire_sampled_cycles") - before.cycles};
}

/* Distances between timed chunks are uniform, so that 1/64.5 of all are timed, +-5 % (one sigma) among these. */
static void the_wire_is_sampled(void)
{
	const unsigned int frames = 640 * 64 * BURST / 10;
	struct wire_sample small, large;
	double small_cycles, large_cycles;

	pair_up(NULL, NULL);
	sample_wire(10 * BURST, 1514);
	small = sample_wire(frames, FRAME_BYTES);
	large = sample_wire(frames, 1514);
	CHECK(small.frames > frames / 64 * 3 / 4 && small.frames < frames / 64 * 5 / 4,
	      "%" PRIu64 " of %u frames were sampled", small.frames, frames);
	CHECK_EQUAL(small.frames % BURST, 0);
	small_cycles = (double)small.cycles / (double)small.frames;
	large_cycles = (double)large.cycles / (double)large.frames;
	CHECK(small_cycles > 1 && large_cycles > 2 * small_cycles,
	      "%.1f cycles for a frame of 64 bytes, %.1f for 1518", small_cycles, large_cycles);
	CHECK(xstat_of(port_a, "tx_q0_wire_interrupted_samples") < 20, "many samples were interrupted");
	CHECK_EQUAL(xstat_of(port_b, "tx_q0_wire_sampled_frames"), 0);
}

const struct driver_case driver_stats_cases[] = {
        CASE(missed_frames_belong_to_their_queue, "dma=copy", "dma=swap"),
        CASE(the_wire_is_sampled, "dma=copy"),
        CASE(every_frame_has_one_account, "dma=copy", "dma=swap"),
        CASE(reset_begins_at_zero, ""),
        CASE(queues_have_statistics, ""),
        CASE(names_and_values_agree, ""),
        {0},
};
