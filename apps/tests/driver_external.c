/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * feed=external: the reference agent (apps/gpu) plays the NIC. Where a case needs exact counts, it lets the agent run for a number of
 * frames on its own core; otherwise on another one.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_ip.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_memzone.h>
#include <rte_thash.h>
#include <rte_udp.h>

#include "agent.h"
#include "crossover_port.h"
#include "driver_suite.h"
#include "net_crossover.h"

#define FLOWS            60
#define MARK             0x5aa5
#define AT_ONCE          1                   /* 2^-16 ticks: all frames are due */
#define NOT_IN_THIS_TEST (UINT64_C(1) << 60) /* 2^-16 ticks: an hour or more */
#define LARGE_BYTES      1514
#define KEY_BYTES        40
#define HASHED_BYTES     12

static struct agent_ring generator_rings[WIRE_RINGS_MAX], receiver_rings[WIRE_RINGS_MAX];
static struct agent_flow flows[FLOWS];
static uint64_t next_here[FLOWS], next_there[FLOWS];
static struct agent_generator generator; /* agents of the case, here or on another core */
static struct agent_receiver receiver;

static struct wire_port *wire_of(uint16_t port)
{
	char name[RTE_ETH_NAME_MAX_LEN + sizeof(WIRE_MEMZONE)], port_name[RTE_ETH_NAME_MAX_LEN];
	const struct rte_memzone *zone;

	rte_eth_dev_get_name_by_port(port, port_name);
	snprintf(name, sizeof(name), WIRE_MEMZONE, port_name);
	zone = rte_memzone_lookup(name);
	return zone == NULL ? NULL : zone->addr;
}

static struct agent_generator generator_of(uint16_t port, uint64_t frames, uint32_t bytes)
{
	memset(generator_rings, 0, sizeof(generator_rings));
	for (uint32_t f = 0; f < FLOWS; f++)
		flows[f] = (struct agent_flow){.source = RTE_IPV4(198u, 18, 0, 1) + f,
		                               .destination = RTE_IPV4(10u, 0, 0, 1) + 256 * f,
		                               .source_port = (uint16_t)(49152 + f)};
	return (struct agent_generator){.port = wire_of(port),
	                                .rings = generator_rings,
	                                .flows = flows,
	                                .nb_flows = FLOWS,
	                                .frames = frames,
	                                .frame_bytes = bytes,
	                                .batch = BURST,
	                                .interval_q16 = AT_ONCE,
	                                .late_max = UINT64_MAX >> 16,
	                                .mark = MARK};
}

static void generate(uint16_t port, uint64_t frames, uint32_t bytes)
{
	generator = generator_of(port, frames, bytes);
	CHECK(agent_generator_check(&generator) == NULL, "%s", agent_generator_check(&generator));
	agent_generate(&generator);
	CHECK_EQUAL(generator.numbered, frames);
}

static struct agent_check check_of(uint64_t *next)
{
	memset(next, 0, FLOWS * sizeof(*next));
	return (struct agent_check){.mark = MARK, .nb_flows = FLOWS, .next = next};
}

static struct agent_receiver receiver_of(uint16_t port, const uint32_t *stop)
{
	memset(receiver_rings, 0, sizeof(receiver_rings));
	return (struct agent_receiver){.port = wire_of(port),
	                               .rings = receiver_rings,
	                               .stop = stop,
	                               .batch = BURST,
	                               .check = check_of(next_there)};
}

/* Lets an agent read all that a port has sent. */
static struct agent_check read_sent(uint16_t port)
{
	static const uint32_t at_once = 1;

	receiver = receiver_of(port, &at_once);
	agent_receive(&receiver);
	return receiver.check;
}

/* Polls until nothing comes, and counts what is wrong with the frames. Returns how many are not whole. */
static unsigned int poll_checked(uint16_t port, uint16_t queue, uint32_t bytes, struct agent_check *check)
{
	struct rte_mbuf *burst[BURST];
	unsigned int broken = 0;
	uint16_t got;

	while ((got = rte_eth_rx_burst(port, queue, burst, BURST)) > 0) {
		for (uint16_t i = 0; i < got; i++) {
			agent_check_frame(check, rte_pktmbuf_mtod(burst[i], void *), burst[i]->data_len);
			broken += !frame_is_udp(burst[i], bytes);
		}
		rte_pktmbuf_free_bulk(burst, got);
	}
	return broken;
}

#define CHECK_FRAMES(check, count)                                                                           \
	do {                                                                                                 \
		CHECK_EQUAL((check).packets, count);                                                         \
		CHECK_EQUAL((check).unmarked, 0);                                                            \
		CHECK_EQUAL((check).reordered, 0);                                                           \
		CHECK_EQUAL((check).torn, 0);                                                                \
	} while (0)

