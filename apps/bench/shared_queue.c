/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that share one RX queue per port, and route what they get from it. */
#include <stdalign.h>
#include <stdio.h>

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_lpm.h>
#include <rte_spinlock.h>

#include "wire_bench.h"

#define PREFETCH_AHEAD 4

static struct rte_lpm *lpm;

/* Two lines apart, because prefetchers fetch lines in pairs. */
static struct side {
	alignas(128) rte_spinlock_t lock;
} sides[2];

bool bench_share_init(void)
{
	const struct rte_lpm_config config = {.max_rules = BENCH_ROUTES, .number_tbl8s = 256};

	lpm = rte_lpm_create("bench", SOCKET_ID_ANY, &config);
	for (uint32_t i = 0; lpm != NULL && i < BENCH_ROUTES; i++)
		if (rte_lpm_add(lpm, bench_route(i), BENCH_ROUTE_BITS, i) != 0)
			bench_share_exit();
	if (lpm == NULL)
		fprintf(stderr, "wire-bench: no table of %d routes\n", BENCH_ROUTES);
	return lpm != NULL;
}

void bench_share_exit(void)
{
	rte_lpm_free(lpm);
	lpm = NULL;
}

static void route(struct rte_mbuf *m)
{
	struct rte_ether_hdr *ether = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ether + 1);
	uint32_t hop = 0;

	rte_lpm_lookup(lpm, rte_be_to_cpu_32(ip->dst_addr), &hop);
	ether->src_addr.addr_bytes[0] = 2;
	ether->dst_addr.addr_bytes[5] = (uint8_t)hop;
	ip->time_to_live--; /* so that frames circulate forever */
	ip->hdr_checksum += rte_cpu_to_be_16(1 << 8);
}

uint32_t bench_route_and_send(struct rte_mbuf **burst, uint16_t count, unsigned int to, unsigned int worker)
{
	uint16_t sent;

	for (uint16_t i = 0; i < count && i < PREFETCH_AHEAD; i++)
		rte_prefetch0(rte_pktmbuf_mtod(burst[i], void *));
	for (uint16_t i = 0; i < count; i++) {
		if (i + PREFETCH_AHEAD < count)
			rte_prefetch0(rte_pktmbuf_mtod(burst[i + PREFETCH_AHEAD], void *));
		route(burst[i]);
	}
	sent = rte_eth_tx_burst(bench_ports[to], (uint16_t)worker, burst, count);
	if (sent < count)
		rte_pktmbuf_free_bulk(burst + sent, count - sent);
	return sent;
}

/* Each worker begins at its own side, as sweeps of the node do (receive_send.h); otherwise both would always meet. */
uint32_t bench_share_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint32_t done = 0;

	for (unsigned int i = 0; i < 2; i++) {
		const unsigned int from = (i + worker) % 2;
		const uint16_t count = rte_eth_rx_burst(bench_ports[from], 0, burst, BENCH_BURST);

		done += count == 0 ? 0 : bench_route_and_send(burst, count, !from, worker);
	}
	return done;
}

uint32_t bench_share_locked_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint32_t done = 0;

	for (unsigned int i = 0; i < 2; i++) {
		const unsigned int from = (i + worker) % 2;
		uint16_t count;

		rte_spinlock_lock(&sides[from].lock);
		count = rte_eth_rx_burst(bench_ports[from], 0, burst, BENCH_BURST);
		rte_spinlock_unlock(&sides[from].lock);
		done += count == 0 ? 0 : bench_route_and_send(burst, count, !from, worker);
	}
	return done;
}

uint32_t bench_share_trylock_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint32_t done = 0;

	for (unsigned int i = 0; i < 2; i++) {
		const unsigned int from = (i + worker) % 2;
		uint16_t count;

		if (!rte_spinlock_trylock(&sides[from].lock))
			continue;
		count = rte_eth_rx_burst(bench_ports[from], 0, burst, BENCH_BURST);
		rte_spinlock_unlock(&sides[from].lock);
		done += count == 0 ? 0 : bench_route_and_send(burst, count, !from, worker);
	}
	return done;
}
