/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_net.h>
#include <rte_prefetch.h>

#include "crossover.h"

/* The longest start of a frame that is looked at: Ethernet, 2 VLAN tags, IPv4 with options, ports. */
#define LOOK_BYTES (14 + 8 + 60 + 4)

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

/* Returns the 32 key bits that start at bit 'bit': an input bit at that place adds them to the hash. */
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

#define TYPE_LAYERS (RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK)

_Static_assert(TYPE_LAYERS < 1u << (WIRE_HASH_SHIFT - WIRE_TYPE_SHIFT),
               "a type fits its bits of the write-back word");

/* The control lock is held. */
static void want_types(struct rte_eth_dev *dev, uint32_t mask)
{
	struct crossover_port *port = crossover_port_of(dev);

	__atomic_store_n(&port->types, mask & TYPE_LAYERS, __ATOMIC_RELAXED);
	crossover_gate_update(port, port->gate != CROSSOVER_GATE_DOWN);
	crossover_receive_select(dev);
}

/* Returns the types that rte_net_get_ptype() finds in layers 2 to 4. */
CROSSOVER_PTYPES_GET(crossover_ptypes_get)
{
	static const uint32_t types[] = {
	        RTE_PTYPE_L2_ETHER,    RTE_PTYPE_L2_ETHER_VLAN, RTE_PTYPE_L2_ETHER_QINQ, RTE_PTYPE_L3_IPV4,
	        RTE_PTYPE_L3_IPV4_EXT, RTE_PTYPE_L3_IPV6,       RTE_PTYPE_L3_IPV6_EXT,   RTE_PTYPE_L4_TCP,
	        RTE_PTYPE_L4_UDP,      RTE_PTYPE_L4_FRAG,       RTE_PTYPE_L4_SCTP,       RTE_PTYPE_UNKNOWN,
	};
	struct crossover_port *port = crossover_port_of(dev);

	if (crossover_control_lock(port->pair) != 0)
		return NULL;
	if (!port->types_set)
		want_types(dev, TYPE_LAYERS);
	crossover_control_unlock(port->pair);
	CROSSOVER_PTYPES_COUNT(types, count);
	return types;
}

int crossover_ptypes_set(struct rte_eth_dev *dev, uint32_t mask)
{
	struct crossover_port *port = crossover_port_of(dev);

	CROSSOVER_HOLD_OR_RETURN(port->pair);
	port->types_set = 1;
	want_types(dev, mask);
	return 0;
}

/* Excludes fragments, whose checksum covers the other fragments too, and layer 4 without an IP header. */
static bool l4_checked(const struct crossover_port *port, uint32_t type)
{
	if ((type & RTE_PTYPE_L3_MASK) == 0)
		return false;
	switch (type & RTE_PTYPE_L4_MASK) {
	case RTE_PTYPE_L4_TCP:
		return port->checks & RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
	case RTE_PTYPE_L4_UDP:
		return port->checks & RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	default:
		return false;
	}
}

uint64_t crossover_describe_type(const struct crossover_port *port, uint32_t type)
{
	return (uint64_t)type << WIRE_TYPE_SHIFT | (l4_checked(port, type) ? WIRE_L4_GOOD : 0);
}

/*
 * Returns the type of the headers that nearly all frames have; 0: rte_net_get_ptype() must look. A core that forwards, and plays the NIC of both ports,
 * forwards 1.2 to 1.3 times as much with this.
 */
static uint32_t common_type(const struct rte_mbuf *m)
{
	const struct rte_ether_hdr *ether = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(ether + 1);
	const uint32_t plain = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4;

	if (m->data_len < sizeof(*ether) + sizeof(*ip) + sizeof(struct rte_tcp_hdr) ||
	    ether->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) ||
	    ip->version_ihl != RTE_IPV4_VHL_DEF ||
	    (ip->fragment_offset & rte_cpu_to_be_16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) != 0)
		return 0;
	return ip->next_proto_id == IPPROTO_UDP   ? plain | RTE_PTYPE_L4_UDP
	       : ip->next_proto_id == IPPROTO_TCP ? plain | RTE_PTYPE_L4_TCP
	                                          : 0;
}

static uint64_t describe(const struct crossover_port *port, const struct rte_mbuf *m)
{
	uint32_t type = common_type(m);

	return crossover_describe_type(port, type != 0 ? type : rte_net_get_ptype(m, NULL, TYPE_LAYERS));
}

static bool contains(const uint64_t *list, unsigned int size, uint64_t number)
{
	for (unsigned int i = 0; i < size; i++)
		if (__atomic_load_n(&list[i], __ATOMIC_RELAXED) == number)
			return true;
	return false;
}

static bool mac_accepted(const struct crossover_port *port, const struct rte_ether_addr *mac)
{
	uint64_t number = crossover_mac_number(mac);

	if (!rte_is_multicast_ether_addr(mac))
		return contains(port->unicast, CROSSOVER_MAX_MACS, number);
	return port->allmulticast || rte_is_broadcast_ether_addr(mac) ||
	       contains(port->multicast, CROSSOVER_MAX_MULTICAST, number);
}

