/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPv4 routing by longest prefix match (rte_lpm, routes of routes.h): MAC addresses are rewritten, TTL is decremented, the
 * header checksum is updated incrementally. A packet is dropped if it is not IPv4, has a TTL of at most 1, or has no route.
 *
 * Heavier work has a function of its own. It is either further look-ups in the same table, each of which waits for the one
 * before, as in a pipeline of tables: the address is made from the result, so that they neither overlap nor are optimised away.
 * Or it is the UDP checksum of each packet, as a forwarder computes it after changing the payload.
 */
#include <netinet/in.h>

#include <rte_udp.h>

#include "ipv4.h"
#include "loop/loop.h"
#include "packets.h"
#include "prefetch.h"
#include "routes.h"
#include "routing.h"
#include "workload.h"

#define MIX 2654435761u /* 2^32 / golden ratio, odd: spreads addresses over the table (Knuth 6.4) */

/* Return whether all look-ups found a route. */
static __rte_always_inline bool further_lookups(const struct poller *p, uint32_t address, uint32_t hop)
{
	for (uint32_t i = 1; i < p->lookups; i++) {
		const uint32_t number = (uint32_t)(((uint64_t)((address + hop) * MIX) * p->routes) >> 32);

		address = route_address(number, (uint8_t)i);
		if (unlikely(rte_lpm_lookup(p->lpm, address, &hop)))
			return false;
	}
	return true;
}

/* Compute the checksum of an unfragmented datagram (RFC 768) over all its bytes; leave other packets unchanged. */
static void make_checksum(struct rte_mbuf *packet)
{
	struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(packet, struct rte_ipv4_hdr *, RTE_ETHER_HDR_LEN);
	const uint32_t at = RTE_ETHER_HDR_LEN + rte_ipv4_hdr_len(ip);
	const uint32_t end = RTE_ETHER_HDR_LEN + rte_be_to_cpu_16(ip->total_length);
	struct rte_udp_hdr *udp = rte_pktmbuf_mtod_offset(packet, struct rte_udp_hdr *, at);
	uint16_t sum = 0;

	if (unlikely(ip->next_proto_id != IPPROTO_UDP ||
	             (ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) ||
	             at + sizeof(*udp) > packet->data_len || end > packet->pkt_len ||
	             at + rte_be_to_cpu_16(udp->dgram_len) != end))
		return;
	/* The old checksum is included and then subtracted: a store just before would stall the wide loads of the sum. */
	rte_raw_cksum_mbuf(packet, at, end - at, &sum);
	sum = (uint16_t)~packet_fold((uint64_t)sum + (uint16_t)~udp->dgram_cksum +
	                             rte_ipv4_phdr_cksum(ip, 0));
	udp->dgram_cksum = sum ? sum : UINT16_MAX; /* 0 means that there is no checksum */
}

static __rte_always_inline bool route(const struct poller *p, struct rte_mbuf *packet, bool further)
{
	struct rte_ether_hdr *ethernet = rte_pktmbuf_mtod(packet, struct rte_ether_hdr *);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ethernet + 1);
	uint32_t next_hop;

	if (unlikely(!routing_look_up(p->lpm, packet, &next_hop)))
		return false;
	if (further && unlikely(!further_lookups(p, rte_be_to_cpu_32(ip->dst_addr), next_hop)))
		return false;
	*ethernet = p->rewrite;
	ipv4_decrement_ttl(ip);
	return true;
}

static __rte_always_inline uint16_t forward(struct poller *p, struct rte_mbuf **packets, uint16_t n,
                                            bool further)
{
	uint16_t kept = 0;

	prefetch_first(packets, n);
	for (uint16_t i = 0; i < n; i++) {
		prefetch_ahead(packets, i, n);
		if (likely(route(p, packets[i], further)))
			packets[kept++] = packets[i];
		else
			rte_pktmbuf_free(packets[i]);
	}
	for (uint16_t i = 0; further && p->checksum && i < kept; i++)
		make_checksum(packets[i]);
	return kept;
}

static __rte_always_inline uint16_t process_l3fwd(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	return forward(p, packets, n, false);
}

static uint16_t process_further(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	return forward(p, packets, n, true);
}

WORKLOAD_LOOPS(loops_l3fwd_lpm, process_l3fwd, false);

static int prepare(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	poller->lpm = routing_table(spec->routes, spec->socket, err);
	if (!poller->lpm)
		return -1;
	poller->routes = spec->routes;
	poller->lookups = spec->lookups;
	poller->checksum = spec->checksum == CHECKSUM_UDP;
	return workload_next_hop(spec->tx_port, RTE_ETHER_TYPE_IPV4, &poller->rewrite, err);
}

const struct workload workload_l3fwd_lpm = {
        .receives = true,
        .sends = true,
        .loops = &loops_l3fwd_lpm,
        .process_further = process_further,
        .prepare = prepare,
        .process = process_l3fwd,
};
