/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPv4 routing by longest prefix match (rte_lpm, routes of routes.h): MAC addresses rewritten, TTL decremented, header
 * checksum updated incrementally. Packets that are not IPv4, whose TTL is 1 or less, or that have no route are dropped.
 *
 * Heavier work is further look-ups in the same table, in loops of their own. Each waits for the one before, as the stages of a
 * pipeline of tables do: the address is made from what was found, so that they neither overlap nor are left out.
 */
#include <errno.h>

#include <rte_errno.h>
#include <rte_ip.h>
#include <rte_prefetch.h>

#include "ipv4.h"
#include "loop/loop.h"
#include "routes.h"
#include "workload.h"

#define PREFETCH_AHEAD 4
#define NEXT_HOP       1

#define MIX 2654435761u /* 2^32 / golden ratio, odd: spreads addresses over the table (Knuth 6.4) */

/* Whether all of them found a route. */
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

static __rte_always_inline bool route(const struct poller *p, struct rte_mbuf *packet, bool further)
{
	struct rte_ether_hdr *ethernet = rte_pktmbuf_mtod(packet, struct rte_ether_hdr *);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ethernet + 1);
	uint32_t next_hop;

	if (unlikely(ethernet->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) || ip->time_to_live <= 1))
		return false;
	const uint32_t address = rte_be_to_cpu_32(ip->dst_addr);

	if (unlikely(rte_lpm_lookup(p->lpm, address, &next_hop)))
		return false;
	if (further && unlikely(!further_lookups(p, address, next_hop)))
		return false;
	*ethernet = p->rewrite;
	ipv4_decrement_ttl(ip);
	return true;
}

static __rte_always_inline void prefetch(struct rte_mbuf **packets, uint16_t i, uint16_t n)
{
	if (i + PREFETCH_AHEAD < n)
		rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH_AHEAD], void *));
}

static __rte_always_inline uint16_t forward(struct poller *p, struct rte_mbuf **packets, uint16_t n,
                                            bool further)
{
	uint16_t kept = 0;

	for (int i = 0; i < RTE_MIN(n, PREFETCH_AHEAD); i++)
		rte_prefetch0(rte_pktmbuf_mtod(packets[i], void *));
	for (uint16_t i = 0; i < n; i++) {
		prefetch(packets, i, n);
		if (likely(route(p, packets[i], further)))
			packets[kept++] = packets[i];
		else
			rte_pktmbuf_free(packets[i]);
	}
	return kept;
}

static __rte_always_inline uint16_t process_l3fwd(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	return forward(p, packets, n, false);
}

static __rte_always_inline uint16_t process_further(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	return forward(p, packets, n, true);
}

WORKLOAD_LOOPS(loops_l3fwd_lpm, process_l3fwd, false);
WORKLOAD_SAMPLED_LOOPS(loops_further, process_further, false);

/* The table outlives configurations: building it takes longer than all the rest of a configure. */
static struct {
	struct rte_lpm *lpm;
	uint32_t routes;
	int socket;
} table = {.socket = SOCKET_ID_ANY};

static int add_routes(struct node_error *err)
{
	for (uint32_t i = 0; i < table.routes; i++) {
		const int status = rte_lpm_add(table.lpm, route_prefix(i), ROUTE_PREFIX_BITS, NEXT_HOP);

		if (status < 0)
			return node_fail(err, "dut.routes", "rte_lpm_add of route %u: %s", i,
			                 rte_strerror(-status));
	}
	return 0;
}

static int build_table(uint32_t routes, int socket, struct node_error *err)
{
	const struct rte_lpm_config config = {.max_rules = routes, .number_tbl8s = 1};

	if (table.lpm && table.routes == routes && table.socket == socket)
		return 0;
	rte_lpm_free(table.lpm);
	table.routes = routes;
	table.socket = socket;
	table.lpm = rte_lpm_create("pollscope", socket, &config);
	if (!table.lpm)
		return node_fail(err, "dut.workload", "rte_lpm_create: %s", rte_strerror(rte_errno));
	if (add_routes(err) == 0)
		return 0;
	rte_lpm_free(table.lpm);
	table.lpm = NULL;
	return -1;
}

static int prepare(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	if (build_table(spec->routes, spec->socket, err) < 0)
		return -1;
	poller->lpm = table.lpm;
	poller->routes = spec->routes;
	poller->lookups = spec->lookups;
	return workload_next_hop(spec->tx_port, RTE_ETHER_TYPE_IPV4, &poller->rewrite, err);
}

const struct workload workload_l3fwd_lpm = {
        .receives = true,
        .sends = true,
        .loops = &loops_l3fwd_lpm,
        .further_loops = &loops_further,
        .prepare = prepare,
};