/* Lets an agent send frames to a port, and checks that all arrive. */
static void pass_frames(uint16_t port, uint64_t frames, uint32_t bytes)
{
	struct agent_check check = check_of(next_here);

	generate(port, frames, bytes);
	CHECK_EQUAL(poll_checked(port, 0, bytes, &check), 0);
	CHECK_FRAMES(check, frames);
}

static void frames_arrive_whole_and_in_order(void)
{
	static const uint32_t sizes[] = {60, 61, 79, 80, 128, LARGE_BYTES};
	uint64_t bytes = 0;

	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_desc = 128}), 0);
	for (unsigned int i = 0; i < 10 * RTE_DIM(sizes); i++) { /* several times round the ring */
		pass_frames(port_a, 90, sizes[i % RTE_DIM(sizes)]);
		bytes += 90 * sizes[i % RTE_DIM(sizes)];
	}
	CHECK_EQUAL(stats_of(port_a).ipackets, 90 * 10 * RTE_DIM(sizes));
	CHECK_EQUAL(stats_of(port_a).ibytes, bytes);
	CHECK_EQUAL(stats_of(port_a).imissed, 0);
}

static void missed_frames_are_counted(void)
{
	struct rte_eth_stats stats;

	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_desc = 64}), 0);
	generate(port_a, 100, FRAME_BYTES);
	CHECK_EQUAL(stats_of(port_a).ipackets, 64);
	CHECK_EQUAL(stats_of(port_a).imissed, 36);
	CHECK_EQUAL(receive_all(port_a, 0), 64);
	generate(port_a, 65, FRAME_BYTES);
	CHECK_EQUAL(xstat_of(port_a, "rx_q0_missed"), 37);
	CHECK_EQUAL(rte_eth_stats_reset(port_a), 0);
	stats = stats_of(port_a);
	CHECK_EQUAL(stats.ipackets + stats.ibytes + stats.imissed, 0);
	CHECK_EQUAL(rte_eth_dev_rx_queue_stop(port_a, 0), 0);
	CHECK_EQUAL(xstat_of(port_a, "rx_flushed_packets"), 64);
	generate(port_a, 5, FRAME_BYTES);
	CHECK_EQUAL(stats_of(port_a).imissed, 5);
	/* Another queue with this number begins at zero. */
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	CHECK_EQUAL(port_up(port_a, NULL), 0);
	CHECK_EQUAL(stats_of(port_a).imissed, 0);
}

static void frames_beyond_the_mtu_are_counted(void)
{
	struct agent_check check = check_of(next_here);

	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.mtu = 1000}), 0);
	generate(port_a, 5, 1000 + 18);
	generate(port_a, 7, 1000 + 19);
	CHECK_EQUAL(stats_of(port_a).ierrors, 7);
	CHECK_EQUAL(xstat_of(port_a, "rx_oversize_errors"), 7);
	CHECK_EQUAL(stats_of(port_a).ipackets, 5);
	CHECK_EQUAL(rte_eth_dev_set_mtu(port_a, 1001), 0); /* shown to the agent while the port runs */
	generate(port_a, 3, 1000 + 19);
	CHECK_EQUAL(stats_of(port_a).ipackets, 8);
	poll_checked(port_a, 0, 1019, &check);
	CHECK_EQUAL(check.torn, 0);
}

/* The hash that DPDK computes for a received frame. */
static uint32_t expected_hash(const struct rte_mbuf *m, const uint8_t *key)
{
	const struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(m, const struct rte_ipv4_hdr *, 14);
	const struct rte_udp_hdr *udp = (const struct rte_udp_hdr *)(ip + 1);
	uint32_t tuple[HASHED_BYTES / 4] = {rte_be_to_cpu_32(ip->src_addr), rte_be_to_cpu_32(ip->dst_addr),
	                                    (uint32_t)rte_be_to_cpu_16(udp->src_port) << 16 |
	                                            rte_be_to_cpu_16(udp->dst_port)};

	return rte_softrss(tuple, RTE_DIM(tuple), key);
}

/* Checks the hashes of all frames, and that they are in the queues that the RETA gives them, if it spreads round-robin. */
static void check_spread(uint16_t queues, const uint8_t *key)
{
	struct rte_mbuf *burst[BURST];
	uint16_t got;

	for (uint16_t queue = 0; queue < queues; queue++)
		while ((got = rte_eth_rx_burst(port_a, queue, burst, BURST)) > 0) {
			for (uint16_t i = 0; i < got; i++) {
				CHECK_EQUAL(burst[i]->ol_flags & RTE_MBUF_F_RX_RSS_HASH,
				            RTE_MBUF_F_RX_RSS_HASH);
				CHECK_EQUAL(burst[i]->hash.rss, expected_hash(burst[i], key));
				CHECK_EQUAL(burst[i]->hash.rss % RETA_SIZE % queues, queue);
			}
			rte_pktmbuf_free_bulk(burst, got);
		}
}

