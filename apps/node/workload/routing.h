/* SPDX-License-Identifier: BSD-3-Clause */
/* The IPv4 routing table of a DUT (rte_lpm, routes of routes.h), and the look-up of a packet. */
#ifndef ROUTING_H
#define ROUTING_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_lpm.h>
#include <rte_mbuf.h>

#include "node_error.h"

#define ROUTING_HOPS 3 /* the next hop of route i is i modulo this */

/*
 * Return a table with this many routes in the memory of `socket`; NULL with err. It is kept across configurations until other
 * routes are requested, because building it takes longer than the rest of a configure.
 */
struct rte_lpm *routing_table(uint32_t routes, int socket, struct node_error *err);

/* Find the next hop of a packet. False: it is not IPv4, its TTL is at most 1, or it has no route. */
static __rte_always_inline bool routing_look_up(const struct rte_lpm *lpm, const struct rte_mbuf *packet,
                                                uint32_t *next_hop)
{
	const struct rte_ether_hdr *ethernet = rte_pktmbuf_mtod(packet, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(ethernet + 1);

	if (unlikely(ethernet->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) || ip->time_to_live <= 1))
		return false;
	return likely(rte_lpm_lookup(lpm, rte_be_to_cpu_32(ip->dst_addr), next_hop) == 0);
}

#endif
