/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames: contents, segments, scattering, what is missed and why, mbufs freed. */
#include <string.h>

#include "driver_suite.h"
#include "net_crossover.h"

#define JUMBO_BYTES (9000 + RTE_ETHER_HDR_LEN)

static const struct port_setup jumbo = {
        .mtu = 9000, .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER, .tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS};

static void frames_arrive_whole(void)
{
	static const uint32_t sizes[] = {14, 42, 60, 61, 63, 64, 65, 127, 128, 129, 511, 1500, 1514};

	pair_up(NULL, NULL);
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		struct rte_mbuf *sent = frame_make(pool, sizes[i], i), *m;

		sent->ol_flags |= RTE_MBUF_F_TX_IPV4;
		sent->vlan_tci = 77;
		CHECK(send_one(port_a, 0, sent), "%u bytes not sent", sizes[i]);
		m = receive_one(port_b, 0);
		CHECK(frame_is(m, sizes[i], i), "%u bytes did not arrive", sizes[i]);
		CHECK(m->port == port_b && m->ol_flags == 0 && m->vlan_tci == 0 && m->packet_type == 0,
		      "stale fields");
		CHECK(m->nb_segs == 1 && m->next == NULL && rte_mbuf_refcnt_read(m) == 1, "not a fresh mbuf");
		CHECK(m->pool == pool && m->data_off == RTE_PKTMBUF_HEADROOM, "not a buffer of the queue");
		CHECK(receive_one(port_b, 0) == NULL, "a second frame");
		rte_pktmbuf_free(m);
	}
}

/* Ring sizes that are not a power of two, bursts that divide neither ring: every wrap is met. */
static void order_holds_round_the_rings(void)
{
	struct port_setup small = {.rx_desc = 192, .tx_desc = 192, .rx_free_thresh = 7};
	struct rte_mbuf *burst[23];
	uint32_t next = 0;

	pair_up(&small, &small);
	for (uint32_t round = 0; round < 500; round++) {
		for (uint32_t i = 0; i < RTE_DIM(burst); i++)
			burst[i] = frame_make(pool, FRAME_BYTES, round * RTE_DIM(burst) + i);
		CHECK_EQUAL(rte_eth_tx_burst(port_a, 0, burst, RTE_DIM(burst)), RTE_DIM(burst));
		for (uint16_t got; (got = rte_eth_rx_burst(port_b, 0, burst, 11)) > 0;)
			for (uint16_t i = 0; i < got; i++, next++) {
				bool right = frame_is(burst[i], FRAME_BYTES, next);

				rte_pktmbuf_free(burst[i]);
				CHECK(right, "frame %u is not the next one", next);
			}
	}
	CHECK_EQUAL(next, 500 * RTE_DIM(burst));
}

static void large_bursts_are_taken(void)
{
	struct rte_mbuf *burst[300];

	pair_up(NULL, NULL);
	for (uint32_t i = 0; i < RTE_DIM(burst); i++)
		burst[i] = frame_make(pool, FRAME_BYTES, i);
	CHECK_EQUAL(rte_eth_tx_burst(port_a, 0, burst, RTE_DIM(burst)), RTE_DIM(burst));
	CHECK_EQUAL(rte_eth_rx_burst(port_b, 0, burst, RTE_DIM(burst)), RTE_DIM(burst));
	for (uint32_t i = 0; i < RTE_DIM(burst); i++)
		CHECK(frame_is(burst[i], FRAME_BYTES, i), "frame %u", i);
	rte_pktmbuf_free_bulk(burst, RTE_DIM(burst));
	CHECK_EQUAL(rte_eth_tx_burst(port_a, 0, burst, 0), 0);
	CHECK_EQUAL(rte_eth_rx_burst(port_b, 0, burst, 0), 0);
}

static void segments_are_gathered(void)
{
	static const struct {
		uint32_t frame, first, rest;
	} cuts[] = {{60, 14, 20}, {200, 1, 1}, {1000, 13, 77}, {1514, 60, 1454}, {1500, 700, 900}};

	pair_up(&jumbo, NULL);
	for (unsigned int i = 0; i < RTE_DIM(cuts); i++) {
		struct rte_mbuf *whole = frame_make(pool, cuts[i].frame, i);
		struct rte_mbuf *cut = frame_cut(whole, cuts[i].first, cuts[i].rest);

		rte_pktmbuf_free(whole);
		CHECK(cut != NULL && cut->nb_segs > 1, "no segments");
		CHECK(send_one(port_a, 0, cut), "not sent");
		expect_frame(port_b, 0, cuts[i].frame, i, 1);
	}
	CHECK_EQUAL(stats_of(port_a).obytes, 60 + 200 + 1000 + 1514 + 1500);
}

