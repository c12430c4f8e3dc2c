/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include <rte_byteorder.h>
#include <rte_ethdev.h>
#include <rte_ip.h>

#include "crossover_rss.h"

#define IPV4_INPUT_BYTES 8
#define IPV6_INPUT_BYTES 32
#define PORTS_BYTES      4

/* The key that the Microsoft RSS specification gives with its verification values. */
const uint8_t crossover_default_rss_key[CROSSOVER_RSS_KEY_BYTES] = {
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
        0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
        0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

uint64_t crossover_rss_types(void)
{
	return RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_TCP |
	       RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV4_SCTP | RTE_ETH_RSS_NONFRAG_IPV4_OTHER |
	       RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_FRAG_IPV6 | RTE_ETH_RSS_NONFRAG_IPV6_TCP |
	       RTE_ETH_RSS_NONFRAG_IPV6_UDP | RTE_ETH_RSS_NONFRAG_IPV6_SCTP | RTE_ETH_RSS_NONFRAG_IPV6_OTHER;
}

/* The 32 key bits that start at bit 'bit': what an input bit at that place adds to the hash. */
static uint32_t key_window(const uint8_t *key, unsigned int bit)
{
	uint64_t window = 0;

	for (unsigned int i = 0; i < 5; i++) {
		unsigned int at = bit / 8 + i;

		window = window << 8 | (at < CROSSOVER_RSS_KEY_BYTES ? key[at] : 0);
	}
	return (uint32_t)(window >> (8 - bit % 8));
}

static uint32_t nibble_hash(const uint8_t *key, unsigned int nibble, unsigned int value)
{
	uint32_t hash = 0;

	for (unsigned int bit = 0; bit < 4; bit++)
		if (value & (8u >> bit))
			hash ^= key_window(key, 4 * nibble + bit);
	return hash;
}

void crossover_hash_init(struct crossover_hash *hash, const uint8_t *key, uint64_t types)
{
	memmove(hash->key, key, sizeof(hash->key));
	hash->types = types;
	for (unsigned int nibble = 0; nibble < 2 * CROSSOVER_RSS_INPUT_BYTES; nibble++)
		for (unsigned int value = 0; value < 16; value++)
			hash->table[nibble][value] = nibble_hash(key, nibble, value);
}

static uint32_t hash_bytes(const struct crossover_hash *hash, const uint8_t *input, unsigned int bytes,
                           unsigned int first)
{
	uint32_t value = 0;

	for (unsigned int i = 0; i < bytes; i++) {
		value ^= hash->table[2 * (first + i)][input[i] >> 4];
		value ^= hash->table[2 * (first + i) + 1][input[i] & 15];
	}
	return value;
}

struct l4_types {
	uint64_t tcp, udp, sctp;
};

static bool ports_wanted(uint64_t types, uint8_t protocol, const struct l4_types *l4)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return types & l4->tcp;
	case IPPROTO_UDP:
		return types & l4->udp;
	case IPPROTO_SCTP:
		return types & l4->sctp;
	default:
		return false;
	}
}

static bool is_l4(uint8_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

static bool hash_ipv4(const struct crossover_hash *hash, const uint8_t *packet, uint32_t length,
                      uint32_t *value)
{
	static const struct l4_types l4 = {RTE_ETH_RSS_NONFRAG_IPV4_TCP, RTE_ETH_RSS_NONFRAG_IPV4_UDP,
	                                   RTE_ETH_RSS_NONFRAG_IPV4_SCTP};
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)packet;
	uint64_t alone = RTE_ETH_RSS_IPV4;
	uint32_t header;
	bool fragment;

	if (length < sizeof(*ip))
		return false;
	header = (packet[0] & 15u) * 4;
	if (header < sizeof(*ip))
		return false;
	fragment = (ip->fragment_offset &
	            rte_cpu_to_be_16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) != 0;
	if (!fragment && length >= header + PORTS_BYTES &&
	    ports_wanted(hash->types, ip->next_proto_id, &l4)) {
		*value = hash_bytes(hash, (const uint8_t *)&ip->src_addr, IPV4_INPUT_BYTES, 0) ^
		         hash_bytes(hash, packet + header, PORTS_BYTES, IPV4_INPUT_BYTES);
		return true;
	}
	alone |= fragment                   ? RTE_ETH_RSS_FRAG_IPV4
	         : is_l4(ip->next_proto_id) ? 0
	                                    : RTE_ETH_RSS_NONFRAG_IPV4_OTHER;
	if (!(hash->types & alone))
		return false;
	*value = hash_bytes(hash, (const uint8_t *)&ip->src_addr, IPV4_INPUT_BYTES, 0);
	return true;
}

static bool hash_ipv6(const struct crossover_hash *hash, const uint8_t *packet, uint32_t length,
                      uint32_t *value)
{
	static const struct l4_types l4 = {RTE_ETH_RSS_NONFRAG_IPV6_TCP, RTE_ETH_RSS_NONFRAG_IPV6_UDP,
	                                   RTE_ETH_RSS_NONFRAG_IPV6_SCTP};
	const struct rte_ipv6_hdr *ip = (const struct rte_ipv6_hdr *)packet;
	const uint8_t *addresses = packet + offsetof(struct rte_ipv6_hdr, src_addr);
	uint64_t alone = RTE_ETH_RSS_IPV6;

	if (length < sizeof(*ip))
		return false;
	if (length >= sizeof(*ip) + PORTS_BYTES && ports_wanted(hash->types, ip->proto, &l4)) {
		*value = hash_bytes(hash, addresses, IPV6_INPUT_BYTES, 0) ^
		         hash_bytes(hash, packet + sizeof(*ip), PORTS_BYTES, IPV6_INPUT_BYTES);
		return true;
	}
	if (ip->proto == IPPROTO_FRAGMENT)
		alone |= RTE_ETH_RSS_FRAG_IPV6;
	else if (!is_l4(ip->proto))
		alone |= RTE_ETH_RSS_NONFRAG_IPV6_OTHER;
	if (!(hash->types & alone))
		return false;
	*value = hash_bytes(hash, addresses, IPV6_INPUT_BYTES, 0);
	return true;
}

static uint16_t ether_type_at(const uint8_t *frame, uint32_t offset)
{
	return (uint16_t)(frame[offset] << 8 | frame[offset + 1]);
}

bool crossover_hash_frame(const struct crossover_hash *hash, const uint8_t *frame, uint32_t length,
                          uint32_t *value)
{
	uint32_t offset = RTE_ETHER_HDR_LEN;
	uint16_t type;

	if (length < offset)
		return false;
	type = ether_type_at(frame, offset - 2);
	for (int tags = 0; tags < 2 && (type == RTE_ETHER_TYPE_VLAN || type == RTE_ETHER_TYPE_QINQ); tags++) {
		offset += sizeof(struct rte_vlan_hdr);
		if (length < offset)
			return false;
		type = ether_type_at(frame, offset - 2);
	}
	if (type == RTE_ETHER_TYPE_IPV4)
		return hash_ipv4(hash, frame + offset, length - offset, value);
	if (type == RTE_ETHER_TYPE_IPV6)
		return hash_ipv6(hash, frame + offset, length - offset, value);
	return false;
}
