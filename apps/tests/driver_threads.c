/* SPDX-License-Identifier: BSD-3-Clause */
/* Several lcores at once: senders that share an RX queue, and control threads that take rings away from senders. */
#include <stdatomic.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include "driver_suite.h"
#include "net_crossover.h"

#define SENDERS     2
#define FRAMES_EACH 100000u
#define SETUPS      100u

static atomic_uint sent_total, senders_done;

/* Sends FRAMES_EACH frames with the numbers (TX queue << 24) + n, or until it is stopped. */
static int sender(void *argument)
{
	uint32_t queue = (uint32_t)(uintptr_t)argument;

	atomic_fetch_add(&sent_total, send_numbered(port_a, (uint16_t)queue, queue << 24, FRAMES_EACH));
	atomic_fetch_add(&senders_done, 1);
	return 0;
}

static void launch_senders(unsigned int senders)
{
	unsigned int lcore, launched = 0;

	atomic_store(&sent_total, 0);
	atomic_store(&senders_done, 0);
	RTE_LCORE_FOREACH_WORKER (lcore)
		if (launched < senders)
			rte_eal_remote_launch(sender, (void *)(uintptr_t)launched++, lcore);
}

static uint32_t next_number[SENDERS];

/* Returns the frames received; the numbers of each sender must rise. */
static unsigned int receive_in_order(void)
{
	struct rte_mbuf *burst[BURST];
	uint16_t got = rte_eth_rx_burst(port_b, 0, burst, BURST);
	bool right = true;

	for (uint16_t i = 0; i < got; i++) {
		uint32_t number = number_of(burst[i]), queue = number >> 24, n = number & 0xffffff;

		right = right && queue < SENDERS && n >= next_number[queue];
		if (right)
			next_number[queue] = n + 1;
	}
	rte_pktmbuf_free_bulk(burst, got);
	CHECK(right, "a frame is damaged or out of order");
	return got;
}

/* Ends the senders. Returns the frames that were left for the receiver. */
static unsigned int join_senders(void)
{
	unsigned int received = 0, got;

	join_lcores();
	while ((got = receive_in_order()) > 0)
		received += got;
	return received;
}

/* Both ports are up, the TX queues of port_a started. */
static void send_and_receive_in_order(void)
{
	uint64_t limit = rte_get_tsc_cycles() + LIMIT_S * rte_get_tsc_hz();
	unsigned int received = 0;

	memset(next_number, 0, sizeof(next_number));
	launch_senders(SENDERS);
	while (atomic_load(&senders_done) < SENDERS && rte_get_tsc_cycles() < limit)
		received += receive_in_order();
	received += join_senders();
	CHECK_EQUAL(atomic_load(&sent_total), SENDERS * FRAMES_EACH);
	CHECK_EQUAL(stats_of(port_a).opackets, SENDERS * FRAMES_EACH);
	CHECK_EQUAL(received + stats_of(port_b).imissed, SENDERS * FRAMES_EACH);
}

static void senders_share_a_queue(void)
{
	pair_up(&(struct port_setup){.tx_queues = SENDERS}, &(struct port_setup){.rx_desc = 1024});
	send_and_receive_in_order();
}

/* Uses a ring whose size is no power of two, and so small that most reservations meet its end. */
static void senders_share_a_small_ring(void)
{
	pair_up(&(struct port_setup){.tx_queues = SENDERS}, &(struct port_setup){.rx_desc = 192});
	send_and_receive_in_order();
}

/* The first queue is set up while it is the only one; ethdev keeps it when the port is configured with more. */
static void a_second_sender_comes_later(void)
{
	struct rte_eth_conf conf = {0};

	pair_up(NULL, &(struct port_setup){.rx_desc = 1024});
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	CHECK_EQUAL(rte_eth_dev_configure(port_a, 1, SENDERS, &conf), 0);
	for (uint16_t queue = 1; queue < SENDERS; queue++)
		CHECK_EQUAL(rte_eth_tx_queue_setup(port_a, queue, 512, SOCKET_ID_ANY, NULL), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_a), 0);
	send_and_receive_in_order();
}

static int start_or_stop_the_second(bool sends)
{
	return (sends ? rte_eth_dev_tx_queue_start : rte_eth_dev_tx_queue_stop)(port_a, 1);
}

static int assign(uint16_t sender)
{
	return net_crossover_assign(port_b, port_a, &sender, 1);
}