/* Under FAST_FREE, while the peer takes the frames and while it has no descriptors left for them. */
static void send_segments_fast(bool received)
{
	struct port_setup fast = jumbo;

	fast.tx_offloads |= RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	pair_up(&fast, NULL);
	for (uint32_t i = 0; i < 500; i++) {
		struct rte_mbuf *whole = frame_make(pool, 300, i), *cut = frame_cut(whole, 50, 100);

		rte_pktmbuf_free(whole);
		CHECK(send_one(port_a, 0, cut) && send_frames(port_a, 0, 2, FRAME_BYTES), "not sent");
		CHECK_EQUAL(received ? receive_all(port_b, 0) : 3, 3);
	}
	/* A head that went back with its segments would come out of the pool broken. */
	for (uint32_t i = 0; i < 600; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
		bool clean = m->next == NULL && m->nb_segs == 1;

		rte_pktmbuf_free(m);
		CHECK(clean, "a broken mbuf came out of the pool");
	}
}

static void segments_are_freed_fast(void)
{
	send_segments_fast(true);
}

static void missed_segments_are_freed_fast(void)
{
	send_segments_fast(false);
}

static void long_frames_are_scattered(void)
{
	static const uint32_t sizes[] = {255, 256, 257, 512, 513, 2000, 9013, JUMBO_BYTES};
	struct port_setup receiver = jumbo, sender = jumbo;
	struct rte_mempool *big = rte_pktmbuf_pool_create("big", 63, 0, 0, 10000, SOCKET_ID_ANY);

	receiver.rx_pool = small_pool;
	pair_up(&sender, &receiver);
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		struct rte_mbuf *m;

		CHECK(send_one(port_a, 0, frame_make(big, sizes[i], i)), "%u bytes not sent", sizes[i]);
		m = receive_one(port_b, 0);
		CHECK(frame_is(m, sizes[i], i), "%u bytes did not arrive", sizes[i]);
		CHECK_EQUAL(m->nb_segs, (sizes[i] + 255) / 256);
		CHECK(m->pool == small_pool, "not a buffer of the queue");
		rte_pktmbuf_free(m);
	}
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	rte_mempool_free(big);
}

/* Segments in, several buffers out, and not one byte of the frames between them is touched. */
static void gathers_and_scatters_at_once(void)
{
	struct port_setup receiver = jumbo;

	receiver.rx_pool = small_pool;
	receiver.rx_desc = 64;
	pair_up(&jumbo, &receiver);
	for (uint32_t i = 0; i < 200; i++) {
		struct rte_mbuf *whole = frame_make(pool, 1400, i), *cut = frame_cut(whole, 333, 333);

		rte_pktmbuf_free(whole);
		CHECK(send_one(port_a, 0, frame_make(pool, FRAME_BYTES, i)) && send_one(port_a, 0, cut),
		      "not sent");
		expect_frame(port_b, 0, FRAME_BYTES, i, 1);
		expect_frame(port_b, 0, 1400, i, 6);
	}
}

static void half_a_frame_is_missed_whole(void)
{
	struct port_setup receiver = jumbo;

	receiver.rx_pool = small_pool;
	receiver.rx_desc = 64;
	pair_up(&jumbo, &receiver);
	/* 10 frames of 6 buffers take 60 of 64 descriptors; the eleventh does not fit, a short one does. */
	CHECK(send_frames(port_a, 0, 11, 1400), "not sent");
	CHECK(send_frames(port_a, 0, 1, FRAME_BYTES), "not sent");
	CHECK_EQUAL(stats_of(port_b).imissed, 1);
	CHECK_EQUAL(receive_all(port_b, 0), 11);
	CHECK_EQUAL(stats_of(port_b).ibytes, 10 * 1400 + FRAME_BYTES);
}

