/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off */
/*
 * Tasks work on the payload of an IPv4/UDP packet behind the generator's stamp (lib/packets.h). The stamp stays in place, so
 * that the generator recognises its packets.
 *
 *	byte  length
 *	   0      42  Ethernet, IPv4 without options, UDP
 *	  42      18  stamp
 *	  60          payload
 */
/* clang-format on */
#ifndef PAYLOAD_H
#define PAYLOAD_H

#include <stdint.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>

#include "ipv4.h"
#include "packets.h"

#define PAYLOAD_OFFSET      PACKET_STAMPED_BYTES
#define PAYLOAD_BYTES_MAX   (PACKET_FRAME_BYTES_MAX - PAYLOAD_OFFSET)
#define PAYLOAD_IPPROTO_UDP 17

static inline struct rte_ipv4_hdr *payload_ipv4(struct rte_mbuf *packet)
{
	return rte_pktmbuf_mtod_offset(packet, struct rte_ipv4_hdr *, RTE_ETHER_HDR_LEN);
}

/*
 * Return the bytes of payload, and remove the padding of a short frame. 0: drop the packet. It is not unfragmented IPv4/UDP,
 * its TTL is at most 1, it is malformed, or nothing follows the stamp.
 */
static inline uint32_t payload_bytes(struct rte_mbuf *packet)
{
	const struct rte_ether_hdr *ethernet = rte_pktmbuf_mtod(packet, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = payload_ipv4(packet);

	if (unlikely(packet->nb_segs != 1 || packet->data_len <= PAYLOAD_OFFSET ||
	             ethernet->ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4) ||
	             ip->version_ihl != RTE_IPV4_VHL_DEF || ip->next_proto_id != PAYLOAD_IPPROTO_UDP ||
	             ip->time_to_live <= 1 ||
	             (ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK))))
		return 0;
	const struct rte_udp_hdr *udp = (const struct rte_udp_hdr *)(ip + 1);
	const uint32_t end = RTE_ETHER_HDR_LEN + rte_be_to_cpu_16(ip->total_length);

	if (unlikely(end <= PAYLOAD_OFFSET || end > packet->data_len ||
	             rte_be_to_cpu_16(udp->dgram_len) != end - RTE_ETHER_HDR_LEN - sizeof(*ip)))
		return 0;
	if (packet->data_len > end)
		rte_pktmbuf_trim(packet, (uint16_t)(packet->data_len - end));
	return end - PAYLOAD_OFFSET;
}

/* Make room for `bytes` between stamp and payload; NULL if there is none. payload_forward() updates the headers later. */
static inline uint8_t *payload_open(struct rte_mbuf *packet, uint16_t bytes)
{
	uint8_t *frame = (uint8_t *)rte_pktmbuf_prepend(packet, bytes);

	if (unlikely(!frame))
		return NULL;
	memmove(frame, frame + bytes, PAYLOAD_OFFSET);
	return frame + PAYLOAD_OFFSET;
}

/*
 * Pass the packet on to the next hop: MAC addresses, TTL, lengths (it has grown by `more` bytes since payload_bytes()), header
 * checksum. A changed payload leaves without a UDP checksum, as IPv4 allows (RFC 768).
 */
static inline void payload_forward(struct rte_mbuf *packet, const struct rte_ether_hdr *next_hop,
                                   uint32_t more)
{
	struct rte_ipv4_hdr *ip = payload_ipv4(packet);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);

	memcpy(rte_pktmbuf_mtod(packet, void *), next_hop, sizeof(*next_hop));
	ip->time_to_live--;
	ip->total_length = rte_cpu_to_be_16((uint16_t)(rte_be_to_cpu_16(ip->total_length) + more));
	ip->hdr_checksum = 0;
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	udp->dgram_len = rte_cpu_to_be_16((uint16_t)(rte_be_to_cpu_16(udp->dgram_len) + more));
	udp->dgram_cksum = 0;
}

#endif
