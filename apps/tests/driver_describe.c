/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet types and checksums: filled in on request, as the headers say. */
#include <string.h>

#include "driver_suite.h"

#define ALL_LAYERS  (RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK)
#define L2          RTE_PTYPE_L2_ETHER
#define CHECK_FLAGS (RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK)
#define IP_GOOD     RTE_MBUF_F_RX_IP_CKSUM_GOOD
#define L4_GOOD     RTE_MBUF_F_RX_L4_CKSUM_GOOD
#define IPV4        RTE_ETH_RX_OFFLOAD_IPV4_CKSUM
#define UDP         RTE_ETH_RX_OFFLOAD_UDP_CKSUM
#define TCP         RTE_ETH_RX_OFFLOAD_TCP_CKSUM

/* Headers behind the two MAC addresses, the rest of the frame is 0; and the fields filled in with everything on. */
static const struct frame {
	const char *name;
	uint8_t headers[64];
	uint32_t type;
	uint64_t flags;
} frames[] = {
        {"ARP", {0x08, 0x06}, L2, 0},
        {"IPv4, UDP",
         {0x08, 0x00, 0x45, [11] = 17},
         L2 | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_UDP,
         IP_GOOD | L4_GOOD},
        {"IPv4, TCP",
         {0x08, 0x00, 0x45, [11] = 6},
         L2 | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_TCP,
         IP_GOOD | L4_GOOD},
        {"IPv4, SCTP", {0x08, 0x00, 0x45, [11] = 132}, L2 | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_SCTP, IP_GOOD},
        {"IPv4, ESP", {0x08, 0x00, 0x45, [11] = 50}, L2 | RTE_PTYPE_L3_IPV4, IP_GOOD},
        {"IPv4 with options, UDP",
         {0x08, 0x00, 0x46, [11] = 17},
         L2 | RTE_PTYPE_L3_IPV4_EXT | RTE_PTYPE_L4_UDP,
         IP_GOOD | L4_GOOD},
        {"IPv4, first fragment of UDP",
         {0x08, 0x00, 0x45, [8] = 0x20, [11] = 17},
         L2 | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_FRAG,
         IP_GOOD},
        {"IPv4, last fragment of UDP",
         {0x08, 0x00, 0x45, [9] = 0x10, [11] = 17},
         L2 | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_FRAG,
         IP_GOOD},
        {"IPv4 that is none", {0x08, 0x00, 0x65, [11] = 17}, L2 | RTE_PTYPE_L4_UDP, 0},
        {"IPv6, UDP", {0x86, 0xdd, 0x60, [8] = 17}, L2 | RTE_PTYPE_L3_IPV6 | RTE_PTYPE_L4_UDP, L4_GOOD},
        {"IPv6, TCP", {0x86, 0xdd, 0x60, [8] = 6}, L2 | RTE_PTYPE_L3_IPV6 | RTE_PTYPE_L4_TCP, L4_GOOD},
        {"IPv6, options, UDP",
         {0x86, 0xdd, 0x60, [8] = 0, [42] = 17},
         L2 | RTE_PTYPE_L3_IPV6_EXT | RTE_PTYPE_L4_UDP,
         L4_GOOD},
        {"IPv6, fragment",
         {0x86, 0xdd, 0x60, [8] = 44, [42] = 17},
         L2 | RTE_PTYPE_L3_IPV6_EXT | RTE_PTYPE_L4_FRAG,
         0},
        {"VLAN, IPv4, UDP",
         {0x81, 0x00, 0, 0, 0x08, 0x00, 0x45, [15] = 17},
         RTE_PTYPE_L2_ETHER_VLAN | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_UDP,
         IP_GOOD | L4_GOOD},
        {"QinQ, IPv4, TCP",
         {0x88, 0xa8, 0, 0, 0x81, 0x00, 0, 0, 0x08, 0x00, 0x45, [19] = 6},
         RTE_PTYPE_L2_ETHER_QINQ | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_TCP,
         IP_GOOD | L4_GOOD},
};