static int assign_to_both_or_the_first(bool both)
{
	return assign(both ? UINT16_MAX : 0);
}

/*
 * While the first queue sends, the second one sends by turns. Its frames arrive or are missed; all that arrive are whole and in
 * order, and none is lost.
 */
static void send_by_turns(int (*change)(bool both))
{
	unsigned int received = 0, extra = 0;

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, &(struct port_setup){.rx_desc = 1024});
	CHECK_EQUAL(change(false), 0);
	memset(next_number, 0, sizeof(next_number));
	launch_senders(1);
	for (uint32_t i = 0; i < 400 * 50; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		if (i % 50 == 0)
			CHECK_EQUAL(change(i / 50 % 2 == 0), 0);
		received += receive_in_order();
		if (m == NULL)
			continue;
		number_frame(m, 1 << 24 | extra);
		extra += send_one(port_a, 1, m);
	}
	received += join_senders();
	CHECK(extra > 100, "the second queue sent only %u frames", extra);
	CHECK_EQUAL(received + stats_of(port_b).imissed, atomic_load(&sent_total) + extra);
	CHECK_EQUAL(stats_of(port_b).ipackets, received);
}

static void a_second_sender_comes_and_goes(void)
{
	send_by_turns(start_or_stop_the_second);
}

/* The ring belongs to the first sender and to both by turns. */
static void a_ring_is_assigned_under_traffic(void)
{
	send_by_turns(assign_to_both_or_the_first);
}

/* Sends 10 frames on each TX queue. Returns how many were missed: 100 for each of the first queue, 1 for each of the second. */
static uint64_t missed_of_both(void)
{
	uint64_t before = stats_of(port_b).imissed, missed[SENDERS];

	for (uint16_t queue = 0; queue < SENDERS; queue++) {
		if (!send_frames(port_a, queue, 10, FRAME_BYTES))
			return UINT64_MAX;
		missed[queue] = stats_of(port_b).imissed - before;
		before += missed[queue];
	}
	receive_all(port_b, 0);
	return missed[0] * 100 + missed[1];
}

static void an_assigned_ring_has_one_sender(void)
{
	struct rte_eth_rss_reta_entry64 groups[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE] = {
	        {.mask = 1}};
	struct rte_eth_rss_conf conf = {.rss_hf = RSS_UDP};

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, &(struct port_setup){.rss_types = RSS_UDP});
	CHECK_EQUAL(missed_of_both(), 0);
	CHECK_EQUAL(assign(0), 0);
	CHECK_EQUAL(missed_of_both(), 10);
	CHECK_EQUAL(assign(1), 0);
	CHECK_EQUAL(missed_of_both(), 1000);
	CHECK_EQUAL(rte_eth_dev_rss_reta_update(port_b, groups, RTE_ETH_RSS_RETA_SIZE_512), 0);
	CHECK_EQUAL(missed_of_both(), 0);
	CHECK_EQUAL(assign(0), 0);
	CHECK_EQUAL(rte_eth_dev_rss_hash_update(port_b, &conf), 0);
	CHECK_EQUAL(missed_of_both(), 0);
	CHECK_EQUAL(assign(0), 0);
	CHECK_EQUAL(rte_eth_dev_tx_queue_stop(port_a, 0), 0);
	CHECK(send_frames(port_a, 1, 10, FRAME_BYTES), "not sent");
	CHECK_EQUAL(rte_eth_dev_tx_queue_start(port_a, 0), 0);
	CHECK_EQUAL(receive_all(port_b, 0), 10);
	CHECK_EQUAL(assign(0), 0);
	CHECK_EQUAL(net_crossover_assign(port_b, port_a, NULL, 0), 0);
	CHECK_EQUAL(missed_of_both(), 0);
	CHECK_EQUAL(stats_of(port_b).ipackets + stats_of(port_b).imissed, stats_of(port_a).opackets);
}

static void impossible_assignments_are_refused(void)
{
	const uint16_t senders[] = {0, 1, SENDERS};

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, NULL);
	CHECK_EQUAL(assign(SENDERS), -EINVAL);
	CHECK_EQUAL(net_crossover_assign(port_b, port_a, senders, 2), -EINVAL);
	CHECK_EQUAL(net_crossover_assign(port_b, port_b, senders, 1), -ENOTSUP);
	CHECK_EQUAL(net_crossover_assign(RTE_MAX_ETHPORTS - 1, port_a, senders, 1), -ENODEV);
	CHECK_EQUAL(missed_of_both(), 0);
}

