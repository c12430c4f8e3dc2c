/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off */
/*
 * The generator's test frames: Ethernet, IPv4, UDP and a stamp that fills a 64-byte frame completely.
 *
 *	byte  length
 *	   0      14  Ethernet header
 *	  14      20  IPv4 header: don't fragment, TTL 64, correct checksum
 *	  34       8  UDP header: destination port 9 (discard), correct checksum
 *	  42       2  mark of the trial and the sender: senders of one trial have consecutive marks
 *	  44       8  sequence number of the sender in the trial (40 bits); lateness = sent - intended departure (24 bits, TSC cycles)
 *	  52       8  intended departure (48 bits, TSC cycles after the trial's begin); number among the sender's flows (16 bits)
 *	  60          zeros, up to the frame's size
 *
 * Frame sizes count the 4 bytes of FCS, which no software writes: a 64-byte frame is an mbuf of 60 bytes. The stamp (bytes 42
 * to 59) is in host byte order, because its reader shares the generator's TSC anyway. Of two fields in 8 bytes the first has
 * the low bits.
 */
/* clang-format on */
#ifndef PACKETS_H
#define PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#define PACKET_FCS_BYTES           4
#define PACKET_WIRE_OVERHEAD_BYTES 20 /* preamble, start of frame, inter-frame gap (RFC 5180 appendix A) */
#define PACKET_FRAME_BYTES_MIN     64
#define PACKET_FRAME_BYTES_MAX     9000
#define PACKET_STAMPED_BYTES       60
#define PACKET_SEQUENCE_BITS       40
#define PACKET_LATENESS_BITS       24
#define PACKET_INTENDED_BITS       48
#define PACKET_FLOWS_MAX           65536
#define PACKET_DESTINATION_PORT    9 /* discard, RFC 863 */

struct packet_stamp {
	uint32_t sender;   /* of those of a trial; written as the template's mark */
	uint64_t sequence; /* < 2^40 */
	uint64_t lateness; /* < 2^24 */
	uint64_t intended; /* < 2^48 */
	uint32_t flow;     /* < 2^16 */
};

/* The part of a frame that its flow determines, network byte order. */
struct packet_flow {
	uint32_t source;
	uint32_t destination;
	uint16_t source_port;
	uint16_t number;
	uint16_t address_sum; /* of both addresses */
	uint16_t udp_sum;     /* of addresses, source port and the flow number in the stamp */
};

/* The part of a frame that its size determines, ready to be copied with wide stores. */
struct packet_template {
	_Alignas(64) uint8_t image[64]; /* first 60 bytes of the frame, then zeros */
	uint8_t mbuf_image[32];         /* fields of the mbuf from data_off to hash.rss */
	uint32_t mbuf_bytes;            /* frame without FCS */
	uint16_t ip_sum;                /* IPv4 header without addresses */
	uint16_t udp_sum;               /* pseudo header and datagram, without the fields of flow and stamp */
};

/* Set the fields of a flow: host byte order in, network byte order out. */
void packet_flow_init(struct packet_flow *flow, uint16_t number, uint32_t source, uint32_t destination,
                      uint16_t source_port);

/* Make a template for frames of `frame_bytes` (64..9000, FCS included) that carry `mark`. */
void packet_template_init(struct packet_template *template, unsigned int frame_bytes,
                          const struct rte_ether_addr *source, const struct rte_ether_addr *destination,
                          uint16_t mark);

/*
 * Return the one's complement sum of the four 16-bit words of `sum` (RFC 1071). Adding a number to itself rotated by half its
 * bits leaves the sum of both halves, including the carry, in the upper half.
 */
static inline uint16_t packet_fold(uint64_t sum)
{
	const uint32_t half = (uint32_t)((sum + (sum << 32 | sum >> 32)) >> 32);

	return (uint16_t)((half + (half << 16 | half >> 16)) >> 16);
}

/*
 * Write the first 64 bytes of `template`'s frame for `flow` with `stamp` to `frame`, and set up `mbuf` for it. Bytes from 60 on
 * must be zero already. `frame` has room for 64 bytes; `mbuf` is as it comes from its pool: one segment, not shared, no next.
 */
