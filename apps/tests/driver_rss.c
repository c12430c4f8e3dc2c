/* SPDX-License-Identifier: BSD-3-Clause */
/* RSS: the hash against DPDK's own rte_softrss and the published values, key, flow types, RETA. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_ip.h>
#include <rte_thash.h>
#include <rte_udp.h>

#include "crossover_port.h"
#include "driver_suite.h"

#define QUEUES      16
#define KEY_BYTES   40
#define RETA_GROUPS (RETA_SIZE / RTE_ETH_RETA_GROUP_SIZE)

static const struct port_setup rss_port = {.rx_queues = QUEUES,
                                           .rx_desc = 256,
                                           .rx_offloads = RTE_ETH_RX_OFFLOAD_RSS_HASH,
                                           .rss_types = RSS_ALL};

struct flow {
	uint8_t protocol;
	bool vlan, fragment;
	uint32_t src, dst;
	uint16_t src_port, dst_port;
};

static struct rte_mbuf *ipv4_frame(const struct flow *flow)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *at = (uint8_t *)rte_pktmbuf_append(m, 100);
	struct rte_ether_hdr *ether = (struct rte_ether_hdr *)at;
	struct rte_ipv4_hdr *ip;
	uint16_t ports[2] = {rte_cpu_to_be_16(flow->src_port), rte_cpu_to_be_16(flow->dst_port)};

	memset(at, 0, 100);
	ether->ether_type = rte_cpu_to_be_16(flow->vlan ? RTE_ETHER_TYPE_VLAN : RTE_ETHER_TYPE_IPV4);
	at += sizeof(*ether);
	if (flow->vlan) {
		((struct rte_vlan_hdr *)at)->eth_proto = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
		at += sizeof(struct rte_vlan_hdr);
	}
	ip = (struct rte_ipv4_hdr *)at;
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->next_proto_id = flow->protocol;
	ip->src_addr = rte_cpu_to_be_32(flow->src);
	ip->dst_addr = rte_cpu_to_be_32(flow->dst);
	ip->fragment_offset = rte_cpu_to_be_16(flow->fragment ? RTE_IPV4_HDR_MF_FLAG : 0);
	memcpy(ip + 1, ports, sizeof(ports));
	return m;
}

static uint32_t expected_hash(const struct flow *flow, const uint8_t *key, bool ports)
{
	struct rte_ipv4_tuple tuple = {.src_addr = flow->src,
	                               .dst_addr = flow->dst,
	                               .dport = flow->dst_port,
	                               .sport = flow->src_port};

	return rte_softrss((uint32_t *)&tuple, ports ? RTE_THASH_V4_L4_LEN : RTE_THASH_V4_L3_LEN, key);
}

/* Sends a frame to port b. Returns it as it arrives, and the queue. */
static struct rte_mbuf *route(struct rte_mbuf *sent, uint16_t *queue)
{
	struct rte_mbuf *m = NULL;

	CHECK(send_one(port_a, 0, sent), "not sent");
	for (*queue = 0; m == NULL; (*queue)++) {
		CHECK(*queue < QUEUES, "the frame did not arrive");
		m = receive_one(port_b, *queue);
	}
	(*queue)--;
	return m;
}

static void expect_hash(struct rte_mbuf *sent, uint32_t hash)
{
	uint16_t queue;
	struct rte_mbuf *m = route(sent, &queue);

	CHECK_EQUAL(m->ol_flags, RTE_MBUF_F_RX_RSS_HASH);
	CHECK_EQUAL(m->hash.rss, hash);
	CHECK_EQUAL(queue, hash % RETA_SIZE % QUEUES);
	rte_pktmbuf_free(m);
}

static void expect_no_hash(struct rte_mbuf *sent)
{
	uint16_t queue;
	struct rte_mbuf *m = route(sent, &queue);

	CHECK_EQUAL(m->ol_flags, 0);
	CHECK_EQUAL(queue, 0);
	rte_pktmbuf_free(m);
}

