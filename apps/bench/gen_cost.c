/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen-cost: cost per packet of the generator's own loop, without a NIC: the driver takes every burst and frees the buffers. TSC
 * cycles of saturated sending, and of sending to a schedule that always has a full burst due.
 *
 *	gen-cost		prints a line for each: NAME CYCLES
 *	gen-cost NAME TRIALS	one of them, TRIALS times, for a program that counts instructions; prints PACKETS
 *
 * Prints the 10th percentile of many short trials, which excludes disturbance by the host. Exit codes: 0 done, 1 no memory, 2
 * bad usage.
 */
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "gen/engine.h"

#define PORT       0
#define BURST      32
#define FLOWS      1024
#define ENTRIES    32768
#define MBUFS      4095
#define TRIALS     2000
#define TRIAL_US   50
#define PACED_PPS  5e8 /* more than any core sends, so a full burst is always due */
#define HIGHEST_NS 10000000000ull
#define LATE_MAX_S 1e3 /* nothing is given up, however slow this runs */

struct kind {
	const char *name;
	bool saturates;
	bool poisson;
};

static const struct kind kinds[] = {
        {"saturated", true, false}, {"constant", false, false}, {"poisson", false, true}};

static struct gen_engine *engine;
static struct trial trial = {.wake_fd = -1};
static double tsc_hz;

/* Replaces another part of the engine: no shape here has cold queues. */
bool gen_queue_polls_look(struct gen_queue_polls *busy_polls, uint64_t now)
{
	(void)busy_polls;
	(void)now;
	return false;
}

/* Replaces the frames that NICs stamp: there are none. */
void gen_stamps_send(struct gen_stamps *stamps, uint64_t now)
{
	(void)stamps;
	(void)now;
}

bool gen_stamps_take(struct gen_stamps *stamps, const struct rte_mbuf *mbuf, uint64_t arrival)
{
	(void)stamps;
	(void)mbuf;
	(void)arrival;
	return false;
}

double gen_queue_polls_count(const struct gen_queue_polls *busy_polls, uint64_t now)
{
	(void)busy_polls;
	(void)now;
	return 0;
}

/* Replaces the function of trial.c: no main lcore ends the trial. */
void trial_wake(const struct trial *over)
{
	(void)over;
	trial.phase = TRIAL_OVER;
}

static uint16_t take_all(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
	rte_mempool_put_bulk(queue, (void **)mbufs, n);
	return n;
}

static void make_port(struct rte_mempool *pool)
{
	static void *queues[1];

	queues[0] = pool;
	rte_eth_fp_ops[PORT].tx_pkt_burst = take_all;
	rte_eth_fp_ops[PORT].txq.data = queues;
}

static void make_list(struct gen_list *list)
{
	list->entries = calloc(ENTRIES + GEN_BURST_MAX, sizeof(*list->entries));
	list->count = ENTRIES;
	for (unsigned int i = 0; i < ENTRIES + GEN_BURST_MAX; i++)
		list->entries[i].flow = (uint16_t)(i % ENTRIES * 7919 % FLOWS);
}

static void make_engine(void)
{
	static struct packet_flow flows[FLOWS];
	const struct rte_ether_addr mac = {{2, 0, 0, 0, 0, 1}};
	struct histogram *h[4];

	engine = rte_zmalloc("gen", sizeof(*engine), RTE_CACHE_LINE_SIZE);
	engine->pool = rte_pktmbuf_pool_create("gen", MBUFS, RTE_MEMPOOL_CACHE_MAX_SIZE, 0,
	                                       2048 + RTE_PKTMBUF_HEADROOM, 0);
	if (engine == NULL || engine->pool == NULL)
		rte_exit(EXIT_FAILURE, "gen-cost: no memory\n");
	make_port(engine->pool);
	for (unsigned int i = 0; i < FLOWS; i++)
		packet_flow_init(&flows[i], (uint16_t)i, 0xac100000u | i, 0x0a000000u | i << 8,
		                 (uint16_t)(i * 13));
	engine->traffic.flows = flows;
	make_list(&engine->traffic.lists[GEN_MIXED]);
	engine->templates = aligned_alloc(_Alignof(struct packet_template), sizeof(*engine->templates));
	packet_template_init(engine->templates, 64, &mac, &mac, 1);
	h[0] = &engine->lateness_ns, h[1] = &engine->interdeparture_ns;
	h[2] = &engine->latency_intended_ns, h[3] = &engine->latency_sent_ns;
	for (unsigned int i = 0; i < 4; i++)
		if (histogram_init(h[i], 1, HIGHEST_NS, 3) != 0)
			rte_exit(EXIT_FAILURE, "gen-cost: no memory\n");
	engine->tx_port = PORT;
	engine->rx_port = UINT16_MAX;
	engine->stamps.next_tsc = UINT64_MAX;
	engine->flows = FLOWS;
	engine->burst = BURST;
	engine->trial = &trial;
	engine->cycles_us = (uint64_t)(tsc_hz / 1e6);
	engine->ns_per_cycle_q32 = (uint64_t)llround(ldexp(1e9 / tsc_hz, 32));
}

