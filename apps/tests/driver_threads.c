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
#define LIMIT_S     60
#define SETUPS      100u

static atomic_bool stop_sending;
static atomic_uint sent_total, senders_done;

static void number_frame(struct rte_mbuf *m, uint16_t queue, uint32_t n)
{
	uint32_t *data = (uint32_t *)rte_pktmbuf_append(m, FRAME_BYTES);

	for (unsigned int word = 0; word < FRAME_BYTES / 4; word++)
		data[word] = (uint32_t)queue << 24 | n;
}

/* Sends FRAMES_EACH numbered frames, or until it is stopped; the number is (lcore's TX queue << 24) + n. */
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
		for (uint32_t i = 0; i < RTE_DIM(burst); i++)
			number_frame(burst[i], queue, n + i);
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

/* Checks that every word of a frame is its number, and that the numbers of one sender rise. */
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

/* Both ports are up, the TX queues of port_a started. */
static void send_and_receive_in_order(void)
{
	uint64_t limit = rte_get_tsc_cycles() + LIMIT_S * rte_get_tsc_hz();
	uint32_t last[SENDERS] = {0};
	unsigned int received = 0, got;
	bool right = true, done;

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

/* Sends 50 numbered frames on the second queue, counted in `extra`, and returns how many frames arrived beside that. */
static unsigned int send_and_receive(unsigned int *extra, uint32_t *last, bool *right)
{
	unsigned int received = 0;

	for (uint32_t i = 0; i < 50; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		if (m == NULL)
			continue;
		number_frame(m, 1, *extra);
		*extra += send_one(port_a, 1, m);
		received += receive_in_order(last, right);
	}
	return received;
}

/* The second queue starts and stops while the first one sends; frames of both are in order, and none is lost. */
static void a_second_sender_comes_and_goes(void)
{
	struct port_setup a = {.tx_queues = SENDERS};
	uint32_t last[SENDERS] = {0};
	unsigned int received = 0, extra = 0;
	bool right = true;

	pair_up(&a, &(struct port_setup){.rx_desc = 1024});
	CHECK_EQUAL(rte_eth_dev_tx_queue_stop(port_a, 1), 0);
	launch_senders(true);
	for (uint32_t round = 0; round < 200 && right; round++) {
		CHECK_EQUAL(rte_eth_dev_tx_queue_start(port_a, 1), 0);
		received += send_and_receive(&extra, last, &right);
		CHECK_EQUAL(rte_eth_dev_tx_queue_stop(port_a, 1), 0);
	}
	join_senders();
	for (unsigned int got = 1; got > 0 && right; received += got)
		got = receive_in_order(last, &right);
	CHECK(right, "a frame is damaged or out of order after %u", received);
	CHECK(extra > 100, "the second queue sent only %u frames", extra);
	CHECK_EQUAL(received + stats_of(port_b).imissed, atomic_load(&sent_total) + extra);
	CHECK_EQUAL(stats_of(port_b).ipackets, received);
}

static int assign(uint16_t sender)
{
	return net_crossover_assign(port_b, port_a, &sender, 1);
}

/*
 * The ring belongs to the first sender and to both by turns, while that one sends. Frames of the other arrive or are missed.
 * All that arrive are whole and in order.
 */
static void a_ring_is_assigned_under_traffic(void)
{
	uint32_t last[SENDERS] = {0};
	unsigned int received = 0, extra = 0;
	bool right = true;

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, &(struct port_setup){.rx_desc = 1024});
	launch_senders(true);
	for (uint32_t round = 0; round < 200 && right; round++) {
		CHECK_EQUAL(assign(round % 2 ? 0 : UINT16_MAX), 0);
		received += send_and_receive(&extra, last, &right);
	}
	join_senders();
	for (unsigned int got = 1; got > 0 && right; received += got)
		got = receive_in_order(last, &right);
	CHECK(right, "a frame is damaged or out of order after %u", received);
	CHECK(extra > 100, "the second queue sent only %u frames", extra);
	CHECK_EQUAL(received + stats_of(port_b).imissed, atomic_load(&sent_total) + extra);
	CHECK_EQUAL(stats_of(port_b).ipackets, received);
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
	launch_senders(true);
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
	join_senders();
	plain += receive_all(port_b, 0);
	CHECK(scattered > 100, "only %u scattered frames came", scattered);
	CHECK_EQUAL(plain + scattered, stats_of(port_b).ipackets);
	CHECK_EQUAL(stats_of(port_b).ipackets + stats_of(port_b).imissed, stats_of(port_a).opackets);
}