static void rss_spreads_frames(void)
{
	uint8_t key[KEY_BYTES];
	struct rte_eth_rss_conf conf = {.rss_key = key, .rss_key_len = KEY_BYTES};

	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_queues = 4,
	                                                 .rss_types = RSS_UDP,
	                                                 .rx_offloads = RTE_ETH_RX_OFFLOAD_RSS_HASH}),
	            0);
	CHECK_EQUAL(rte_eth_dev_rss_hash_conf_get(port_a, &conf), 0);
	generate(port_a, 200, FRAME_BYTES);
	for (uint16_t queue = 0; queue < 4; queue++)
		CHECK(rte_eth_rx_queue_count(port_a, queue) > 0, "queue %u has no frames", queue);
	check_spread(4, key);
	for (unsigned int i = 0; i < KEY_BYTES; i++)
		key[i] = (uint8_t)(key[i] + i);
	conf.rss_hf = RSS_UDP;
	CHECK_EQUAL(rte_eth_dev_rss_hash_update(port_a, &conf), 0);
	generate(port_a, 200, FRAME_BYTES);
	check_spread(4, key);
	CHECK_EQUAL(steer_all(port_a, 3), 0);
	generate(port_a, 200, FRAME_BYTES);
	CHECK_EQUAL(receive_all(port_a, 3), 200);
	CHECK_EQUAL(stats_of(port_a).ipackets, 600);
}

static void flows_go_to_rings_in_turn(void)
{
	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_queues = 3}), 0);
	generator = generator_of(port_a, 2 * FLOWS, FRAME_BYTES);
	generator.by_ring = 1;
	agent_generate(&generator);
	for (uint16_t queue = 0; queue < 3; queue++)
		CHECK_EQUAL(receive_all(port_a, queue), 2 * FLOWS / 3);
	/* A part of the agent serves a part of the rings, here the last one. */
	generator = generator_of(port_a, 10, FRAME_BYTES);
	generator.by_ring = generator.nb_rings = 1;
	generator.ring_first = 2;
	agent_generate(&generator);
	CHECK_EQUAL(generator.nb_own, FLOWS / 3);
	CHECK_EQUAL(receive_all(port_a, 2), 10);
	generate(port_a, 9, FRAME_BYTES); /* no RSS: all frames go to queue 0 */
	CHECK_EQUAL(receive_all(port_a, 0), 9);
}

static void types_and_checksums_are_described(void)
{
	struct rte_mbuf *m;

	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM}), 0);
	CHECK(rte_eth_dev_get_supported_ptypes(port_a, UINT32_MAX, NULL, 0) > 0, "no types");
	generate(port_a, 1, FRAME_BYTES);
	m = must_receive(port_a, 0);
	CHECK_EQUAL(m->packet_type, RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_UDP);
	CHECK_EQUAL(m->ol_flags, RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD);
	rte_pktmbuf_free(m);
}

/* Frame k departs k intervals after the begin, and carries that time. */
static void a_constant_rate_is_kept(void)
{
	const uint64_t frames = 500, interval = rte_get_tsc_hz() / 100000;
	uint64_t begin, took;

	CHECK_EQUAL(port_up(port_a, NULL), 0);
	generator = generator_of(port_a, frames, FRAME_BYTES);
	generator.interval_q16 = interval << 16;
	begin = rte_rdtsc();
	agent_generate(&generator);
	took = rte_rdtsc() - begin;
	CHECK(took >= (frames - 1) * interval, "%" PRIu64 " frames took %" PRIu64 " cycles", frames, took);
	CHECK_EQUAL(generator.numbered, frames);
	for (uint64_t k = 0, first = 0; k < frames; k++) {
		struct rte_mbuf *m = must_receive(port_a, 0);
		uint64_t time;

		memcpy(&time, rte_pktmbuf_mtod_offset(m, void *, 52), sizeof(time));
		rte_pktmbuf_free(m);
		time &= (UINT64_C(1) << 48) - 1;
		first = k == 0 ? time : first;
		CHECK_EQUAL(time - first, k * interval);
	}
	/* Frames that are too late are counted instead of sent. */
	generator.interval_q16 = 1 << 16;
	generator.late_max = 0;
	agent_generate(&generator);
	CHECK_EQUAL(generator.numbered, frames);
	CHECK(generator.unsent > 0, "no frame was late at a frame per cycle");
}

