/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include <rte_ip.h>
#include <rte_udp.h>

#include "packets.h"
#include "rng.h"

static const struct rte_ether_addr here = {{2, 0, 0, 0, 0, 1}}, there = {{2, 0, 0, 0, 0, 2}};

/* An mbuf with its buffer, laid out as in a pool. */
struct frame {
	struct rte_mbuf mbuf;
	uint8_t buffer[RTE_PKTMBUF_HEADROOM + PACKET_FRAME_BYTES_MAX];
};

static uint8_t *frame_bytes(struct frame *frame)
{
	return frame->buffer + RTE_PKTMBUF_HEADROOM;
}

static void write_frame(struct frame *frame, unsigned int bytes, const struct packet_stamp *stamp)
{
	struct packet_template template;
	struct packet_flow flow;

	memset(&frame->mbuf, 0xa5, sizeof(frame->mbuf)); /* remains of an earlier user */
	memset(frame_bytes(frame), 0, PACKET_FRAME_BYTES_MAX);
	frame->mbuf.buf_addr = frame->buffer;
	frame->mbuf.next = NULL;
	packet_flow_init(&flow, (uint16_t)stamp->flow, 0xac1f0000 | stamp->flow, 0x0a012345, 54321);
	packet_template_init(&template, bytes, &here, &there, 0xbeef);
	packet_write(&frame->mbuf, frame_bytes(frame), &template, &flow, stamp);
}

static void check_headers(struct frame *frame, unsigned int bytes)
{
	const struct rte_ether_hdr *ethernet = (const void *)frame_bytes(frame);
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;

	memcpy(&ip, frame_bytes(frame) + 14, sizeof(ip));
	memcpy(&udp, frame_bytes(frame) + 34, sizeof(udp));
	UNIT_EQUAL(frame->mbuf.pkt_len, bytes - 4);
	UNIT_EQUAL(frame->mbuf.data_len, bytes - 4);
	UNIT_EQUAL(frame->mbuf.data_off, RTE_PKTMBUF_HEADROOM);
	UNIT_EQUAL(frame->mbuf.refcnt, 1);
	UNIT_EQUAL(frame->mbuf.nb_segs, 1);
	UNIT_EQUAL(frame->mbuf.ol_flags, 0);
	UNIT_CHECK(rte_is_same_ether_addr(&ethernet->src_addr, &here));
	UNIT_CHECK(rte_is_same_ether_addr(&ethernet->dst_addr, &there));
	UNIT_EQUAL(rte_be_to_cpu_16(ip.total_length), bytes - 18);
	UNIT_EQUAL(rte_be_to_cpu_16(udp.dgram_len), bytes - 38);
	UNIT_EQUAL(rte_be_to_cpu_16(udp.src_port), 54321);
	UNIT_EQUAL(rte_be_to_cpu_32(ip.dst_addr), 0x0a012345);
}

static void headers_are_right_at_all_sizes(void)
{
	static const unsigned int sizes[] = {64, 65, 96, 128, 570, 1518, 9000};
	const struct packet_stamp stamp = {.sequence = 1, .lateness = 2, .intended = 3, .flow = 4};
	struct frame frame;

	for (unsigned int i = 0; i < 7; i++) {
		write_frame(&frame, sizes[i], &stamp);
		check_headers(&frame, sizes[i]);
	}
}

/* DPDK's own verification of both checksums, over random stamps and sizes. */
static void checksums_are_right(void)
{
	struct frame frame;
	struct rng rng;

	rng_seed(&rng, 11);
	for (int i = 0; i < 20000; i++) {
		const struct packet_stamp stamp = {.sequence = rng_next(&rng) >> (64 - PACKET_SEQUENCE_BITS),
		                                   .lateness = rng_next(&rng) >> (64 - PACKET_LATENESS_BITS),
		                                   .intended = rng_next(&rng) >> (64 - PACKET_INTENDED_BITS),
		                                   .flow = (uint32_t)rng_below(&rng, PACKET_FLOWS_MAX)};
		struct rte_ipv4_hdr ip;

		write_frame(&frame, (unsigned int)(64 + rng_below(&rng, 200)), &stamp);
		memcpy(&ip, frame_bytes(&frame) + 14, sizeof(ip));
		UNIT_EQUAL(rte_raw_cksum(&ip, sizeof(ip)), 0xffff);
		UNIT_EQUAL(rte_ipv4_udptcp_cksum_verify(&ip, frame_bytes(&frame) + 34), 0);
	}
}

