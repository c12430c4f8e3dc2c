/* SPDX-License-Identifier: BSD-3-Clause */
#include "selftest.h"

#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "lcore.h"
#include "loop.h"
#include "median.h"
#include "ports/ports.h"

#define DEVICE       "net_ring_selftest"
#define ROUNDS       21
#define ROUND_CYCLES 1500000 /* 0.6 ms at 2.6 GHz: shorter than most distances between host gaps */
#define RING_DESC    64
#define POOL_MBUFS   127
#define BURST        32
#define NEVER        UINT32_MAX

/* From nearly idle to a packet in every other poll. Stamps at transitions distort the middle most. */
static const uint32_t distances[] = {NEVER, 256, 64, 16, 8, 4, 2};

/* The one packet that the polling lcore sends to itself. */
struct ball {
	uint32_t every;
	uint32_t polls;          /* since it was sent */
	struct rte_mbuf *packet; /* NULL while it is in the ring */
};

static struct {
	uint16_t port;
	struct rte_mempool *pool;
	struct poller *poller;
	struct ball ball;
	double cycles[RTE_DIM(distances)][ACCOUNTING_MODES][ROUNDS];
} bench;

static __rte_always_inline uint16_t receive_own(struct poller *p, uint16_t queue, struct rte_mbuf **packets)
{
	struct ball *ball = &bench.ball;

	if (++ball->polls == ball->every) {
		ball->polls = 0;
		if (ball->packet && rte_eth_tx_burst(p->rx_port, 0, &ball->packet, 1) == 1)
			ball->packet = NULL;
	}
	return rte_eth_rx_burst(p->rx_port, queue, packets, p->burst);
}

static __rte_always_inline uint16_t process_hold(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	RTE_SET_USED(p);
	RTE_SET_USED(n);
	bench.ball.packet = packets[0];
	return 0;
}

LOOPS_OF_MODES(loops_own, SOURCE_RX_QUEUES, false, receive_own, process_hold, false, send_port)

static const poll_loop_fn loops[ACCOUNTING_MODES] = {BY_MODE(loops_own)};

static int setup_port(struct node_error *err)
{
	const struct rte_eth_conf conf = {0};
	int status = rte_eal_hotplug_add("vdev", DEVICE, "");

	if (status < 0)
		return node_fail(err, "", "the net_ring driver is needed: %s", rte_strerror(-status));
	if (rte_eth_dev_get_port_by_name(DEVICE, &bench.port) < 0)
		return node_fail(err, "", "%s did not become a port", DEVICE);
	status = rte_eth_dev_configure(bench.port, 1, 1, &conf);
	if (status == 0)
		status = rte_eth_rx_queue_setup(bench.port, 0, RING_DESC, (unsigned int)SOCKET_ID_ANY, NULL,
		                                bench.pool);
	if (status == 0)
		status = rte_eth_tx_queue_setup(bench.port, 0, RING_DESC, (unsigned int)SOCKET_ID_ANY, NULL);
	if (status == 0)
		status = rte_eth_dev_start(bench.port);
	if (status < 0)
		return node_fail(err, "", "%s: %s", DEVICE, rte_strerror(-status));
	return 0;
}

static int setup_poller(unsigned int lcore, struct node_error *err)
{
	struct poller *p = poller_new(lcore);

	bench.poller = p;
	if (!p)
		return node_fail(err, "", "out of memory");
	p->rx_port = bench.port;
	p->tx_port = NO_PORT;
	p->queues = p->queue_step = p->end_queue = 1;
	p->burst = BURST;
	p->sample_every = 4;
	p->packets_per_event = 512;
	rng_seed(&p->rng, 1);
	bench.ball.packet = rte_pktmbuf_alloc(bench.pool);
	return bench.ball.packet ? 0 : node_fail(err, "", "no mbuf");
}

static void teardown(void)
{
	struct rte_mbuf *left;

	rte_pktmbuf_free(bench.ball.packet);
	if (bench.port != NO_PORT) {
		while (rte_eth_rx_burst(bench.port, 0, &left, 1))
			rte_pktmbuf_free(left);
		rte_eth_dev_stop(bench.port);
		rte_eth_dev_close(bench.port);
		rte_eal_hotplug_remove("vdev", DEVICE);
	}
	poller_free(bench.poller);
	rte_mempool_free(bench.pool);
}

