/* SPDX-License-Identifier: BSD-3-Clause */
/* Check encapsulation: outer headers as in their RFCs, the inner packet intact, other packets refused. */
#include "unit.h"

#include <string.h>

#include "tunnel.h"

#define HEADROOM    128
#define INNER_BYTES 46 /* the payload of a 64-byte frame */
#define FRAME_BYTES (RTE_ETHER_HDR_LEN + INNER_BYTES)

struct buffer {
	struct rte_mbuf mbuf;
	uint8_t bytes[HEADROOM + 256];
};

/* Make a UDP datagram of `ip_bytes`, padded to `frame_bytes`. */
static void make_packet(struct buffer *b, uint16_t ip_bytes, uint16_t frame_bytes)
{
	struct rte_ipv4_hdr ip = {
	        .version_ihl = RTE_IPV4_VHL_DEF,
	        .type_of_service = 0xb8,
	        .total_length = rte_cpu_to_be_16(ip_bytes),
	        .time_to_live = 64,
	        .next_proto_id = 17,
	        .src_addr = RTE_BE32(RTE_IPV4(172, 16, 0, 1)),
	        .dst_addr = RTE_BE32(RTE_IPV4(10, 0, 0, 7)),
	};
	uint8_t *frame = b->bytes + HEADROOM;

	memset(b, 0, sizeof(*b));
	ip.hdr_checksum = rte_ipv4_cksum(&ip);
	frame[12] = 0x08;
	memcpy(frame + RTE_ETHER_HDR_LEN, &ip, sizeof(ip));
	for (uint16_t i = RTE_ETHER_HDR_LEN + sizeof(ip); i < frame_bytes; i++)
		frame[i] = (uint8_t)i;
	b->mbuf.buf_addr = b->bytes;
	b->mbuf.buf_len = sizeof(b->bytes);
	b->mbuf.data_off = HEADROOM;
	b->mbuf.data_len = frame_bytes;
	b->mbuf.pkt_len = frame_bytes;
	b->mbuf.nb_segs = 1;
	rte_mbuf_refcnt_set(&b->mbuf, 1);
}

static struct tunnel new_tunnel(bool over_ipv6)
{
	const struct rte_ether_hdr ethernet = {.dst_addr = {{2, 0, 0, 0, 0, 1}},
	                                       .src_addr = {{2, 0, 0, 0, 0, 9}},
	                                       .ether_type = over_ipv6 ? RTE_BE16(RTE_ETHER_TYPE_IPV6)
	                                                               : RTE_BE16(RTE_ETHER_TYPE_IPV4)};
	struct tunnel tunnel;

	tunnel_init(&tunnel, over_ipv6, &ethernet);
	return tunnel;
}

/* The inner packet is the original, one hop further. */
static void check_inner(const uint8_t *inner, const struct buffer *original, uint16_t bytes)
{
	const uint8_t *before = original->bytes + HEADROOM + RTE_ETHER_HDR_LEN;

	UNIT_EQUAL(inner[8], before[8] - 1);
	UNIT_EQUAL(rte_raw_cksum(inner, sizeof(struct rte_ipv4_hdr)), 0xffff);
	UNIT_CHECK(memcmp(inner, before, 8) == 0);
	UNIT_EQUAL(inner[9], before[9]);
	UNIT_CHECK(memcmp(inner + 12, before + 12, bytes - 12) == 0);
}

static void ipip_as_rfc_2003(void)
{
	const struct tunnel tunnel = new_tunnel(false);
	struct buffer packet, original;
	struct rte_ipv4_hdr outer;

	make_packet(&packet, INNER_BYTES, FRAME_BYTES);
	original = packet;
	UNIT_CHECK(tunnel_enter(&tunnel, &packet.mbuf));
	const uint8_t *frame = rte_pktmbuf_mtod(&packet.mbuf, const uint8_t *);

	UNIT_EQUAL(packet.mbuf.pkt_len, FRAME_BYTES + 20);
	UNIT_EQUAL(packet.mbuf.data_len, FRAME_BYTES + 20);
	UNIT_CHECK(memcmp(frame, &tunnel.ethernet, sizeof(tunnel.ethernet)) == 0);
	memcpy(&outer, frame + RTE_ETHER_HDR_LEN, sizeof(outer));
	UNIT_EQUAL(outer.version_ihl, 0x45);
	UNIT_EQUAL(outer.type_of_service, 0xb8);
	UNIT_EQUAL(rte_be_to_cpu_16(outer.total_length), INNER_BYTES + 20);
	UNIT_EQUAL(outer.next_proto_id, 4);
	UNIT_EQUAL(outer.time_to_live, 64);
	UNIT_EQUAL(outer.fragment_offset, RTE_BE16(RTE_IPV4_HDR_DF_FLAG));
	UNIT_EQUAL(rte_raw_cksum(&outer, sizeof(outer)), 0xffff);
	check_inner(frame + RTE_ETHER_HDR_LEN + 20, &original, INNER_BYTES);
}