static struct rte_mbuf *make(const struct frame *frame, uint32_t bytes)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *data = m == NULL ? NULL : (uint8_t *)rte_pktmbuf_append(m, (uint16_t)bytes);

	if (data == NULL)
		return NULL;
	memset(data, 0, bytes);
	memset(data, 0x02, sizeof(struct rte_ether_addr));
	memcpy(data + 2 * sizeof(struct rte_ether_addr), frame->headers, sizeof(frame->headers));
	return m;
}

/* Sends each frame from a to b; what the mbuf says must be what 'types' and 'flags' leave of it, but only UDP or TCP if so. */
static void expect_all(uint32_t types, uint64_t offloads)
{
	for (unsigned int i = 0; i < RTE_DIM(frames); i++) {
		const struct frame *frame = &frames[i];
		bool tcp = (frame->type & RTE_PTYPE_L4_MASK) == RTE_PTYPE_L4_TCP;
		uint64_t flags = (offloads & IPV4 ? frame->flags & IP_GOOD : 0) |
		                 (offloads & (tcp ? TCP : UDP) ? frame->flags & L4_GOOD : 0);
		struct rte_mbuf *m;

		CHECK(send_one(port_a, 0, make(frame, 100)), "%s: not sent", frame->name);
		m = must_receive(port_b, 0);
		CHECK(m->packet_type == (frame->type & types), "%s: type %#x", frame->name, m->packet_type);
		CHECK((m->ol_flags & CHECK_FLAGS) == flags, "%s: flags %#lx", frame->name, m->ol_flags);
		rte_pktmbuf_free(m);
	}
}

static void expect_burst(bool described)
{
	struct rte_eth_burst_mode mode;

	CHECK_EQUAL(rte_eth_rx_burst_mode_get(port_b, 0, &mode), 0);
	CHECK((strstr(mode.info, "types and checksums") != NULL) == described, "%s", mode.info);
}

static void each_checksum_is_told_alone(void)
{
	static const uint64_t choices[] = {IPV4, UDP, TCP, IPV4 | UDP, IPV4 | UDP | TCP};

	for (unsigned int i = 0; i < RTE_DIM(choices); i++) {
		CHECK_EQUAL(pair_make(""), 0);
		pair_up(NULL, &(struct port_setup){.rx_offloads = choices[i]});
		expect_all(0, choices[i]);
		expect_burst(true);
	}
}