static void missed_frames_are_counted(void)
{
	pair_up(NULL, &(struct port_setup){.rx_desc = 128});
	for (unsigned int round = 1; round <= 10; round++) {
		CHECK(send_frames(port_a, 0, 1000, FRAME_BYTES), "not sent");
		CHECK_EQUAL(stats_of(port_b).ipackets, 128 * round);
		CHECK_EQUAL(stats_of(port_b).imissed, (1000 - 128) * round);
		CHECK_EQUAL(xstat_of(port_b, "rx_q0_missed"), (1000 - 128) * round);
		CHECK_EQUAL(stats_of(port_a).opackets, 1000 * round);
		CHECK_EQUAL(receive_all(port_b, 0), 128);
	}
	CHECK(send_frames(port_a, 0, 100, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 100);
	CHECK_EQUAL(stats_of(port_b).imissed, (1000 - 128) * 10);
}

static void wrong_lengths_are_counted(void)
{
	pair_up(&jumbo, &(struct port_setup){.mtu = 1000});
	CHECK(send_frames(port_a, 0, 3, 1018), "not sent");
	CHECK(send_frames(port_a, 0, 4, 1019), "not sent");
	CHECK(send_frames(port_a, 0, 5, 13), "not taken");
	CHECK_EQUAL(receive_all(port_b, 0), 3);
	CHECK_EQUAL(stats_of(port_b).ierrors, 4);
	CHECK_EQUAL(xstat_of(port_b, "rx_oversize_errors"), 4);
	CHECK_EQUAL(stats_of(port_a).opackets, 7);
	CHECK_EQUAL(stats_of(port_a).oerrors, 5);
	CHECK_EQUAL(rte_eth_dev_set_mtu(port_b, 1001), 0);
	CHECK(send_frames(port_a, 0, 1, 1019), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 1);
}

static void failed_refills_are_counted(void)
{
	static struct rte_mbuf *taken[POOL_MBUFS];
	const uint64_t *failures;
	unsigned int count;

	pair_up(NULL, &(struct port_setup){.rx_desc = 64, .rx_pool = other_pool});
	CHECK_EQUAL(net_crossover_refill_failures(RTE_MAX_ETHPORTS - 1, 0, &failures), -ENODEV);
	CHECK_EQUAL(net_crossover_refill_failures(port_b, 1, &failures), -EINVAL);
	CHECK_EQUAL(net_crossover_refill_failures(port_b, 0, &failures), 0);
	count = pool_drain(other_pool, taken);
	CHECK(send_frames(port_a, 0, 70, FRAME_BYTES), "not sent");
	CHECK_EQUAL(*failures, 0);
	for (unsigned int i = 0; i < 64; i++)
		taken[count++] = must_receive(port_b, 0);
	/* From the 32nd frame on every poll asked for what was missing, at most 32 at a time: 32 polls so far, one more now. */
	CHECK_EQUAL(*failures, 33);
	CHECK_EQUAL(stats_of(port_b).rx_nombuf, 33 * 32);
	CHECK(receive_one(port_b, 0) == NULL, "a frame from nowhere");
	CHECK_EQUAL(*failures, 34);
	CHECK_EQUAL(xstat_of(port_b, "rx_refill_failures"), 34);
	CHECK_EQUAL(stats_of(port_b).imissed, 6);
	rte_pktmbuf_free_bulk(taken, count);
	CHECK(receive_one(port_b, 0) == NULL, "a frame from nowhere");
	CHECK_EQUAL(*failures, 34);
	CHECK(send_frames(port_a, 0, 64, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 64);
	CHECK_EQUAL(stats_of(port_b).imissed, 6);
}

static void sent_mbufs_wait_for_cleanup(void)
{
	unsigned int posted;

	pair_up(&(struct port_setup){.tx_desc = 256, .tx_free_thresh = 32}, NULL);
	posted = rte_mempool_in_use_count(pool);
	for (unsigned int i = 0; i < 20; i++) {
		CHECK(send_frames(port_a, 0, 32, FRAME_BYTES), "not sent");
		CHECK_EQUAL(receive_all(port_b, 0), 32);
	}
	/* 256 entries, freed in 32s once fewer than 32 are free. */
	CHECK_EQUAL(rte_mempool_in_use_count(pool) - posted, 224);
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 5), 5);
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 300), 219);
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 0), 0);
	CHECK_EQUAL(rte_mempool_in_use_count(pool), posted);
	CHECK(send_frames(port_a, 0, 32, FRAME_BYTES), "not sent");
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 0), 32);
	CHECK(rte_eth_tx_done_cleanup(port_a, 1, 0) < 0, "cleans a queue that is not there");
}

const struct driver_case driver_traffic_cases[] = {
        CASE(frames_arrive_whole, "dma=copy", "dma=swap"),
        CASE(order_holds_round_the_rings, "dma=copy", "dma=swap"),
        CASE(large_bursts_are_taken, "dma=copy", "dma=swap"),
        CASE(segments_are_gathered, "dma=copy", "dma=swap"),
        CASE(segments_are_freed_fast, "dma=copy", "dma=swap"),
        CASE(missed_segments_are_freed_fast, "dma=copy", "dma=swap", "feed=infinite"),
        CASE(long_frames_are_scattered, "dma=copy", "dma=swap"),
        CASE(gathers_and_scatters_at_once, "dma=copy", "dma=swap"),
        CASE(half_a_frame_is_missed_whole, ""),
        CASE(missed_frames_are_counted, "dma=copy", "dma=swap", "rx=corec"),
        CASE(wrong_lengths_are_counted, "dma=copy", "dma=swap"),
        CASE(failed_refills_are_counted, "dma=copy", "dma=swap"),
        CASE(sent_mbufs_wait_for_cleanup, ""),
        {0},
};