static void listed_flows_leave_at_listed_times(void)
{
	static const uint16_t list[] = {5, 5, 7};
	static const uint64_t times_q16[] = {0, 1000 << 16, 1000 << 16, 5000 << 16};
	const uint64_t period = 20000;

	CHECK_EQUAL(port_up(port_a, NULL), 0);
	generator = generator_of(port_a, 48, FRAME_BYTES);
	generator.list = list;
	generator.nb_list = RTE_DIM(list);
	generator.times_q16 = times_q16;
	generator.nb_times = RTE_DIM(times_q16);
	generator.period_q16 = period << 16;
	agent_generate(&generator);
	for (uint64_t k = 0; k < 48; k++) {
		struct rte_mbuf *m = receive_one(port_a, 0);
		uint64_t time;

		CHECK(m != NULL, "no frame %" PRIu64, k);
		memcpy(&time, rte_pktmbuf_mtod_offset(m, void *, 52), sizeof(time));
		rte_pktmbuf_free(m);
		CHECK_EQUAL(time >> 48, list[k % RTE_DIM(list)]);
		CHECK_EQUAL(time & ((UINT64_C(1) << 48) - 1), k / 4 * period + (times_q16[k % 4] >> 16));
	}
}

static void listed_times_begin_anew_after_a_loss_of_carrier(void)
{
	static const uint16_t list[] = {5};
	static const uint64_t times_q16[] = {0, 1000 << 16, 1000 << 16, NOT_IN_THIS_TEST};
	const uint64_t long_enough = rte_get_tsc_hz() / 1000;

	CHECK_EQUAL(port_up(port_a, NULL), 0);
	generator = generator_of(port_a, 0, FRAME_BYTES);
	generator.list = list;
	generator.nb_list = RTE_DIM(list);
	generator.times_q16 = times_q16;
	generator.nb_times = RTE_DIM(times_q16);
	generator.period_q16 = 2 * NOT_IN_THIS_TEST;
	agent_begin(&generator, NULL, agent_clock());
	CHECK_EQUAL(agent_send_until(&generator, NULL, long_enough), 1);
	CHECK_EQUAL(generator.numbered, 3);
	CHECK_EQUAL(rte_eth_dev_set_link_down(port_a), 0);
	CHECK_EQUAL(agent_send_until(&generator, NULL, (uint64_t)generator.now + 1), 1);
	CHECK_EQUAL(generator.numbered, 3);
	CHECK_EQUAL(rte_eth_dev_set_link_up(port_a), 0);
	CHECK_EQUAL(agent_send_until(&generator, NULL, (uint64_t)generator.now + long_enough), 1);
	CHECK_EQUAL(generator.numbered, 6);
	agent_end(&generator, NULL);
}

static void copies_are_not_late_frames(void)
{
	static uint64_t seen[2];
	struct agent_check check = check_of(next_here);
	struct rte_mbuf *frames[200];

	check.seen = seen;
	check.nb_seen = RTE_DIM(seen);
	CHECK_EQUAL(port_up(port_a, NULL), 0);
	generate(port_a, RTE_DIM(frames), FRAME_BYTES);
	for (unsigned int i = 0; i < RTE_DIM(frames); i++)
		frames[i] = receive_one(port_a, 0);
	for (unsigned int i = 0; i < RTE_DIM(frames); i++) {
		const unsigned int place = i < 2 ? 1 - i : i; /* the first two are exchanged */

		CHECK(frames[place] != NULL, "no frame %u", place);
		agent_check_frame(&check, rte_pktmbuf_mtod(frames[place], void *), FRAME_BYTES);
	}
	CHECK_EQUAL(check.overtaken, 1);
	CHECK_EQUAL(check.reordered, 0); /* they are of two flows */
	CHECK_EQUAL(check.duplicated, 0);
	agent_check_frame(&check, rte_pktmbuf_mtod(frames[RTE_DIM(frames) - 5], void *), FRAME_BYTES);
	CHECK_EQUAL(check.duplicated, 1);
	agent_check_frame(&check, rte_pktmbuf_mtod(frames[0], void *), FRAME_BYTES); /* forgotten */
	CHECK_EQUAL(check.too_old, 1);
	CHECK_EQUAL(check.packets, RTE_DIM(frames) + 2);
	rte_pktmbuf_free_bulk(frames, RTE_DIM(frames));
}

/* TAIL and HEAD wrap at 2^32. */
static void counts_wrap(void)
{
	const uint32_t before = UINT32_MAX - 127;
	struct crossover_rx_queue *rxq;

	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_desc = 128}), 0);
	rxq = rte_eth_fp_ops[port_a].rxq.data[0];
	rxq->tail += before;
	rxq->ring.doorbell.tail = rxq->tail;
	wire_of(port_a)->rx[0].head = before;
	for (unsigned int i = 0; i < 4; i++)
		pass_frames(port_a, 100, FRAME_BYTES);
	CHECK(rxq->tail < 1024, "TAIL is %u and did not wrap", rxq->tail);
	CHECK_EQUAL(stats_of(port_a).imissed, 0);
}