/* Return the TSC cycles per packet of one short trial. */
static double run(const struct kind *kind, uint64_t *packets)
{
	const double interval = tsc_hz / PACED_PPS;
	const uint64_t late_max = (uint64_t)(LATE_MAX_S * tsc_hz);
	const uint64_t now = rte_rdtsc();

	trial.begin_tsc = now;
	trial.start_tsc = now;
	trial.end_tsc = now + TRIAL_US * (uint64_t)(tsc_hz / 1e6);
	engine->saturate = kind->saturates;
	engine->sequence = engine->last_departure_tsc = 0;
	engine->held = engine->waiting = 0;
	engine->in_window = false;
	memset(engine->place, 0, sizeof(engine->place));
	memset(&engine->counts, 0, sizeof(engine->counts));
	if (kind->poisson)
		pacer_poisson(&engine->pacer, now, interval, late_max, 1);
	else
		pacer_constant(&engine->pacer, now, interval, late_max);
	trial.phase = TRIAL_RUN;
	gen_engine_run(engine);
	*packets += engine->counts.sent;
	return (double)(engine->closed_tsc - engine->opened_tsc) / (double)engine->counts.sent;
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double tenth_percentile(const struct kind *kind)
{
	static double cycles[TRIALS];
	uint64_t packets = 0;

	for (unsigned int i = 0; i < TRIALS; i++)
		cycles[i] = run(kind, &packets);
	qsort(cycles, TRIALS, sizeof(cycles[0]), ascending);
	return cycles[TRIALS / 10];
}

static const struct kind *kind_of(const char *name)
{
	for (unsigned int k = 0; k < RTE_DIM(kinds); k++)
		if (strcmp(name, kinds[k].name) == 0)
			return &kinds[k];
	return NULL;
}

/* Start EAL on the present CPU. */
static void start_eal(char *program)
{
	char lcores[32];
	char *arguments[] = {program, "--lcores",    lcores,           "--no-pci",    "--no-huge", "-m",
	                     "64",    "--no-shconf", "--no-telemetry", "--log-level", "error"};

	snprintf(lcores, sizeof(lcores), "0@%d", sched_getcpu());
	if (rte_eal_init(RTE_DIM(arguments), arguments) < 0)
		rte_exit(EXIT_FAILURE, "gen-cost: EAL does not start\n");
	tsc_hz = (double)rte_get_tsc_hz();
}

int main(int argc, char **argv)
{
	const struct kind *kind = argc == 3 ? kind_of(argv[1]) : NULL;
	const unsigned long trials = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	uint64_t packets = 0;

	if (argc != 1 && (kind == NULL || trials == 0 || trials > TRIALS)) {
		fprintf(stderr, "usage: gen-cost [saturated|constant|poisson TRIALS] (TRIALS: 1 to %d)\n",
		        TRIALS);
		return 2;
	}
	start_eal(argv[0]);
	make_engine();
	if (kind == NULL) {
		for (unsigned int k = 0; k < RTE_DIM(kinds); k++)
			printf("%s %.2f\n", kinds[k].name, tenth_percentile(&kinds[k]));
		return EXIT_SUCCESS;
	}
	for (unsigned long i = 0; i < trials; i++)
		run(kind, &packets);
	printf("%" PRIu64 "\n", packets);
	return EXIT_SUCCESS;
}