static inline void packet_write(struct rte_mbuf *mbuf, uint8_t *frame, const struct packet_template *template,
                                const struct packet_flow *flow, const struct packet_stamp *stamp)
{
	const uint64_t order = stamp->sequence | stamp->lateness << PACKET_SEQUENCE_BITS;
	const uint64_t time = stamp->intended | (uint64_t)flow->number << PACKET_INTENDED_BITS;
	/* halves are summed separately, so that no carry is lost; flow->udp_sum contains the flow number */
	const uint64_t stamp_sum = (order & UINT32_MAX) + (order >> 32) + (stamp->intended & UINT32_MAX) +
	                           (stamp->intended >> 32);
	const uint16_t ip_checksum = (uint16_t)~packet_fold((uint64_t)flow->address_sum + template->ip_sum);
	uint16_t udp_checksum = (uint16_t)~packet_fold(stamp_sum + template->udp_sum + flow->udp_sum);

	udp_checksum = udp_checksum == 0 ? 0xffff : udp_checksum; /* 0 means "none" (RFC 768) */
	memcpy((uint8_t *)mbuf + offsetof(struct rte_mbuf, data_off), template->mbuf_image, 32);
	memcpy(frame, template->image, 64);
	memcpy(frame + 24, &ip_checksum, 2);
	memcpy(frame + 26, flow, 8); /* both addresses: the first fields */
	memcpy(frame + 34, &flow->source_port, 2);
	memcpy(frame + 40, &udp_checksum, 2);
	memcpy(frame + 44, &order, 8);
	memcpy(frame + 52, &time, 8);
}

/*
 * Return the bytes of outer headers before a tunnelled IPv4 packet: GRE in IPv6 without options, or IPv4 in IPv4. 0: no tunnel.
 */
static inline uint32_t packet_tunnel_bytes(const uint8_t *frame)
{
	uint16_t ether_type, gre_type;

	memcpy(&ether_type, frame + 12, 2);
	memcpy(&gre_type, frame + 56, 2);
	if (ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV6) && frame[20] == 47 &&
	    gre_type == RTE_BE16(RTE_ETHER_TYPE_IPV4))
		return 44;
	return ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4) && frame[14] == 0x45 && frame[23] == 4 ? 20 : 0;
}

/*
 * Return whether this is a frame of one of `senders`, whose marks begin at `mark`, and which. `frame` has PACKET_STAMPED_BYTES.
 * Its EtherType is not checked.
 */
static inline bool packet_is_marked(const uint8_t *frame, uint16_t mark, uint32_t senders, uint32_t *sender)
{
	uint16_t found_mark;

	memcpy(&found_mark, frame + 42, 2);
	*sender = (uint16_t)(found_mark - mark);
	return frame[14] == 0x45 && frame[23] == 17 && *sender < senders;
}

/*
 * Read the stamp of a received frame, which may have entered a tunnel on its way. Returns false if it is not a frame of one of
 * these senders.
 */
static inline bool packet_read(const struct rte_mbuf *mbuf, uint16_t mark, uint32_t senders,
                               struct packet_stamp *stamp)
{
	const uint8_t *frame = rte_pktmbuf_mtod(mbuf, const uint8_t *);
	uint64_t order, time;
	uint16_t ether_type;

	if (mbuf->data_len < PACKET_STAMPED_BYTES)
		return false;
	memcpy(&ether_type, frame + 12, 2);
	if (unlikely(ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4) ||
	             !packet_is_marked(frame, mark, senders, &stamp->sender))) {
		const uint32_t outer = packet_tunnel_bytes(frame);

		frame += outer;
		if (outer == 0 || mbuf->data_len < PACKET_STAMPED_BYTES + outer ||
		    !packet_is_marked(frame, mark, senders, &stamp->sender))
			return false;
	}
	memcpy(&order, frame + 44, 8);
	memcpy(&time, frame + 52, 8);
	stamp->sequence = order & ((1ull << PACKET_SEQUENCE_BITS) - 1);
	stamp->lateness = order >> PACKET_SEQUENCE_BITS;
	stamp->intended = time & ((1ull << PACKET_INTENDED_BITS) - 1);
	stamp->flow = (uint32_t)(time >> PACKET_INTENDED_BITS);
	return true;
}

#endif