/* Frames of several descriptors from one sender among plain ones of the other, into the same ring. */
static void scattered_frames_meet_plain_ones(void)
{
	struct port_setup b = {.rx_desc = 192,
	                       .mtu = 9000,
	                       .rx_pool = small_pool,
	                       .rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER};
	unsigned int scattered = 0, plain = 0;

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, &b);
	launch_senders(1);
	/* Most find the ring full; where the host takes a core away, nearly all do. */
	for (uint32_t round = 0; round < 3000 || (scattered <= 100 && round < 300000); round++) {
		uint32_t bytes = 257 + round % 1500; /* the length shows the flow */
		struct rte_mbuf *m;

		CHECK(send_one(port_a, 1, frame_make(pool, bytes, bytes)), "not sent");
		while ((m = receive_one(port_b, 0)) != NULL) {
			bool is_plain = m->pkt_len == FRAME_BYTES;
			bool right = is_plain || frame_is(m, m->pkt_len, m->pkt_len);

			rte_pktmbuf_free(m);
			CHECK(right, "round %u: a scattered frame is damaged", round);
			plain += is_plain;
			scattered += !is_plain;
		}
	}
	join_lcores();
	plain += receive_all(port_b, 0);
	CHECK(scattered > 100, "only %u scattered frames came", scattered);
	CHECK_EQUAL(plain + scattered, stats_of(port_b).ipackets);
	CHECK_EQUAL(stats_of(port_b).ipackets + stats_of(port_b).imissed, stats_of(port_a).opackets);
}

static void ports_stop_under_traffic(void)
{
	struct rte_eth_stats stats;

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, NULL);
	launch_senders(SENDERS);
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
	join_lcores();
	receive_all(port_b, 0);
	stats = stats_of(port_a);
	CHECK_EQUAL(stats.opackets, atomic_load(&sent_total));
}

static void senders_share_buffer_pools(void)
{
	for (int buffers = NET_CROSSOVER_SHARED; buffers <= NET_CROSSOVER_SPLIT; buffers++) {
		struct port_setup receiver = {.rx_desc = 192};

		CHECK_EQUAL(net_crossover_rx_buffers(port_b, (enum net_crossover_buffers)buffers, 64), 0);
		pair_up(&(struct port_setup){.tx_queues = SENDERS}, &receiver);
		send_and_receive_in_order();
		CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	}
}

static const struct {
	bool corec;
	enum net_crossover_buffers buffers;
} rx_modes[] = {{true, NET_CROSSOVER_POSTED},
                {false, NET_CROSSOVER_SHARED},
                {false, NET_CROSSOVER_POSTED},
                {false, NET_CROSSOVER_SPLIT}};

/* Senders never stop; each delivered frame comes once, in order, or was dropped by a stop. */
static void rx_modes_change_under_traffic(void)
{
	unsigned int received = 0;

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, NULL);
	memset(next_number, 0, sizeof(next_number));
	launch_senders(SENDERS);
	for (unsigned int i = 0; i < 40; i++) {
		for (unsigned int poll = 0; poll < 20; poll++)
			received += receive_in_order();
		CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
		CHECK_EQUAL(net_crossover_rx_corec(port_b, rx_modes[i % RTE_DIM(rx_modes)].corec), 0);
		CHECK_EQUAL(net_crossover_rx_buffers(port_b, rx_modes[i % RTE_DIM(rx_modes)].buffers, 256),
		            0);
		CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
	}
	received += join_senders();
	CHECK_EQUAL(stats_of(port_a).opackets, atomic_load(&sent_total));
	CHECK_EQUAL(stats_of(port_b).ipackets, received + xstat_of(port_b, "rx_flushed_packets"));
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(net_crossover_rx_buffers(port_b, NET_CROSSOVER_POSTED, 0), 0);
}