static void ports_stop_under_traffic(void)
{
	struct rte_eth_stats stats;

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, NULL);
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

static void share_buffer_pools(enum net_crossover_buffers buffers, uint16_t buffer_pool)
{
	pair_up(&(struct port_setup){.tx_queues = SENDERS}, &(struct port_setup){.rx_desc = 192});
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(net_crossover_rx_buffers(port_b, buffers, buffer_pool), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
	send_and_receive_in_order();
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(net_crossover_rx_buffers(port_b, NET_CROSSOVER_POSTED, 0), 0);
}

static void senders_share_a_buffer_pool(void)
{
	share_buffer_pools(NET_CROSSOVER_SHARED, 64);
}

static void senders_take_from_buffer_pools(void)
{
	share_buffer_pools(NET_CROSSOVER_SPLIT, 64);
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
	uint32_t last[SENDERS] = {0};
	unsigned int received = 0, got;
	bool right = true;

	pair_up(&(struct port_setup){.tx_queues = SENDERS}, NULL);
	launch_senders(false);
	for (unsigned int i = 0; i < 40 && right; i++) {
		for (unsigned int poll = 0; poll < 20; poll++)
			received += receive_in_order(last, &right);
		CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
		CHECK_EQUAL(net_crossover_rx_corec(port_b, rx_modes[i % RTE_DIM(rx_modes)].corec), 0);
		CHECK_EQUAL(net_crossover_rx_buffers(port_b, rx_modes[i % RTE_DIM(rx_modes)].buffers, 256),
		            0);
		CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
	}
	join_senders();
	do {
		got = receive_in_order(last, &right);
		received += got;
	} while (right && got > 0);
	CHECK(right, "a frame is damaged or out of order after %u", received);
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
	log_begin();
	CHECK_EQUAL(rte_eth_dev_start(port_b), -EINVAL);
	CHECK(strstr(log_end(), "more buffers in the pool than descriptors") != NULL, "no reason");
	CHECK_EQUAL(port_up(port_b, NULL), 0);
	CHECK_EQUAL(net_crossover_rx_buffers(port_b, NET_CROSSOVER_POSTED, 0), -EBUSY);
	log_begin();
	CHECK_EQUAL(rte_eth_dev_rx_queue_stop(port_b, 0), -ENOTSUP);
	CHECK(strstr(log_end(), "start or stop the port") != NULL, "no reason");
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(net_crossover_rx_buffers(port_b, NET_CROSSOVER_POSTED, 0), 0);
}

static void queues_stop_under_traffic(void)
{
	unsigned int received = 0;
	struct rte_eth_stats stats;

	pair_up(NULL, NULL);
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

static int set_up_again_and_again(void *argument __rte_unused)
{
	/* A threshold of 32 leaves thousands of sent mbufs to be freed between the queue's going and its last account. */
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
}

static atomic_bool freeing, resume;

/* Called when the driver frees a sent mbuf, that is inside a burst. */
static void free_slowly(void *buffer __rte_unused, void *opaque __rte_unused)
{
	atomic_store(&freeing, true);
	while (!atomic_load(&resume))
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
	log_begin();
	CHECK_EQUAL(rte_eth_dev_rx_queue_stop(port_b, 0), -EBUSY);
	CHECK(strstr(log_end(), "stays inside a burst") != NULL, "no word about the sender");
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
	struct rte_eth_link link;
	uint64_t received;

	pair_up(NULL, NULL);
	catch_sender(lcore);
	log_begin();
	CHECK_EQUAL(rte_eth_dev_stop(port_b), -EBUSY);
	log_end();
	release_sender(lcore);
	CHECK_EQUAL(rte_eth_link_get_nowait(port_a, &link), 0);
	CHECK_EQUAL(link.link_status, RTE_ETH_LINK_UP);
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
        CASE(senders_share_a_buffer_pool, "dma=copy"),
        CASE(senders_take_from_buffer_pools, "dma=copy"),
        CASE(rx_modes_change_under_traffic, "dma=copy"),
        CASE(what_buffer_pools_cannot_is_refused, "dma=copy"),
        CASE(ports_stop_under_traffic, "dma=copy", "dma=swap"),
        CASE(queues_stop_under_traffic, "dma=copy", "dma=swap"),
        CASE(rss_changes_under_traffic, ""),
        {0},
};