/* RFC 768: a computed checksum of 0 is sent as 0xffff. */
static void zero_udp_checksum_is_never_sent(void)
{
	struct frame frame;
	unsigned int all_ones = 0;

	for (uint64_t sequence = 0; sequence < 0x20000; sequence++) {
		const struct packet_stamp stamp = {.sequence = sequence};
		uint16_t checksum;

		write_frame(&frame, 64, &stamp);
		memcpy(&checksum, frame_bytes(&frame) + 40, 2);
		UNIT_CHECK(checksum != 0);
		all_ones += checksum == 0xffff;
	}
	UNIT_CHECK(all_ones > 0);
}

static void stamp_comes_back(void)
{
	const struct packet_stamp most = {.sequence = (1ull << PACKET_SEQUENCE_BITS) - 1,
	                                  .lateness = (1ull << PACKET_LATENESS_BITS) - 1,
	                                  .intended = (1ull << PACKET_INTENDED_BITS) - 1,
	                                  .flow = PACKET_FLOWS_MAX - 1};
	const struct packet_stamp some = {
	        .sequence = 123456789012, .lateness = 777, .intended = 98765432109876, .flow = 1023};
	const struct packet_stamp *stamps[] = {&most, &some};
	struct packet_stamp found = {0};
	struct frame frame;

	for (unsigned int i = 0; i < 2; i++) {
		write_frame(&frame, 64, stamps[i]);
		UNIT_CHECK(packet_read(&frame.mbuf, 0xbeef, 1, &found));
		UNIT_EQUAL(found.sequence, stamps[i]->sequence);
		UNIT_EQUAL(found.lateness, stamps[i]->lateness);
		UNIT_EQUAL(found.intended, stamps[i]->intended);
		UNIT_EQUAL(found.flow, stamps[i]->flow);
	}
}

static void forwarded_frame_is_recognised(void)
{
	const struct packet_stamp stamp = {.sequence = 5, .flow = 6};
	struct packet_stamp found = {0};
	struct frame frame;

	write_frame(&frame, 64, &stamp);
	frame_bytes(&frame)[22]--;          /* TTL */
	memset(frame_bytes(&frame), 7, 12); /* MAC addresses */
	UNIT_CHECK(packet_read(&frame.mbuf, 0xbeef, 1, &found));
	UNIT_EQUAL(found.sequence, 5);
}

static void foreign_frames_are_told(void)
{
	const struct packet_stamp stamp = {.sequence = 5, .flow = 6};
	struct packet_stamp found = {0};
	struct frame frame;

	write_frame(&frame, 64, &stamp);
	UNIT_CHECK(!packet_read(&frame.mbuf, 0xbeee, 1, &found)); /* of another trial */
	frame.mbuf.data_len = 59;
	UNIT_CHECK(!packet_read(&frame.mbuf, 0xbeef, 1, &found)); /* cut off */
	write_frame(&frame, 64, &stamp);
	frame_bytes(&frame)[23] = 6; /* TCP */
	UNIT_CHECK(!packet_read(&frame.mbuf, 0xbeef, 1, &found));
	write_frame(&frame, 64, &stamp);
	frame_bytes(&frame)[12] = 0x86; /* not IPv4 */
	UNIT_CHECK(!packet_read(&frame.mbuf, 0xbeef, 1, &found));
	write_frame(&frame, 64, &stamp);
	frame_bytes(&frame)[14] = 0x46; /* IPv4 options */
	UNIT_CHECK(!packet_read(&frame.mbuf, 0xbeef, 1, &found));
}

static const struct unit_case cases[] = {
        {"headers are right at all sizes", headers_are_right_at_all_sizes},
        {"checksums are right", checksums_are_right},
        {"zero UDP checksum is never sent", zero_udp_checksum_is_never_sent},
        {"stamp comes back", stamp_comes_back},
        {"forwarded frame is recognised", forwarded_frame_is_recognised},
        {"foreign frames are recognised", foreign_frames_are_told},
        {NULL, NULL},
};

const struct unit_suite unit_packets = {"packets", cases};