static void current_key(uint8_t *key)
{
	struct rte_eth_rss_conf conf = {.rss_key = key, .rss_key_len = KEY_BYTES};

	CHECK_EQUAL(rte_eth_dev_rss_hash_conf_get(port_b, &conf), 0);
	CHECK_EQUAL(conf.rss_key_len, KEY_BYTES);
}

static void hash_is_rte_softrss(void)
{
	/* Microsoft, "Verifying the RSS hash calculation": IPv4 with and without TCP ports. */
	static const struct flow published = {.src = RTE_IPV4(66u, 9, 149, 187),
	                                      .dst = RTE_IPV4(161u, 142, 100, 80),
	                                      .src_port = 2794,
	                                      .dst_port = 1766};
	uint8_t key[KEY_BYTES];

	pair_up(NULL, &rss_port);
	current_key(key);
	CHECK_EQUAL(expected_hash(&published, key, true), 0x51ccc178);
	CHECK_EQUAL(expected_hash(&published, key, false), 0x323e8fc2);
	for (uint32_t i = 0; i < 2000; i++) {
		struct flow flow = {.protocol = i % 3 == 0   ? IPPROTO_TCP
		                                : i % 3 == 1 ? IPPROTO_UDP
		                                             : IPPROTO_ICMP,
		                    .vlan = i % 2,
		                    .fragment = i % 5 == 0,
		                    .src = i * 2654435761u,
		                    .dst = i * 40503u,
		                    .src_port = (uint16_t)(i * 7919),
		                    .dst_port = (uint16_t)(i * 104729)};
		bool ports = i % 3 != 2 && !flow.fragment;

		expect_hash(ipv4_frame(&flow), expected_hash(&flow, key, ports));
	}
}

static struct rte_mbuf *ipv6_frame(uint32_t seed, uint8_t protocol, struct rte_ipv6_tuple *tuple)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *at = (uint8_t *)rte_pktmbuf_append(m, 80);
	uint16_t ports[2] = {rte_cpu_to_be_16((uint16_t)(seed * 31)),
	                     rte_cpu_to_be_16((uint16_t)(seed * 77))};

	memset(at, 0, 80);
	at[12] = RTE_ETHER_TYPE_IPV6 >> 8;
	at[13] = RTE_ETHER_TYPE_IPV6 & 0xff;
	at[14] = 0x60;
	at[20] = protocol;
	for (uint32_t i = 0; i < 32; i++)
		at[22 + i] = (uint8_t)(seed * 13 + i * 29);
	memcpy(at + 54, ports, sizeof(ports));
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t word;

		memcpy(&word, at + 22 + 4 * i, sizeof(word));
		((uint32_t *)tuple)[i] = rte_be_to_cpu_32(word);
	}
	tuple->sport = (uint16_t)(seed * 31);
	tuple->dport = (uint16_t)(seed * 77);
	return m;
}

static void ipv6_is_hashed(void)
{
	uint8_t key[KEY_BYTES];

	pair_up(NULL, &rss_port);
	current_key(key);
	for (uint32_t i = 0; i < 300; i++) {
		bool ports = i % 3 != 2;
		struct rte_ipv6_tuple tuple;
		struct rte_mbuf *m = ipv6_frame(i,
		                                i % 3 == 0 ? IPPROTO_TCP
		                                : ports    ? IPPROTO_UDP
		                                           : IPPROTO_FRAGMENT,
		                                &tuple);

		expect_hash(m, rte_softrss((uint32_t *)&tuple,
		                           ports ? RTE_THASH_V6_L4_LEN : RTE_THASH_V6_L3_LEN, key));
	}
}

static void other_frames_have_no_hash(void)
{
	struct port_setup udp_only = rss_port;
	struct flow tcp = {.protocol = IPPROTO_TCP, .src = 1, .dst = 2};
	struct rte_mbuf *arp = frame_make(pool, FRAME_BYTES, 0);

	udp_only.rss_types = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
	pair_up(NULL, &udp_only);
	expect_no_hash(ipv4_frame(&tcp));
	rte_pktmbuf_mtod(arp, struct rte_ether_hdr *)->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_ARP);
	expect_no_hash(arp);
}