static void link_needs_one_port_only(void)
{
	CHECK_EQUAL(port_up(port_a, NULL), 0);
	CHECK(link_is(port_a, RTE_ETH_LINK_UP), "no carrier");
	CHECK_EQUAL(wire_of(port_a)->running, 1);
	CHECK_EQUAL(wire_of(port_b)->running, 0);
	CHECK_EQUAL(rte_eth_dev_set_link_down(port_a), 0);
	CHECK_EQUAL(wire_of(port_a)->running, 0);
	CHECK(!send_frames(port_a, 0, 1, FRAME_BYTES), "sends without carrier");
	CHECK_EQUAL(rte_eth_dev_set_link_up(port_a), 0);
	CHECK(send_frames(port_a, 0, 1, FRAME_BYTES), "does not send");
	CHECK_EQUAL(read_sent(port_a).packets, 1);
}

static void the_memzone_goes_with_the_pair(void)
{
	const struct wire_port *wire = wire_of(port_a);

	CHECK(wire != NULL && wire_of(port_b) != NULL, "no memzone");
	CHECK_EQUAL(wire->abi, WIRE_ABI);
	CHECK_EQUAL(port_up(port_a, NULL), 0);
	CHECK_EQUAL(wire->configuration & 1, 0);
	CHECK(wire->rx[0].epoch != 0 && wire->tx[0].epoch != 0, "a started ring has no epoch");
	CHECK_EQUAL((uintptr_t)&wire->rx[0].busy & (WIRE_LINE_BYTES - 1), 0);
	CHECK_EQUAL(wire->rx[0].tail & (WIRE_LINE_BYTES - 1), 0);
	CHECK_EQUAL(wire->tx[0].tail & (WIRE_LINE_BYTES - 1), 0);
	pair_remove();
	CHECK(rte_memzone_lookup(PAIR_NAME "_a_wire") == NULL, "the memzone is left");
	CHECK_EQUAL(pair_make("feed=wire"), 0);
	CHECK(rte_memzone_lookup(PAIR_NAME "_a_wire") == NULL, "a wire between ports has a memzone");
}

static void what_an_agent_cannot_do_is_refused(void)
{
	struct rte_eth_conf scatter = {.rxmode.offloads = RTE_ETH_RX_OFFLOAD_SCATTER};
	struct qwait_doorbell *bells = (struct qwait_doorbell *)&scatter;

	CHECK(rte_eth_dev_configure(port_a, 1, 1, &scatter) < 0, "scatters");
	CHECK_EQUAL(rte_eth_dev_configure(port_a, 1, 1, &(struct rte_eth_conf){0}), 0);
	CHECK_LOGGED(rte_eth_rx_queue_setup(port_a, 0, 192, SOCKET_ID_ANY, NULL, pool), -EINVAL,
	             "192 descriptors; feed=external needs a power of two");
	CHECK_EQUAL(rte_eth_tx_queue_setup(port_a, 0, 192, SOCKET_ID_ANY, NULL), -EINVAL);
	CHECK_EQUAL(net_crossover_rx_buffers(port_a, NET_CROSSOVER_SHARED, 64), -ENOTSUP);
	CHECK_EQUAL(net_crossover_notify(port_a, bells, 1), -ENOTSUP);
	CHECK_EQUAL(rte_eth_rx_queue_setup(port_a, 0, 64, SOCKET_ID_ANY, NULL, pool), 0);
	CHECK_EQUAL(net_crossover_feed_queue_polls(port_a, 0, 0.5, 1), -ENOTSUP);
}

static void odd_buffers_are_refused(void)
{
	struct rte_mempool *odd = rte_pktmbuf_pool_create("odd", 127, 0, 8, 2048 + RTE_PKTMBUF_HEADROOM, 0);
	struct port_setup setup = {.rx_desc = 64, .rx_pool = odd};

	CHECK(odd != NULL, "no pool");
	CHECK_LOGGED(port_up(port_a, &setup), -EINVAL, "(mempool 'odd' has others)");
	CHECK_EQUAL(rte_mempool_in_use_count(odd), 0);
	pair_remove();
	rte_mempool_free(odd);
}

static void an_agent_that_stays_stops_the_stop(void)
{
	CHECK_EQUAL(port_up(port_a, NULL), 0);
	wire_of(port_a)->rx[0].busy = wire_of(port_a)->rx[0].epoch;
	CHECK_LOGGED(rte_eth_dev_stop(port_a), -EBUSY, "the agent stays at RX queue 0; end the agent");
	wire_of(port_a)->rx[0].busy = 0;
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_a), 0);
	pass_frames(port_a, 10, FRAME_BYTES);
}

