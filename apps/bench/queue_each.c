/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers with one RX queue each of both ports, and RSS++ beside them (organisation rebalanced of the node). */
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>

#include "ports/reta.h"
#include "rebalance.h"
#include "wire_bench.h"

#define ENTRIES       512 /* of the RETA of a port with this few queues */
#define LOOK_STEPS    256
#define PERIODS_PER_S 100 /* ten times as often as by default, because windows are short */
#define THRESHOLD     0.02
#define COUNTS_APART  64 /* lines between the counts of two workers */

static struct {
	uint64_t packets[ENTRIES];
	uint64_t apart[COUNTS_APART * 8];
} counts[BENCH_QUEUES][2]; /* by worker and port */

/* Used by worker 0 only. */
static uint64_t seen[2][ENTRIES], next_tsc;
static uint16_t reta[2][ENTRIES];
static uint32_t steps;

void bench_each_init(void)
{
	memset(counts, 0, sizeof(counts));
	memset(seen, 0, sizeof(seen));
	next_tsc = steps = 0;
	for (unsigned int i = 0; i < ENTRIES; i++)
		reta[0][i] = reta[1][i] = i % BENCH_QUEUES;
}

uint32_t bench_each_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint32_t done = 0;

	for (unsigned int from = 0; from < 2; from++) {
		const uint16_t count =
		        rte_eth_rx_burst(bench_ports[from], (uint16_t)worker, burst, BENCH_BURST);

		done += count == 0 ? 0 : bench_route_and_send(burst, count, !from, worker);
	}
	return done;
}

/* Relaxed: each count has one writer, and an approximate value is enough. */
static void rebalance_port(unsigned int port)
{
	uint64_t loads[ENTRIES];

	for (unsigned int i = 0; i < ENTRIES; i++) {
		uint64_t sum = 0;

		for (unsigned int worker = 0; worker < BENCH_QUEUES; worker++)
			sum += __atomic_load_n(&counts[worker][port].packets[i], __ATOMIC_RELAXED);
		loads[i] = sum - seen[port][i];
		seen[port][i] = sum;
	}
	if (rebalance(loads, reta[port], ENTRIES, BENCH_QUEUES, THRESHOLD) > 0 &&
	    port_reta_write(bench_ports[port], reta[port], ENTRIES) != 0)
		fprintf(stderr, "wire-bench: the RETA is refused\n");
}

static void rebalance_when_due(void)
{
	const uint64_t now = rte_rdtsc();

	if (now < next_tsc)
		return;
	if (next_tsc != 0) {
		rebalance_port(0);
		rebalance_port(1);
	}
	next_tsc = now + rte_get_tsc_hz() / PERIODS_PER_S;
}

uint32_t bench_rebalanced_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint32_t done = 0;

	if (worker == 0 && ++steps % LOOK_STEPS == 0)
		rebalance_when_due();
	for (unsigned int from = 0; from < 2; from++) {
		const uint16_t count =
		        rte_eth_rx_burst(bench_ports[from], (uint16_t)worker, burst, BENCH_BURST);
		uint64_t *packets = counts[worker][from].packets;

		for (uint16_t i = 0; i < count; i++) {
			uint64_t *packet = &packets[burst[i]->hash.rss % ENTRIES];

			__atomic_store_n(packet, *packet + 1, __ATOMIC_RELAXED);
		}
		done += count == 0 ? 0 : bench_route_and_send(burst, count, !from, worker);
	}
	return done;
}