/* IPv4 with its header cut off, or a header length that lies: must neither be read past nor hashed. */
static void broken_headers_do_no_harm(void)
{
	struct flow flow = {.protocol = IPPROTO_UDP, .src = 1, .dst = 2};
	uint16_t queue;

	pair_up(NULL, &rss_port);
	for (uint16_t length = 14; length < 46; length++) {
		struct rte_mbuf *m = ipv4_frame(&flow);

		rte_pktmbuf_trim(m, 100 - length);
		rte_pktmbuf_mtod(m, uint8_t *)[14] = (uint8_t)(0x40 | (length % 16));
		m = route(m, &queue);
		CHECK_EQUAL(m->pkt_len, length);
		rte_pktmbuf_free(m);
	}
}

static void headers_may_lie_in_segments(void)
{
	struct flow flow = {
	        .protocol = IPPROTO_UDP, .vlan = true, .src = 77, .dst = 88, .src_port = 99, .dst_port = 11};
	struct port_setup sender = {.tx_offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS};
	struct rte_mbuf *whole = ipv4_frame(&flow), *cut = frame_cut(whole, 5, 7);
	uint8_t key[KEY_BYTES];

	rte_pktmbuf_free(whole);
	pair_up(&sender, &rss_port);
	current_key(key);
	expect_hash(cut, expected_hash(&flow, key, true));
}

static void key_changes_while_running(void)
{
	struct flow flow = {.protocol = IPPROTO_UDP, .src = 5, .dst = 6, .src_port = 7, .dst_port = 8};
	uint8_t key[KEY_BYTES], read[KEY_BYTES];
	struct rte_eth_rss_conf conf = {.rss_key = key, .rss_key_len = KEY_BYTES, .rss_hf = RSS_UDP};

	pair_up(NULL, &rss_port);
	for (unsigned int round = 0; round < 5; round++) {
		for (unsigned int i = 0; i < KEY_BYTES; i++)
			key[i] = (uint8_t)(i * 17 + round * 91 + 3);
		CHECK_EQUAL(rte_eth_dev_rss_hash_update(port_b, &conf), 0);
		current_key(read);
		CHECK(memcmp(key, read, KEY_BYTES) == 0, "another key is read back");
		expect_hash(ipv4_frame(&flow), expected_hash(&flow, key, true));
	}
	conf.rss_key_len = 39;
	CHECK(rte_eth_dev_rss_hash_update(port_b, &conf) < 0, "a key of 39 bytes was taken");
	conf.rss_key = NULL;
	conf.rss_hf = 0;
	CHECK_EQUAL(rte_eth_dev_rss_hash_update(port_b, &conf), 0);
	CHECK_EQUAL(rte_eth_dev_rss_hash_conf_get(port_b, &conf), 0);
	CHECK_EQUAL(conf.rss_hf, 0);
}

static void reta_steers(void)
{
	struct rte_eth_rss_reta_entry64 reta[RETA_GROUPS] = {[2] = {.mask = 1u << 3, .reta = {[3] = 9}}};

	pair_up(NULL, &rss_port);
	CHECK_EQUAL(steer_all(port_b, 5), 0);
	CHECK(send_frames(port_a, 0, 200, FRAME_BYTES), "not sent");
	CHECK_EQUAL(receive_all(port_b, 5), 200);
	CHECK_EQUAL(rte_eth_dev_rss_reta_update(port_b, reta, RETA_SIZE), 0);
	reta[2] = (struct rte_eth_rss_reta_entry64){.mask = UINT64_MAX};
	CHECK_EQUAL(rte_eth_dev_rss_reta_query(port_b, reta, RETA_SIZE), 0);
	CHECK_EQUAL(reta[2].reta[3], 9);
	CHECK_EQUAL(reta[2].reta[4], 5);
	CHECK_EQUAL(reta[1].reta[0], 0);
}

