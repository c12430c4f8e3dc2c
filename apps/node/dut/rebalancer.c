/* SPDX-License-Identifier: BSD-3-Clause */
#include "rebalancer.h"

#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "clock.h"
#include "cycles.h"
#include "ports/ports.h"
#include "ports/reta.h"
#include "rebalance.h"
#include "rss.h"

static struct {
	uint16_t port;
	uint16_t entries; /* of the RETA; 0: no rebalancing */
	uint16_t queues;
	uint16_t home[RSS_RETA_MAX];    /* the RETA when the DUT was set up */
	uint16_t present[RSS_RETA_MAX]; /* and now */
	uint64_t seen[RSS_RETA_MAX];    /* packets at the last look */
	uint64_t *counts[RTE_MAX_LCORE];
	unsigned int n; /* counts */
	uint64_t period_ns;
	double threshold;
	uint64_t next_tsc;
	const struct trial *trial;
	/* of the window, except the first */
	uint64_t moved_before; /* entries moved since the trial began */
	uint64_t rounds;       /* looks at the loads */
	uint64_t moved;
	uint64_t failed; /* the driver refused the new RETA */
	double excess;   /* rebalance_excess() of the rounds, sum */
} rebalancer;

static void return_home(void)
{
	if (rebalancer.entries == 0 ||
	    memcmp(rebalancer.home, rebalancer.present, sizeof(rebalancer.home)) == 0)
		return;
	if (port_reta_write(rebalancer.port, rebalancer.home, rebalancer.entries) == 0)
		memcpy(rebalancer.present, rebalancer.home, sizeof(rebalancer.home));
}

void dut_rebalancer_free(void)
{
	return_home();
	while (rebalancer.n > 0)
		rte_free(rebalancer.counts[--rebalancer.n]);
	rebalancer.entries = 0;
}

/* The RETA index of a hash is a mask, which needs a power of two. */
static int read_table(const struct dut_config *config, struct node_error *err)
{
	struct rte_eth_dev_info info;
	const int status = rte_eth_dev_info_get(config->rx_port, &info);

	if (status < 0)
		return node_fail(err, "dut.rx_port", "its properties cannot be read: %s",
		                 rte_strerror(-status));
	if (info.reta_size == 0 || info.reta_size > RSS_RETA_MAX ||
	    (info.reta_size & (info.reta_size - 1)) != 0)
		return node_fail(err, "dut.organisation",
		                 "rebalanced needs a port whose RETA has a power of two of entries up to "
		                 "%u; that of %s has %u",
		                 RSS_RETA_MAX, config->rx_name, info.reta_size);
	const int read = port_reta_read(config->rx_port, rebalancer.home, info.reta_size);

	if (read < 0)
		return node_fail(err, "dut.organisation", "rebalanced: the RETA cannot be read: %s",
		                 rte_strerror(-read));
	memcpy(rebalancer.present, rebalancer.home, sizeof(rebalancer.home));
	rebalancer.port = config->rx_port;
	rebalancer.entries = info.reta_size;
	return 0;
}

static int make_counts(struct poller *p, struct node_error *err)
{
	uint64_t *counts = rte_zmalloc_socket("entry_packets", rebalancer.entries * sizeof(*counts),
	                                      RTE_CACHE_LINE_SIZE, (int)rte_lcore_to_socket_id(p->lcore));

	if (counts == NULL)
		return node_fail(err, "dut", "out of memory");
	rebalancer.counts[rebalancer.n++] = counts;
	p->entry_packets = counts;
	p->entry_mask = rebalancer.entries - 1u;
	return 0;
}

int dut_rebalancer_make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                        struct node_error *err)
{
	dut_rebalancer_free();
	if (config->source != SOURCE_COUNTED)
		return 0;
	int status = read_table(config, err);

	for (unsigned int i = 0; i < n && status == 0; i++)
		status = make_counts(pollers[i], err);
	if (status != 0)
		dut_rebalancer_free();
	rebalancer.queues = ports_rx_queues(config->rx_port);
	rebalancer.period_ns = config->rebalance_period_ns;
	rebalancer.threshold = config->rebalance_threshold;
	return status;
}