static void what_buffer_pools_cannot_is_refused(void)
{
	struct rte_eth_dev_info info;

	CHECK_EQUAL(net_crossover_rx_buffers(port_b, NET_CROSSOVER_SPLIT, 63), -EINVAL);
	CHECK_EQUAL(net_crossover_rx_buffers(RTE_MAX_ETHPORTS - 1, NET_CROSSOVER_SPLIT, 64), -ENODEV);
	CHECK_EQUAL(net_crossover_rx_buffers(port_b, NET_CROSSOVER_SPLIT, 256), 0);
	CHECK_EQUAL(rte_eth_dev_info_get(port_b, &info), 0);
	CHECK_EQUAL(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER, 0);
	CHECK_EQUAL(port_up(port_b, &(struct port_setup){.rx_desc = 128, .leave_stopped = true}), 0);
	CHECK_LOGGED(rte_eth_dev_start(port_b), -EINVAL, "more buffers in the pool than descriptors");
	CHECK_EQUAL(port_up(port_b, NULL), 0);
	CHECK_EQUAL(net_crossover_rx_buffers(port_b, NET_CROSSOVER_POSTED, 0), -EBUSY);
	CHECK_LOGGED(rte_eth_dev_rx_queue_stop(port_b, 0), -ENOTSUP, "start or stop the port");
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(net_crossover_rx_buffers(port_b, NET_CROSSOVER_POSTED, 0), 0);
}

static void queues_stop_under_traffic(void)
{
	unsigned int received = 0;
	struct rte_eth_stats stats;

	pair_up(NULL, NULL);
	launch_senders(1);
	for (unsigned int i = 0; i < 100; i++) {
		received += receive_all(port_b, 0);
		CHECK_EQUAL(rte_eth_dev_rx_queue_stop(port_b, 0), 0);
		CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_b, 0), 0);
	}
	join_lcores();
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
	launch_senders(SENDERS);
	for (unsigned int i = 0; i < 100; i++) {
		for (unsigned int j = 0; j < sizeof(key); j++)
			key[j] = (uint8_t)(i * 7 + j);
		CHECK_EQUAL(rte_eth_dev_rss_hash_update(port_b, &conf), 0);
		CHECK_EQUAL(i % 2 ? rte_eth_promiscuous_enable(port_b) : rte_eth_promiscuous_disable(port_b),
		            0);
		for (uint16_t queue = 0; queue < 4; queue++)
			receive_all(port_b, queue);
	}
	join_lcores();
	for (uint16_t queue = 0; queue < 4; queue++)
		receive_all(port_b, queue);
	CHECK_EQUAL(stats_of(port_b).ipackets + stats_of(port_b).imissed +
	                    xstat_of(port_b, "rx_filtered_packets"),
	            stats_of(port_a).opackets);
}

static int set_up_again_and_again(void *argument __rte_unused)
{
	/* A threshold of 32 leaves thousands of sent mbufs to be freed between the queue's release and its last count. */
	struct rte_eth_txconf conf = {.tx_free_thresh = 32};

	for (unsigned int round = 0; round < SETUPS; round++) {
		bool failed = rte_eth_dev_stop(port_a) != 0 ||
		              rte_eth_tx_queue_setup(port_a, 0, 4096, SOCKET_ID_ANY, &conf) != 0 ||
		              rte_eth_dev_start(port_a) != 0 || !send_frames(port_a, 0, 2048, 1400);

		if (failed)
			return -1;
	}
	return 0;
}

/* A port's statistics contain counts of the peer's TX queues; they never shrink, and no released queue is read. */
static void accounts_never_shrink(void)
{
	unsigned int lcore = rte_get_next_lcore(-1, 1, 0);
	uint64_t before = 0, now = 0;

	pair_up(NULL, &(struct port_setup){.mtu = 1000});
	CHECK_EQUAL(rte_eal_remote_launch(set_up_again_and_again, NULL, lcore), 0);
	while (now >= before && rte_eal_get_lcore_state(lcore) == RUNNING) {
		before = now;
		now = stats_of(port_b).ierrors;
	}
	CHECK_EQUAL(rte_eal_wait_lcore(lcore), 0);
	CHECK(now >= before, "%" PRIu64 " oversize frames, and then %" PRIu64, before, now);
	CHECK_EQUAL(stats_of(port_b).ierrors, SETUPS * 2048);
	CHECK_EQUAL(rte_eth_stats_reset(port_b), 0);
	CHECK_EQUAL(stats_of(port_b).ierrors, 0);
}

static atomic_bool freeing, resume;

/* Called when the driver frees a sent mbuf, that is inside a burst. */
static void free_slowly(void *buffer __rte_unused, void *opaque __rte_unused)
{
	atomic_store(&freeing, true);
	while (!atomic_load(&resume) && !lcores_stop())
		rte_pause();
}