static void gre_as_rfc_2784_in_ipv6(void)
{
	const struct tunnel tunnel = new_tunnel(true);
	struct buffer packet, original;
	uint32_t first_word;

	make_packet(&packet, INNER_BYTES, FRAME_BYTES);
	original = packet;
	UNIT_CHECK(tunnel_enter(&tunnel, &packet.mbuf));
	const uint8_t *frame = rte_pktmbuf_mtod(&packet.mbuf, const uint8_t *),
	              *ip = frame + RTE_ETHER_HDR_LEN;

	UNIT_EQUAL(packet.mbuf.pkt_len, FRAME_BYTES + 44);
	UNIT_CHECK(memcmp(frame, &tunnel.ethernet, sizeof(tunnel.ethernet)) == 0);
	memcpy(&first_word, ip, sizeof(first_word));
	UNIT_EQUAL(rte_be_to_cpu_32(first_word) >> 20, 0x6b8); /* version 6, the inner type of service */
	UNIT_CHECK((rte_be_to_cpu_32(first_word) & 0xfffff) != 0);
	UNIT_EQUAL(ip[4] << 8 | ip[5], INNER_BYTES + 4);
	UNIT_EQUAL(ip[6], 47);
	UNIT_EQUAL(ip[7], 64);
	UNIT_EQUAL(ip[40] << 8 | ip[41], 0); /* no checksum, version 0 */
	UNIT_EQUAL(ip[42] << 8 | ip[43], RTE_ETHER_TYPE_IPV4);
	check_inner(ip + 44, &original, INNER_BYTES);
}

static void padding_stays_outside(void)
{
	const struct tunnel tunnel = new_tunnel(true);
	struct buffer packet;

	make_packet(&packet, 32, FRAME_BYTES);
	UNIT_CHECK(tunnel_enter(&tunnel, &packet.mbuf));
	UNIT_EQUAL(packet.mbuf.pkt_len, RTE_ETHER_HDR_LEN + 44 + 32);
	UNIT_EQUAL(rte_pktmbuf_mtod(&packet.mbuf, const uint8_t *)[RTE_ETHER_HDR_LEN + 5], 32 + 4);
}

static void label_tells_flows_apart(void)
{
	struct buffer a, b;

	make_packet(&a, INNER_BYTES, FRAME_BYTES);
	make_packet(&b, INNER_BYTES, FRAME_BYTES);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(b.bytes + HEADROOM + RTE_ETHER_HDR_LEN);
	const uint32_t label =
	        tunnel_flow_label((struct rte_ipv4_hdr *)(a.bytes + HEADROOM + RTE_ETHER_HDR_LEN));

	UNIT_EQUAL(tunnel_flow_label(ip), label);
	((uint8_t *)(ip + 1))[1] ^= 1; /* source port */
	UNIT_CHECK(tunnel_flow_label(ip) != label);
	ip->fragment_offset = RTE_BE16(100); /* a fragment has no ports */
	const uint32_t of_fragment = tunnel_flow_label(ip);

	((uint8_t *)(ip + 1))[1] ^= 1;
	UNIT_EQUAL(tunnel_flow_label(ip), of_fragment);
}

static void what_cannot_enter_is_refused(void)
{
	static const struct {
		unsigned int at;
		uint8_t byte;
	} spoilt[] = {
	        {13, 0x06},                               /* ARP */
	        {RTE_ETHER_HDR_LEN + 8, 1},               /* the last hop */
	        {RTE_ETHER_HDR_LEN + 3, INNER_BYTES + 1}, /* longer than its frame */
	        {RTE_ETHER_HDR_LEN + 3, 19},              /* shorter than its header */
	};
	const struct tunnel tunnel = new_tunnel(true);
	struct buffer packet;

	for (unsigned int i = 0; i < RTE_DIM(spoilt); i++) {
		make_packet(&packet, INNER_BYTES, FRAME_BYTES);
		packet.bytes[HEADROOM + spoilt[i].at] = spoilt[i].byte;
		UNIT_CHECK(!tunnel_enter(&tunnel, &packet.mbuf));
	}
	make_packet(&packet, INNER_BYTES, FRAME_BYTES);
	packet.mbuf.data_len = packet.mbuf.pkt_len = RTE_ETHER_HDR_LEN + 19;
	UNIT_CHECK(!tunnel_enter(&tunnel, &packet.mbuf));
	for (uint16_t headroom = 43; headroom <= 44; headroom++) {
		make_packet(&packet, INNER_BYTES, FRAME_BYTES);
		memmove(packet.bytes + headroom, packet.bytes + HEADROOM, FRAME_BYTES);
		packet.mbuf.data_off = headroom;
		UNIT_EQUAL(tunnel_enter(&tunnel, &packet.mbuf), headroom == 44);
	}
}

static const struct unit_case cases[] = {
        {"IPv4 in IPv4 as RFC 2003", ipip_as_rfc_2003},
        {"GRE as RFC 2784, in IPv6", gre_as_rfc_2784_in_ipv6},
        {"padding stays outside", padding_stays_outside},
        {"label distinguishes flows", label_tells_flows_apart},
        {"what cannot enter is refused", what_cannot_enter_is_refused},
        {NULL, NULL},
};

const struct unit_suite unit_tunnel = {"tunnel", cases};