static void bad_settings_are_named(void)
{
	static const struct {
		size_t member;
		uint32_t value;
		const char *text;
	} bad[] = {{offsetof(struct agent_generator, frame_bytes), 59, "frame_bytes"},
	           {offsetof(struct agent_generator, frame_bytes), 9019, "frame_bytes"},
	           {offsetof(struct agent_generator, batch), 0, "batch"},
	           {offsetof(struct agent_generator, batch), AGENT_BATCH_MAX + 1, "batch"},
	           {offsetof(struct agent_generator, nb_flows), 0, "nb_flows"},
	           {offsetof(struct agent_generator, ring_first), WIRE_RINGS_MAX, "ring_first"}};

	for (unsigned int i = 0; i < RTE_DIM(bad); i++) {
		struct agent_generator wrong = generator_of(port_a, 1, FRAME_BYTES);

		memcpy((uint8_t *)&wrong + bad[i].member, &bad[i].value, sizeof(bad[i].value));
		CHECK(agent_generator_check(&wrong) != NULL &&
		              strstr(agent_generator_check(&wrong), bad[i].text) ==
		                      agent_generator_check(&wrong),
		      "%s = %u: %s", bad[i].text, bad[i].value, agent_generator_check(&wrong));
	}
	wire_of(port_a)->abi++;
	generator = generator_of(port_a, 1, FRAME_BYTES);
	CHECK(strstr(agent_generator_check(&generator), "ABI") != NULL, "another ABI is taken");
}

/* Sends what arrived on one port on the other. */
static unsigned int forward(uint16_t from, uint16_t to)
{
	struct rte_mbuf *burst[BURST];
	unsigned int total = 0;
	uint16_t got;

	while ((got = rte_eth_rx_burst(from, 0, burst, BURST)) > 0) {
		uint16_t sent = rte_eth_tx_burst(to, 0, burst, got);

		rte_pktmbuf_free_bulk(burst + sent, got - sent);
		total += sent;
	}
	return total;
}

static void forwarded_frames_are_read(void)
{
	struct agent_check check;

	pair_up(&(struct port_setup){.rx_desc = 128}, &(struct port_setup){.tx_desc = 128});
	for (unsigned int i = 0; i < 20; i++) { /* several times round the ring */
		generate(port_a, 100, LARGE_BYTES);
		CHECK_EQUAL(forward(port_a, port_b), 100);
		check = read_sent(port_b);
		CHECK_FRAMES(check, 100);
	}
	CHECK_EQUAL(stats_of(port_b).opackets, 20 * 100);
	CHECK_EQUAL(stats_of(port_b).obytes, 20 * 100 * LARGE_BYTES);
	CHECK_EQUAL(stats_of(port_a).opackets, 0);
	CHECK_EQUAL(stats_of(port_b).oerrors, 0);
}

static void a_full_ring_takes_no_more(void)
{
	struct rte_mbuf *burst[BURST];
	uint16_t sent;

	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.tx_desc = 64, .tx_free_thresh = 32}), 0);
	CHECK(send_frames(port_a, 0, 60, FRAME_BYTES), "not sent");
	CHECK_EQUAL(rte_pktmbuf_alloc_bulk(pool, burst, BURST), 0);
	for (unsigned int i = 0; i < BURST; i++)
		rte_pktmbuf_append(burst[i], FRAME_BYTES);
	sent = rte_eth_tx_burst(port_a, 0, burst, BURST);
	rte_pktmbuf_free_bulk(burst + sent, BURST - sent);
	CHECK_EQUAL(sent, 4);
	CHECK_EQUAL(stats_of(port_a).opackets, 0); /* counted when it is on the wire */
	CHECK_EQUAL(rte_eth_tx_descriptor_status(port_a, 0, 0), RTE_ETH_TX_DESC_FULL);
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 0), 0);
	CHECK_EQUAL(read_sent(port_a).packets, 64);
	CHECK_EQUAL(stats_of(port_a).opackets, 64);
	CHECK_EQUAL(rte_eth_tx_descriptor_status(port_a, 0, 63), RTE_ETH_TX_DESC_DONE);
	CHECK_EQUAL(rte_eth_tx_descriptor_status(port_a, 0, 64), -EINVAL);
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 5), 5);
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 0), 59);
	/* Frames that a stop finds unread were taken and not sent. */
	CHECK(send_frames(port_a, 0, 7, FRAME_BYTES), "not sent");
	CHECK_EQUAL(rte_eth_dev_tx_queue_stop(port_a, 0), 0);
	CHECK_EQUAL(stats_of(port_a).oerrors, 7);
	CHECK_EQUAL(rte_eth_dev_tx_queue_start(port_a, 0), 0);
	CHECK(send_frames(port_a, 0, 3, FRAME_BYTES), "not sent");
	CHECK_EQUAL(read_sent(port_a).packets, 3);
}

static void segments_are_read_as_one_frame(void)
{
	struct rte_mbuf *whole = frame_make(pool, 1400, 1), *cut = frame_cut(whole, 60, 100);
	struct rte_mbuf *runt = rte_pktmbuf_alloc(pool);
	struct agent_check check;

	rte_pktmbuf_free(whole);
	CHECK(cut != NULL && cut->nb_segs == 15 && runt != NULL, "no frame");
	pair_up(NULL, NULL);
	CHECK(send_one(port_a, 0, cut), "not sent");
	rte_pktmbuf_append(runt, 13);
	CHECK(send_one(port_a, 0, runt), "a runt is taken, and counted");
	CHECK(send_frames(port_a, 0, 2, FRAME_BYTES), "not sent");
	check = read_sent(port_a);
	CHECK_EQUAL(check.packets, 3);
	CHECK_EQUAL(check.unmarked, 3); /* they are no generator's */
	CHECK_EQUAL(stats_of(port_a).opackets, 3);
	CHECK_EQUAL(stats_of(port_a).obytes, 1400 + 2 * FRAME_BYTES);
	CHECK_EQUAL(stats_of(port_a).oerrors, 1);
}