/* Relaxed: each count has one writer, and an approximate value is enough. */
static uint64_t packets_of(unsigned int entry)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < rebalancer.n; i++)
		sum += __atomic_load_n(&rebalancer.counts[i][entry], __ATOMIC_RELAXED);
	return sum;
}

static uint64_t later(uint64_t tsc)
{
	return tsc + cycles_of_ns(rebalancer.period_ns, clock_tsc_hz());
}

void dut_rebalancer_begin(const struct trial *trial)
{
	return_home();
	for (unsigned int i = 0; i < rebalancer.n; i++)
		memset(rebalancer.counts[i], 0, rebalancer.entries * sizeof(*rebalancer.counts[i]));
	memset(rebalancer.seen, 0, sizeof(rebalancer.seen));
	rebalancer.trial = trial;
	rebalancer.moved_before = rebalancer.rounds = rebalancer.moved = rebalancer.failed = 0;
	rebalancer.excess = 0;
	rebalancer.next_tsc = later(cycles_stamp());
}

/* Get the packets of each entry since the last look. */
static void look(uint64_t *loads)
{
	for (unsigned int i = 0; i < rebalancer.entries; i++) {
		const uint64_t packets = packets_of(i);

		loads[i] = packets - rebalancer.seen[i];
		rebalancer.seen[i] = packets;
	}
}

static unsigned int move(const uint64_t *loads)
{
	static uint16_t wanted[RSS_RETA_MAX]; /* main lcore only */

	memcpy(wanted, rebalancer.present, sizeof(wanted));
	const unsigned int moved =
	        rebalance(loads, wanted, rebalancer.entries, rebalancer.queues, rebalancer.threshold);

	if (moved == 0)
		return 0;
	if (port_reta_write(rebalancer.port, wanted, rebalancer.entries) != 0) {
		rebalancer.failed++;
		return 0;
	}
	memcpy(rebalancer.present, wanted, sizeof(wanted));
	return moved;
}

void dut_rebalancer_step(void)
{
	static uint64_t loads[RSS_RETA_MAX];
	const uint64_t now = cycles_stamp();

	if (rebalancer.entries == 0 || now < rebalancer.next_tsc)
		return;
	rebalancer.next_tsc = later(now);
	look(loads);
	const double excess =
	        rebalance_excess(loads, rebalancer.present, rebalancer.entries, rebalancer.queues);
	const unsigned int moved = move(loads);

	if (now < rebalancer.trial->start_tsc) {
		rebalancer.moved_before += moved;
	} else if (now < rebalancer.trial->end_tsc) {
		rebalancer.rounds++;
		rebalancer.moved += moved;
		rebalancer.excess += excess;
	}
}

int dut_rebalancer_timeout_ms(void)
{
	const uint64_t now = cycles_stamp();

	if (rebalancer.entries == 0)
		return -1;
	return now >= rebalancer.next_tsc
	               ? 0
	               : (int)(cycles_to_ns(rebalancer.next_tsc - now, clock_tsc_hz()) / 1000000 + 1);
}

json_t *dut_rebalancer_json(void)
{
	if (rebalancer.entries == 0)
		return NULL;
	return json_pack("{s:I,s:f,s:i,s:I,s:I,s:I,s:I,s:o}", "period_ns", (json_int_t)rebalancer.period_ns,
	                 "threshold", rebalancer.threshold, "entries", rebalancer.entries, "rounds",
	                 (json_int_t)rebalancer.rounds, "moved", (json_int_t)rebalancer.moved, "moved_before",
	                 (json_int_t)rebalancer.moved_before, "failed", (json_int_t)rebalancer.failed,
	                 "excess_mean",
	                 rebalancer.rounds > 0 ? json_real(rebalancer.excess / (double)rebalancer.rounds)
	                                       : json_null());
}