static void reta_is_checked(void)
{
	struct rte_eth_rss_reta_entry64 reta[RETA_GROUPS] = {{.mask = 1, .reta = {QUEUES}}};

	pair_up(NULL, &rss_port);
	CHECK(rte_eth_dev_rss_reta_update(port_b, reta, RETA_SIZE) < 0,
	      "a queue that is not there was taken");
	reta[0].reta[0] = QUEUES - 1;
	CHECK(rte_eth_dev_rss_reta_update(port_b, reta, 1024) < 0, "twice the table was taken");
	CHECK(rte_eth_dev_rss_reta_query(port_b, reta, 128) < 0, "half a table was shown");
	CHECK_EQUAL(rte_eth_dev_rss_reta_update(port_b, reta, RETA_SIZE), 0);
}

static void without_rss_all_goes_to_queue_0(void)
{
	struct port_setup plain = {.rx_queues = 4};

	pair_up(NULL, &plain);
	CHECK(send_frames(port_a, 0, 100, FRAME_BYTES), "not sent");
	for (uint16_t queue = 1; queue < 4; queue++)
		CHECK_EQUAL(receive_all(port_b, queue), 0);
	CHECK_EQUAL(receive_all(port_b, 0), 100);
}

static void hash_only_where_asked(void)
{
	struct port_setup quiet = rss_port, single = rss_port;
	struct flow flow = {.protocol = IPPROTO_UDP, .src = 5, .dst = 6};
	struct rte_mbuf *m;
	uint16_t queue;

	quiet.rx_offloads = 0;
	single.rx_queues = 1;
	pair_up(&single, &quiet);
	m = route(ipv4_frame(&flow), &queue);
	CHECK(m->ol_flags == 0, "an unrequested hash");
	rte_pktmbuf_free(m);
	CHECK(send_one(port_b, 0, ipv4_frame(&flow)), "not sent");
	m = receive_one(port_a, 0);
	CHECK(m != NULL && m->ol_flags == RTE_MBUF_F_RX_RSS_HASH, "one queue, but the hash was asked for");
	rte_pktmbuf_free(m);
}

static void all_1024_queues_are_reached(void)
{
	struct port_setup many = {.rx_queues = RTE_MAX_QUEUES_PER_PORT, .rx_desc = 64, .rss_types = RSS_UDP};
	struct rte_mempool *large =
	        rte_pktmbuf_pool_create("large", 65537, 0, 0, RTE_PKTMBUF_HEADROOM + 128, SOCKET_ID_ANY);
	unsigned int reached = 0, total = 0;

	CHECK(large != NULL, "no memory for 65537 small mbufs");
	many.rx_pool = large;
	many.mtu = 100;
	pair_up(NULL, &many);
	CHECK(send_frames(port_a, 0, 20000, FRAME_BYTES), "not sent");
	for (uint16_t queue = 0; queue < RTE_MAX_QUEUES_PER_PORT; queue++) {
		unsigned int got = receive_all(port_b, queue);

		reached += got > 0;
		total += got;
	}
	CHECK_EQUAL(total + stats_of(port_b).imissed, 20000);
	CHECK(reached > 1000, "only %u queues reached", reached);
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK(rte_mempool_full(large), "%u mbufs missing", rte_mempool_in_use_count(large));
	rte_mempool_free(large);
}

/* Frames of flows 0, 1, ... below `flows`, every `other`-th for somebody else, in bursts of 32. */
static bool send_mixed(uint32_t flows, uint32_t other, const struct rte_ether_addr *own)
{
	for (uint32_t flow = 0; flow < flows;) {
		struct rte_mbuf *burst[BURST];
		uint16_t n = 0;

		for (; n < BURST && flow < flows; n++, flow++) {
			burst[n] = frame_make(pool, FRAME_BYTES, flow);
			if (flow % other != 0)
				*rte_pktmbuf_mtod(burst[n], struct rte_ether_addr *) = *own;
		}
		if (rte_eth_tx_burst(port_a, 0, burst, n) != n)
			return false;
	}
	return true;
}