static void segments_are_freed_fast(void)
{
	struct rte_mbuf *whole, *cut;

	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.tx_desc = 64,
	                                                 .tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS |
	                                                                RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE}),
	            0);
	for (unsigned int i = 0; i < 20; i++) {
		whole = frame_make(pool, 1000, i);
		cut = frame_cut(whole, 100, 300);
		rte_pktmbuf_free(whole);
		CHECK(send_one(port_a, 0, cut), "not sent");
		CHECK_EQUAL(read_sent(port_a).packets, 1);
	}
	CHECK_EQUAL(rte_eth_dev_stop(port_a), 0);
	whole = frame_make(pool, 60, 0); /* mbufs come back without their chains */
	CHECK(whole != NULL && whole->next == NULL && whole->nb_segs == 1, "a chain in the pool");
	rte_pktmbuf_free(whole);
}

static int run_generator(void *generator)
{
	agent_generate(generator);
	return 0;
}

static int run_receiver(void *receiver)
{
	agent_receive(receiver);
	return 0;
}

static void launch(lcore_function_t *agent, void *argument, unsigned int nth)
{
	unsigned int lcore = rte_get_next_lcore(-1, 1, 0);

	while (nth-- > 0)
		lcore = rte_get_next_lcore(lcore, 1, 0);
	rte_eal_remote_launch(agent, argument, lcore);
}

static bool is_over(uint64_t begin)
{
	return rte_rdtsc() - begin > LIMIT_S * rte_get_tsc_hz();
}

#define RUNNING_FRAMES 50000u

static int run_both(void *unused __rte_unused)
{
	agent_run(&generator, &receiver);
	return 0;
}

/* Receives on one port and sends all on the other. Returns the number of frames. */
static uint64_t forward_all(uint16_t queues, uint64_t frames)
{
	uint64_t forwarded = 0, begin = rte_rdtsc();

	while (forwarded < frames && !is_over(begin))
		for (uint16_t queue = 0; queue < queues; queue++) {
			struct rte_mbuf *burst[BURST];
			uint16_t got = rte_eth_rx_burst(port_a, queue, burst, BURST), sent = 0;

			while (sent < got && !is_over(begin))
				sent += rte_eth_tx_burst(port_b, queue, burst + sent, got - sent);
			rte_pktmbuf_free_bulk(burst + sent, got - sent);
			forwarded += sent;
			if (got == 0)
				sched_yield(); /* three threads may share a CPU */
		}
	return forwarded;
}

/* As fast as the rings take them, through a forwarder, with one thread for both and two: no frame is lost on the way. */
static void all_frames_come_back(void)
{
	struct port_setup two = {.rx_queues = 2, .tx_queues = 2, .rss_types = RSS_UDP};

	for (unsigned int threads = 1; threads <= 2; threads++) {
		pair_up(&two, &two);
		generator = generator_of(port_a, RUNNING_FRAMES, 200);
		generator.interval_q16 = 0;
		generator.stop = &stop_lcores;
		receiver = receiver_of(port_b, &stop_lcores);
		launch(threads == 1 ? run_both : run_generator, &generator, 0);
		if (threads == 2)
			launch(run_receiver, &receiver, 1);
		CHECK_EQUAL(forward_all(2, RUNNING_FRAMES), RUNNING_FRAMES);
		join_lcores();
		CHECK_EQUAL(generator.numbered, RUNNING_FRAMES);
		CHECK_FRAMES(receiver.check, RUNNING_FRAMES);
		CHECK_EQUAL(stats_of(port_a).imissed, 0);
		CHECK_EQUAL(stats_of(port_b).opackets, RUNNING_FRAMES);
		CHECK_EQUAL(stats_of(port_b).oerrors, 0);
	}
}

#define STOPS 100