static uint16_t hash_to_queue(const struct crossover_port *port, const uint8_t *frame, uint32_t length,
                              uint64_t *tag)
{
	const struct crossover_hash *hash =
	        &port->hash[__atomic_load_n(&port->active_hash, __ATOMIC_ACQUIRE)];
	uint32_t value;

	if (!crossover_hash_frame(hash, frame, length, &value))
		return 0;
	if (port->report_hash)
		*tag |= WIRE_HASH | (uint64_t)value << WIRE_HASH_SHIFT;
	return port->reta[value & port->reta_mask];
}

static uint16_t classify_frame(const struct crossover_port *port, const struct rte_mbuf *m, uint64_t *tag)
{
	uint8_t copy[LOOK_BYTES];
	uint32_t length = RTE_MIN(m->pkt_len, (uint32_t)LOOK_BYTES);
	const uint8_t *frame = rte_pktmbuf_read(m, 0, length, copy);

	*tag = 0;
	if (unlikely(length < RTE_ETHER_HDR_LEN))
		return 0; /* a runt: the DMA step refuses it */
	if (!port->promiscuous && !mac_accepted(port, (const struct rte_ether_addr *)frame))
		return CROSSOVER_FILTERED;
	if (port->described)
		*tag = describe(port, m);
	return port->hashing ? hash_to_queue(port, frame, length, tag) : 0;
}

void crossover_classify(const struct crossover_port *port, struct rte_mbuf *const *pkts, uint32_t count,
                        struct crossover_verdicts *verdicts)
{
	for (uint32_t i = 0; i < count; i++) {
		uint16_t queue = classify_frame(port, pkts[i], &verdicts->tag[i]);

		verdicts->queue[i] = queue;
		if (likely(queue != CROSSOVER_FILTERED && port->rx_queues[queue] != NULL))
			rte_prefetch0(&port->rx_queues[queue]->ring.nic);
	}
}

/* Counting sort without a branch that depends on the queues; filtered frames go last. */
static void sort(const struct crossover_verdicts *found, struct rte_mbuf *const *pkts, uint32_t count,
                 struct crossover_verdicts *verdicts, struct rte_mbuf **sorted)
{
	uint8_t group[CROSSOVER_CHUNK], next[CROSSOVER_SORTED_QUEUES + 2] = {0};

	for (uint32_t i = 0; i < count; i++) {
		group[i] = (uint8_t)RTE_MIN(found->queue[i], CROSSOVER_SORTED_QUEUES);
		next[group[i] + 1]++;
	}
	for (uint32_t g = 1; g <= CROSSOVER_SORTED_QUEUES; g++)
		next[g] += next[g - 1];
	for (uint32_t i = 0; i < count; i++) {
		uint32_t to = next[group[i]]++;

		sorted[to] = pkts[i];
		verdicts->queue[to] = found->queue[i];
		verdicts->tag[to] = found->tag[i];
	}
}

struct rte_mbuf *const *crossover_sort(const struct crossover_port *port, struct crossover_verdicts *verdicts,
                                       struct rte_mbuf *const *pkts, uint32_t count, struct rte_mbuf **sorted)
{
	struct crossover_verdicts found;

	if (port->nb_rx_queues > CROSSOVER_SORTED_QUEUES || crossover_is_one_run(verdicts->queue, count))
		return pkts;
	found = *verdicts;
	sort(&found, pkts, count, verdicts, sorted);
	return sorted;
}

enum crossover_program crossover_program_of(const struct crossover_port *port)
{
	if (port->promiscuous && !port->hashing && !port->described)
		return CROSSOVER_PROGRAM_DIRECT;
	return port->nb_rx_queues <= CROSSOVER_SORTED_QUEUES ? CROSSOVER_PROGRAM_SORTED
	                                                     : CROSSOVER_PROGRAM_IN_ORDER;
}

static enum crossover_gate open_gate(const struct crossover_port *port)
{
	if (port->pair->options.feed != CROSSOVER_FEED_WIRE)
		return CROSSOVER_GATE_VOID;
	if (crossover_has_buffer_pool(port))
		return CROSSOVER_GATE_BUFFER_POOL;
	if (crossover_program_of(port) == CROSSOVER_PROGRAM_DIRECT)
		return port->notifies ? CROSSOVER_GATE_NOTIFY_DIRECT : CROSSOVER_GATE_DIRECT;
	return port->notifies ? CROSSOVER_GATE_NOTIFY : CROSSOVER_GATE_CLASSIFY;
}

void crossover_gate_update(struct crossover_port *port, bool carrier)
{
	port->described = port->types != 0 || port->checks != 0;
	port->hashing = port->rss_on && (port->nb_rx_queues > 1 || port->report_hash);
	__atomic_store_n(&port->gate, carrier ? open_gate(port) : CROSSOVER_GATE_DOWN, __ATOMIC_RELEASE);
	if (port->wire != NULL)
		crossover_external_publish(port, carrier);
}