/* Checks the frames of a queue: each frame of a later flow than the one before, with its own hash, on the queue that the RETA says. */
static void check_queue(uint16_t queue, uint16_t queues, uint32_t flows, unsigned int *total)
{
	struct rte_mbuf *m;
	uint32_t flow = 0;

	for (; (m = receive_one(port_b, queue)) != NULL; flow++, ++*total) {
		const struct rte_ether_addr written = {{2, 2, 2, 2, 2, 2}};
		uint32_t hash = m->hash.rss;
		bool found = false;

		*rte_pktmbuf_mtod(m, struct rte_ether_addr *) = written;
		for (; flow < flows && !(found = frame_is(m, FRAME_BYTES, flow)); flow++)
			;
		rte_pktmbuf_free(m);
		CHECK(found, "queue %u: a frame is damaged, or out of order", queue);
		CHECK_EQUAL(hash % RETA_SIZE % queues, queue);
	}
}

/* A burst is sorted by queue on its way, where there are few. */
static void mixed_bursts_keep_their_order(void)
{
	const uint32_t flows = 1000, other = 7;
	struct rte_ether_addr own;

	for (uint16_t queues = 2; queues <= 8; queues++) {
		struct port_setup setup = rss_port;
		unsigned int total = 0;

		setup.rx_queues = queues;
		setup.rx_desc = 704; /* 1000 frames for two queues at least, and all in one pool */
		pair_up(NULL, &setup);
		CHECK_EQUAL(rte_eth_promiscuous_disable(port_b), 0);
		CHECK_EQUAL(rte_eth_macaddr_get(port_b, &own), 0);
		CHECK(send_mixed(flows, other, &own), "not sent");
		for (uint16_t queue = 0; queue < queues; queue++) {
			check_queue(queue, queues, flows, &total);
		}
		CHECK_EQUAL(total, flows - (flows + other - 1) / other);
		CHECK_EQUAL(xstat_of(port_b, "rx_filtered_packets"), (flows + other - 1) / other);
		CHECK_EQUAL(rte_eth_stats_reset(port_b), 0);
		CHECK_EQUAL(rte_eth_xstats_reset(port_b), 0);
	}
}

/* A frame that ends where readable memory ends, cut behind each of its bytes. */
static void no_byte_behind_a_short_frame_is_read(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static struct crossover_hash hash;
	static const uint16_t types[] = {RTE_ETHER_TYPE_IPV4, RTE_ETHER_TYPE_IPV6, RTE_ETHER_TYPE_VLAN};

	CHECK(memory != MAP_FAILED && mprotect(memory + page, page, PROT_NONE) == 0, "no guarded page");
	crossover_hash_init(&hash, crossover_default_rss_key, crossover_rss_types());
	for (unsigned int i = 0; i < RTE_DIM(types); i++)
		for (uint32_t length = 0; length < RTE_ETHER_HDR_LEN + 4 + sizeof(struct rte_ipv4_hdr);
		     length++) {
			uint8_t frame[64] = {0}, *end = memory + page;
			uint32_t value;

			frame[12] = (uint8_t)(types[i] >> 8);
			frame[13] = (uint8_t)types[i];
			frame[16] = RTE_ETHER_TYPE_IPV4 >> 8; /* behind a VLAN tag */
			memcpy(end - length, frame, length);
			CHECK(!crossover_hash_frame(&hash, end - length, length, &value),
			      "type %#x, %u bytes", types[i], length);
		}
	munmap(memory, 2 * page);
}

const struct driver_case driver_rss_cases[] = {
        CASE(hash_is_rte_softrss, "dma=copy", "dma=swap"),
        CASE(ipv6_is_hashed, ""),
        CASE(other_frames_have_no_hash, ""),
        CASE(broken_headers_do_no_harm, ""),
        CASE(headers_may_lie_in_segments, ""),
        CASE(key_changes_while_running, ""),
        CASE(reta_steers, ""),
        CASE(reta_is_checked, ""),
        CASE(without_rss_all_goes_to_queue_0, ""),
        CASE(hash_only_where_asked, ""),
        CASE(mixed_bursts_keep_their_order, "dma=copy", "dma=swap"),
        CASE(all_1024_queues_are_reached, ""),
        CASE(no_byte_behind_a_short_frame_is_read, ""),
        {0},
};