/* Ports and queues stop and start while the agent runs: every frame has one account, and order holds. */
static void stops_and_starts_lose_no_account(void)
{
	struct port_setup two = {.rx_queues = 2, .rx_desc = 128, .rss_types = RSS_UDP};
	struct agent_check check = check_of(next_here);
	unsigned int broken = 0;
	struct rte_eth_stats stats;
	int ret = 0;

	CHECK_EQUAL(port_up(port_a, &two), 0);
	generator = generator_of(port_a, 0, FRAME_BYTES);
	generator.interval_q16 = (rte_get_tsc_hz() / 2000000) << 16;
	generator.late_max = rte_get_tsc_hz() / 1000;
	generator.stop = &stop_lcores;
	launch(run_generator, &generator, 0);
	for (unsigned int i = 0; i < STOPS && ret == 0; i++) {
		uint64_t until = rte_rdtsc() + rte_get_tsc_hz() / 2000;
		uint16_t queue = i % 4;

		while (rte_rdtsc() < until)
			broken += poll_checked(port_a, 0, FRAME_BYTES, &check) +
			          poll_checked(port_a, 1, FRAME_BYTES, &check);
		ret = queue < 2 ? rte_eth_dev_rx_queue_stop(port_a, queue) : rte_eth_dev_stop(port_a);
		if (ret == 0)
			ret = queue < 2 ? rte_eth_dev_rx_queue_start(port_a, queue)
			                : rte_eth_dev_start(port_a);
	}
	join_lcores();
	CHECK_EQUAL(ret, 0);
	broken += poll_checked(port_a, 0, FRAME_BYTES, &check) + poll_checked(port_a, 1, FRAME_BYTES, &check);
	CHECK_EQUAL(broken, 0);
	CHECK_FRAMES(check, check.packets);
	stats = stats_of(port_a);
	CHECK(check.packets > 0, "no frames");
	CHECK_EQUAL(stats.ipackets, check.packets + xstat_of(port_a, "rx_flushed_packets"));
	CHECK_EQUAL(stats.ipackets + stats.imissed, generator.numbered);
}

static uint64_t not_there(const struct agent_check *check)
{
	return check->unmarked + check->reordered + check->torn;
}

#define CONTROL_FRAMES 30000u
#define CONTROL_US     100

/*
 * Polls a generator on another core, and counts frames that were not there when DD was; ends at the first. The ring is large and the sleep
 * short, so that a poll comes while the generator writes, also where both share a CPU.
 */
static uint64_t poll_beside(bool descriptors_first)
{
	struct agent_check check = check_of(next_here);
	uint64_t begin = rte_rdtsc();

	generator = generator_of(port_a, 0, LARGE_BYTES);
	generator.interval_q16 = 0;
	generator.stop = &stop_lcores;
	generator.batch = AGENT_BATCH_MAX;
	generator.descriptors_first = descriptors_first;
	launch(run_generator, &generator, 0);
	while ((descriptors_first || check.packets < CONTROL_FRAMES) && not_there(&check) == 0 &&
	       !is_over(begin)) {
		usleep(CONTROL_US);
		poll_checked(port_a, 0, LARGE_BYTES, &check);
	}
	join_lcores();
	receive_all(port_a, 0);
	return not_there(&check);
}

/* The negative control: the count that is 0 in the right order is not in the wrong one. */
static void a_frame_behind_its_descriptor_is_seen(void)
{
	CHECK_EQUAL(port_up(port_a, &(struct port_setup){.rx_desc = 4096}), 0);
	CHECK_EQUAL(poll_beside(false), 0);
	CHECK(poll_beside(true) > 0, "no frame was late");
	CHECK_EQUAL(poll_beside(false), 0);
}

const struct driver_case driver_external_cases[] = {
        CASE(frames_arrive_whole_and_in_order, "feed=external", "feed=external,rx=corec"),
        CASE(missed_frames_are_counted, "feed=external"),
        CASE(frames_beyond_the_mtu_are_counted, "feed=external"),
        CASE(rss_spreads_frames, "feed=external"),
        CASE(flows_go_to_rings_in_turn, "feed=external"),
        CASE(types_and_checksums_are_described, "feed=external"),
        CASE(a_constant_rate_is_kept, "feed=external"),
        CASE(listed_flows_leave_at_listed_times, "feed=external"),
        CASE(listed_times_begin_anew_after_a_loss_of_carrier, "feed=external"),
        CASE(copies_are_not_late_frames, "feed=external"),
        CASE(counts_wrap, "feed=external"),
        CASE(link_needs_one_port_only, "feed=external"),
        CASE(the_memzone_goes_with_the_pair, "feed=external"),
        CASE(what_an_agent_cannot_do_is_refused, "feed=external"),
        CASE(odd_buffers_are_refused, "feed=external"),
        CASE(an_agent_that_stays_stops_the_stop, "feed=external"),
        CASE(forwarded_frames_are_read, "feed=external"),
        CASE(a_full_ring_takes_no_more, "feed=external"),
        CASE(segments_are_read_as_one_frame, "feed=external"),
        CASE(segments_are_freed_fast, "feed=external"),
        CASE(all_frames_come_back, "feed=external"),
        CASE(bad_settings_are_named, "feed=external"),
        CASE(stops_and_starts_lose_no_account, "feed=external"),
        CASE(a_frame_behind_its_descriptor_is_seen, "feed=external"),
        {0},
};