static void checksums_end_with_their_offload(void)
{
	pair_up(NULL, &(struct port_setup){.rx_offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
	expect_all(0, RTE_ETH_RX_OFFLOAD_CHECKSUM);
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(port_up(port_b, NULL), 0);
	expect_all(0, 0);
	expect_burst(false);
}

static void types_are_told_once_asked_for(void)
{
	uint32_t types[32];
	int count;

	pair_up(NULL, NULL);
	expect_all(0, 0);
	expect_burst(false);
	count = rte_eth_dev_get_supported_ptypes(port_b, RTE_PTYPE_ALL_MASK, types, RTE_DIM(types));
	CHECK_EQUAL(count, 11);
	for (int i = 0; i < count; i++) {
		bool seen = false;

		for (unsigned int j = 0; j < RTE_DIM(frames); j++)
			for (unsigned int shift = 0; shift < 12; shift += 4)
				seen = seen || (frames[j].type & 15u << shift) == types[i];
		CHECK(seen, "no frame has the announced type %#x", types[i]);
	}
	expect_all(ALL_LAYERS, 0);
	expect_burst(true);
	CHECK_EQUAL(rte_eth_dev_stop(port_b), 0);
	CHECK_EQUAL(rte_eth_dev_start(port_b), 0);
	expect_all(ALL_LAYERS, 0);
}

static void set_ptypes_has_the_last_word(void)
{
	uint32_t types[32];

	pair_up(NULL, NULL);
	CHECK_EQUAL(rte_eth_dev_set_ptypes(port_b, RTE_PTYPE_L3_MASK, NULL, 0), 0);
	expect_all(RTE_PTYPE_L3_MASK, 0);
	CHECK_EQUAL(rte_eth_dev_set_ptypes(port_b, RTE_PTYPE_L2_MASK | RTE_PTYPE_L4_MASK, NULL, 0), 0);
	expect_all(RTE_PTYPE_L2_MASK | RTE_PTYPE_L4_MASK, 0);
	CHECK_EQUAL(rte_eth_dev_set_ptypes(port_b, RTE_PTYPE_UNKNOWN, NULL, 0), 0);
	expect_all(0, 0);
	expect_burst(false);
	CHECK(rte_eth_dev_get_supported_ptypes(port_b, RTE_PTYPE_ALL_MASK, types, RTE_DIM(types)) > 0,
	      "none");
	expect_all(0, 0);
	expect_burst(false);
}

static void types_checksums_and_hash_go_together(void)
{
	struct rte_mbuf *m;

	pair_up(NULL, &(struct port_setup){.rss_types = RSS_ALL,
	                                   .rx_offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM |
	                                                  RTE_ETH_RX_OFFLOAD_RSS_HASH});
	CHECK_EQUAL(rte_eth_dev_set_ptypes(port_b, ALL_LAYERS, NULL, 0), 0);
	expect_all(ALL_LAYERS, RTE_ETH_RX_OFFLOAD_CHECKSUM);
	CHECK(send_one(port_a, 0, frame_make(pool, FRAME_BYTES, 3)), "not sent");
	m = receive_one(port_b, 0);
	CHECK(frame_is(m, FRAME_BYTES, 3), "frame is damaged");
	CHECK_EQUAL(m->ol_flags, RTE_MBUF_F_RX_RSS_HASH | IP_GOOD | L4_GOOD);
	CHECK(m->hash.rss != 0, "no hash");
	rte_pktmbuf_free(m);
}

static void scattered_frames_are_described(void)
{
	struct rte_mbuf *m;

	pair_up(NULL, &(struct port_setup){.rx_pool = small_pool,
	                                   .rx_offloads =
	                                           RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_SCATTER});
	CHECK_EQUAL(rte_eth_dev_set_ptypes(port_b, ALL_LAYERS, NULL, 0), 0);
	CHECK(send_one(port_a, 0, make(&frames[1], 1000)), "not sent");
	m = receive_one(port_b, 0);
	CHECK(m != NULL && m->nb_segs > 1, "not scattered");
	CHECK_EQUAL(m->packet_type, frames[1].type);
	CHECK_EQUAL(m->ol_flags, IP_GOOD | L4_GOOD);
	rte_pktmbuf_free(m);
}

static void fed_frames_are_described(void)
{
	struct rte_mbuf *m;

	pair_up(NULL, &(struct port_setup){.rx_offloads = IPV4 | UDP});
	m = must_receive(port_b, 0);
	CHECK_EQUAL(m->packet_type, 0);
	CHECK_EQUAL(m->ol_flags & CHECK_FLAGS, IP_GOOD | L4_GOOD);
	rte_pktmbuf_free(m);
	m = receive_one(port_a, 0);
	CHECK(m != NULL && (m->ol_flags & CHECK_FLAGS) == 0 && m->packet_type == 0,
	      "filled in without a request");
	rte_pktmbuf_free(m);
	CHECK_EQUAL(rte_eth_dev_set_ptypes(port_a, ALL_LAYERS, NULL, 0), 0);
	m = must_receive(port_a, 0);
	CHECK_EQUAL(m->packet_type, RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_UDP);
	CHECK_EQUAL(m->ol_flags & CHECK_FLAGS, 0);
	rte_pktmbuf_free(m);
}

const struct driver_case driver_describe_cases[] = {
        CASE(each_checksum_is_told_alone, ""),
        CASE(checksums_end_with_their_offload, ""),
        CASE(types_are_told_once_asked_for, ""),
        CASE(set_ptypes_has_the_last_word, ""),
        CASE(types_checksums_and_hash_go_together, "", "dma=swap"),
        CASE(scattered_frames_are_described, ""),
        CASE(fed_frames_are_described, "feed=infinite"),
        {0},
};