static double round_cycles(enum accounting mode, uint32_t every)
{
	struct poller *p = bench.poller;

	bench.ball.every = every;
	bench.ball.polls = 0;
	p->accounting = mode;
	const struct account *a = poll_window(p, loops[mode], ROUND_CYCLES);

	return (double)(a->last_tsc - a->first_tsc) / (double)RTE_MAX(a->sweeps, UINT64_C(1));
}

static int run_rounds(void *arg)
{
	RTE_SET_USED(arg);
	for (unsigned int d = 0; d < RTE_DIM(distances); d++)
		for (unsigned int i = 0; i < ROUNDS; i++)
			for (enum accounting mode = 0; mode < ACCOUNTING_MODES; mode++)
				bench.cycles[d][mode][i] = round_cycles(mode, distances[d]);
	return 0;
}

/* The last worker: on small machines the first one shares its CPU with the main lcore. */
static unsigned int choose_lcore(void)
{
	unsigned int lcore, last = rte_get_main_lcore();

	RTE_LCORE_FOREACH_WORKER (lcore)
		last = lcore;
	return last;
}

static void run(unsigned int lcore)
{
	if (lcore == rte_get_main_lcore()) {
		run_rounds(NULL);
		return;
	}
	rte_eal_remote_launch(run_rounds, NULL, lcore);
	lcore_wait_all();
}

static json_t *row_json(unsigned int d, enum accounting mode)
{
	double cycles[ROUNDS], added[ROUNDS];

	for (unsigned int i = 0; i < ROUNDS; i++) {
		cycles[i] = bench.cycles[d][mode][i];
		added[i] = cycles[i] - bench.cycles[d][ACCOUNTING_NONE][i];
	}
	const struct median per_poll = median_of(cycles, ROUNDS), more = median_of(added, ROUNDS);

	return json_pack("{s:o,s:s,s:f,s:f,s:f,s:f,s:I}", "every_k_polls",
	                 distances[d] == NEVER ? json_null() : json_integer(distances[d]), "mode",
	                 accounting_names[mode], "cycles_per_poll", per_poll.median, "added_cycles_per_poll",
	                 more.median, "low", more.low, "high", more.high, "n", (json_int_t)more.n);
}

static json_t *rows_json(void)
{
	json_t *rows = json_array();

	for (unsigned int d = 0; d < RTE_DIM(distances); d++)
		for (enum accounting mode = 0; mode < ACCOUNTING_MODES; mode++)
			json_array_append_new(rows, row_json(d, mode));
	return rows;
}

json_t *selftest(struct node_error *err)
{
	const unsigned int lcore = choose_lcore();
	json_t *rows = NULL;

	memset(&bench, 0, sizeof(bench));
	bench.port = NO_PORT;
	bench.pool = rte_pktmbuf_pool_create("selftest", POOL_MBUFS, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
	                                     SOCKET_ID_ANY);
	if (!bench.pool) {
		node_fail(err, "", "memory for %d mbufs: %s", POOL_MBUFS, rte_strerror(rte_errno));
		return NULL;
	}
	if (setup_port(err) == 0 && setup_poller(lcore, err) == 0) {
		run(lcore);
		rows = rows_json();
	}
	teardown();
	return rows;
}

static void print_row(int fd, json_t *row)
{
	json_int_t every = 0, n;
	const char *mode;
	double cycles, added, low, high;
	char distance[24] = "never";

	json_unpack(row, "{s:s,s:f,s:f,s:f,s:f,s:I}", "mode", &mode, "cycles_per_poll", &cycles,
	            "added_cycles_per_poll", &added, "low", &low, "high", &high, "n", &n);
	if (json_unpack(row, "{s:I}", "every_k_polls", &every) == 0)
		snprintf(distance, sizeof(distance), "%" JSON_INTEGER_FORMAT, every);
	dprintf(fd, "%10s  %-10s  %10.1f  %+10.2f  %+10.2f  %+10.2f\n", distance, mode, cycles, added, low,
	        high);
}

int selftest_print(int fd)
{
	struct node_error err;
	json_t *rows = selftest(&err), *row;
	size_t i;

	if (!rows) {
		fprintf(stderr, "pollscope-node: self-test: %s\n", err.text);
		return 1;
	}
	dprintf(fd, "%10s  %-10s  %10s  %10s  %10s  %10s\n", "a packet", "accounting", "cycles", "added",
	        "95 %", "95 %");
	dprintf(fd, "%10s  %-10s  %10s  %10s  %10s  %10s\n", "every", "", "per poll", "median", "low",
	        "high");
	json_array_foreach(rows, i, row) print_row(fd, row);
	json_decref(rows);
	return 0;
}
