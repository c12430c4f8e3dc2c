/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entry of an IP tunnel: outer headers before an IPv4 packet, which is forwarded on the way (TTL and its checksum). GRE
 * (RFC 2784) in IPv6, as in HyperPlane's packet encapsulation, or IPv4 in IPv4 (RFC 2003).
 */
#ifndef TUNNEL_H
#define TUNNEL_H

#include <string.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_jhash.h>
#include <rte_mbuf.h>

#include "ipv4.h"

#define TUNNEL_HOP_LIMIT   64
#define GRE_BYTES          4
#define IPV6_BYTES         40
#define IPPROTO_GRE_VALUE  47
#define IPPROTO_IPIP_VALUE 4

struct tunnel {
	struct rte_ether_hdr ethernet; /* outer */
	uint8_t ipv6_gre[IPV6_BYTES +
	                 GRE_BYTES]; /* flow label, traffic class and length come from the packet */
	struct rte_ipv4_hdr ipv4;    /* type of service, length and checksum come from the packet */
	bool over_ipv6;
};

void tunnel_init(struct tunnel *tunnel, bool over_ipv6, const struct rte_ether_hdr *ethernet);

/* Return 20 bits that distinguish flows, for routers that spread flows over paths (RFC 6438). */
static inline uint32_t tunnel_flow_label(const struct rte_ipv4_hdr *ip)
{
	const bool has_ports =
	        ip->version_ihl == RTE_IPV4_VHL_DEF && (ip->next_proto_id == 6 || ip->next_proto_id == 17) &&
	        (ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) == 0 &&
	        rte_be_to_cpu_16(ip->total_length) >= sizeof(*ip) + 4;
	uint32_t ports = 0;

	if (has_ports)
		memcpy(&ports, ip + 1, sizeof(ports));
	return rte_jhash_3words(ip->src_addr, ip->dst_addr, ports, ip->next_proto_id) & 0xfffff;
}

/* Make room before the inner packet for `bytes` of outer headers and the Ethernet header; NULL if there is none. */
static inline uint8_t *tunnel_prepend(const struct tunnel *tunnel, struct rte_mbuf *packet, uint16_t bytes)
{
	uint8_t *head = (uint8_t *)rte_pktmbuf_prepend(packet, bytes);

	if (likely(head != NULL))
		memcpy(head, &tunnel->ethernet, sizeof(tunnel->ethernet));
	return head;
}

static inline bool tunnel_put_ipv6(const struct tunnel *tunnel, struct rte_mbuf *packet,
                                   const struct rte_ipv4_hdr *ip)
{
	const uint32_t version_class_label =
	        rte_cpu_to_be_32(6u << 28 | (uint32_t)ip->type_of_service << 20 | tunnel_flow_label(ip));
	const uint16_t length = rte_cpu_to_be_16((uint16_t)(GRE_BYTES + rte_be_to_cpu_16(ip->total_length)));
	uint8_t *head = tunnel_prepend(tunnel, packet, sizeof(tunnel->ipv6_gre));

	if (unlikely(!head))
		return false;
	memcpy(head + RTE_ETHER_HDR_LEN, tunnel->ipv6_gre, sizeof(tunnel->ipv6_gre));
	memcpy(head + RTE_ETHER_HDR_LEN, &version_class_label, sizeof(version_class_label));
	memcpy(head + RTE_ETHER_HDR_LEN + 4, &length, sizeof(length));
	return true;
}

static inline bool tunnel_put_ipv4(const struct tunnel *tunnel, struct rte_mbuf *packet,
                                   const struct rte_ipv4_hdr *ip)
{
	struct rte_ipv4_hdr outer = tunnel->ipv4;

	outer.type_of_service = ip->type_of_service;
	outer.total_length = rte_cpu_to_be_16((uint16_t)(sizeof(outer) + rte_be_to_cpu_16(ip->total_length)));
	outer.hdr_checksum = rte_ipv4_cksum(&outer);
	uint8_t *head = tunnel_prepend(tunnel, packet, sizeof(outer));

	if (unlikely(!head))
		return false;
	memcpy(head + RTE_ETHER_HDR_LEN, &outer, sizeof(outer));
	return true;
}

/*
 * Return the IPv4 packet that is to enter a tunnel, forwarded (TTL and its checksum) and without the padding of a short frame.
 * NULL, with only that padding changed: not IPv4, malformed, TTL at most 1, or too long with `outer_bytes` of outer headers and
 * the like.
 */
static inline struct rte_ipv4_hdr *tunnel_inner(struct rte_mbuf *packet, uint32_t outer_bytes)
{
	const struct rte_ether_hdr *ethernet = rte_pktmbuf_mtod(packet, const struct rte_ether_hdr *);
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(packet, struct rte_ipv4_hdr *, RTE_ETHER_HDR_LEN);

	if (unlikely(packet->data_len < RTE_ETHER_HDR_LEN + sizeof(*ip) ||
	             ethernet->ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4) || ip->time_to_live <= 1))
		return NULL;
	const uint32_t bytes = rte_be_to_cpu_16(ip->total_length),
	               padded = packet->pkt_len - RTE_ETHER_HDR_LEN;

	if (unlikely(bytes < sizeof(*ip) || bytes > padded || bytes > UINT16_MAX - outer_bytes))
		return NULL;
	if (padded > bytes && rte_pktmbuf_trim(packet, (uint16_t)(padded - bytes)) < 0)
		return NULL;
	ipv4_decrement_ttl(ip);
	return ip;
}

/*
 * Put `packet` into the tunnel. False, with at most its inner TTL and padding changed: tunnel_inner() refuses it, or there is
 * no room.
 */
static inline bool tunnel_enter(const struct tunnel *tunnel, struct rte_mbuf *packet)
{
	const struct rte_ipv4_hdr *ip = tunnel_inner(packet, IPV6_BYTES);

	if (unlikely(!ip))
		return false;
	return tunnel->over_ipv6 ? tunnel_put_ipv6(tunnel, packet, ip) : tunnel_put_ipv4(tunnel, packet, ip);
}

#endif