/* Sends an mbuf that takes long to free, and more, until it is freed. */
static int stuck_sender(void *argument __rte_unused)
{
	static uint8_t buffer[512];
	uint16_t size = sizeof(buffer);
	struct rte_mbuf_ext_shared_info *shared =
	        rte_pktmbuf_ext_shinfo_init_helper(buffer, &size, free_slowly, NULL);
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	rte_pktmbuf_attach_extbuf(m, buffer, 0, size, shared);
	rte_pktmbuf_append(m, FRAME_BYTES);
	if (!send_one(port_a, 0, m))
		return -1;
	while (!atomic_load(&freeing))
		if (!send_frames(port_a, 0, BURST, FRAME_BYTES))
			return -1;
	return 0;
}

/* Starts a sender that stays inside a burst until release_sender(). */
static void catch_sender(unsigned int lcore)
{
	atomic_store(&freeing, false);
	atomic_store(&resume, false);
	CHECK_EQUAL(rte_eal_remote_launch(stuck_sender, NULL, lcore), 0);
	while (!atomic_load(&freeing) && rte_eal_get_lcore_state(lcore) == RUNNING)
		rte_pause();
	CHECK(atomic_load(&freeing), "the sender is not inside a burst");
}

static void release_sender(unsigned int lcore)
{
	atomic_store(&resume, true);
	CHECK_EQUAL(rte_eal_wait_lcore(lcore), 0);
}

static void a_failed_stop_leaves_a_queue_as_it_was(void)
{
	unsigned int lcore = rte_get_next_lcore(-1, 1, 0);

	pair_up(NULL, NULL);
	catch_sender(lcore);
	CHECK_LOGGED(rte_eth_dev_rx_queue_stop(port_b, 0), -EBUSY, "stays inside a burst");
	release_sender(lcore);
	receive_all(port_b, 0);
	CHECK(send_frames(port_a, 0, 5, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 5);
	CHECK_EQUAL(rte_eth_dev_rx_queue_stop(port_b, 0), 0);
	CHECK_EQUAL(rte_eth_dev_rx_queue_start(port_b, 0), 0);
}

/* ethdev itself ends the polling of a port before it requests the stop, until the next start. */
static void a_failed_stop_leaves_a_port_as_it_was(void)
{
	unsigned int lcore = rte_get_next_lcore(-1, 1, 0);
	uint64_t received;

	pair_up(NULL, NULL);
	catch_sender(lcore);
	CHECK_LOGGED(rte_eth_dev_stop(port_b), -EBUSY, "stays inside a burst");
	release_sender(lcore);
	CHECK(link_is(port_a, RTE_ETH_LINK_UP), "no carrier");
	received = stats_of(port_b).ipackets;
	CHECK(send_frames(port_a, 0, 5, FRAME_BYTES), "not sent");
	CHECK_EQUAL(stats_of(port_b).ipackets, received + 5);
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
	CHECK(send_frames(port_a, 0, 5, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 5);
}

const struct driver_case driver_threads_cases[] = {
        CASE(senders_share_a_queue, "dma=copy", "dma=swap"),
        CASE(senders_share_a_small_ring, "dma=copy", "dma=swap"),
        CASE(a_second_sender_comes_later, "dma=copy", "dma=swap"),
        CASE(a_second_sender_comes_and_goes, "dma=copy", "dma=swap"),
        CASE(a_ring_is_assigned_under_traffic, "dma=copy", "dma=swap"),
        CASE(an_assigned_ring_has_one_sender, "dma=copy", "dma=swap"),
        CASE(impossible_assignments_are_refused, ""),
        CASE(scattered_frames_meet_plain_ones, "dma=copy", "dma=swap"),
        CASE(accounts_never_shrink, ""),
        CASE(a_failed_stop_leaves_a_queue_as_it_was, ""),
        CASE(a_failed_stop_leaves_a_port_as_it_was, ""),
        CASE(senders_share_buffer_pools, "dma=copy"),
        CASE(rx_modes_change_under_traffic, "dma=copy"),
        CASE(what_buffer_pools_cannot_is_refused, "dma=copy"),
        CASE(ports_stop_under_traffic, "dma=copy", "dma=swap"),
        CASE(queues_stop_under_traffic, "dma=copy", "dma=swap"),
        CASE(rss_changes_under_traffic, ""),
        {0},
};
