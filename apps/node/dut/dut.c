/* SPDX-License-Identifier: BSD-3-Clause */
#include "dut.h"

#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "config.h"
#include "dispatcher.h"
#include "notify.h"
#include "rebalancer.h"
#include "rings.h"
#include "net_crossover.h"
#include "loop/event.h"
#include "ports/ports.h"
#include "workload/encryptor.h"
#include "workload/sender.h"
#include "workload/task.h"
#include "workload/workload.h"

#define CYCLES_PER_EVENT_LOADED                                                                              \
	65536 /* a busy loop reads the TSC after packets worth about this many cycles */
#define CYCLES_PER_PACKET_GUESS 64
#define CYCLES_PER_LOOKUP_GUESS 16
#define UNINSTRUMENTED_FACTOR   4 /* mode none reads the TSC only to find the end of its window */

static struct {
	struct dut_config config;
	struct poller *pollers[RTE_MAX_LCORE]; /* the workers, then the dispatchers */
	unsigned int n;
	struct queue_lock *locks; /* by RX queue; NULL: not shared */
} dut;

static void drop_pollers(void)
{
	for (unsigned int i = 0; i < dut.n; i++) {
		pmu_close(&dut.pollers[i]->pmu);
		encryptor_free(dut.pollers[i]->encryptor);
		sender_free(dut.pollers[i]->sender);
		task_free(dut.pollers[i]->task);
		poller_free(dut.pollers[i]);
	}
	dut.n = 0;
}

void dut_close(void)
{
	dut_notify_free();
	dut_rebalancer_free();
	drop_pollers();
	dut_rings_free();
	rte_free(dut.locks);
	dut.locks = NULL;
}

static unsigned int lcore_of(const struct dut_config *config, unsigned int i)
{
	return i < config->workers.n ? config->workers.lcores[i]
	                             : config->dispatchers.lcores[i - config->workers.n];
}

static int make_pollers(const struct dut_config *config, struct node_error *err)
{
	const unsigned int n = config->workers.n + config->dispatchers.n;
	bool same = dut.n == n;

	for (unsigned int i = 0; i < dut.n && same; i++)
		same = dut.pollers[i]->lcore == lcore_of(config, i);
	if (same)
		return 0;
	drop_pollers();
	for (unsigned int i = 0; i < n; i++) {
		dut.pollers[i] = poller_new(lcore_of(config, i));
		if (!dut.pollers[i])
			return node_fail(err, "dut", "out of memory");
		dut.n++;
	}
	return 0;
}

static int make_locks(const struct dut_config *config, struct node_error *err)
{
	rte_free(dut.locks);
	dut.locks = NULL;
	if (config->organisation != LOCKED && config->organisation != TRYLOCK)
		return 0;
	dut.locks = rte_zmalloc_socket("locks", ports_rx_queues(config->rx_port) * sizeof(*dut.locks),
	                               RTE_CACHE_LINE_SIZE, rte_eth_dev_socket_id(config->rx_port));
	return dut.locks ? 0 : node_fail(err, "dut", "out of memory");
}

static int32_t packets_per_event(const struct dut_config *config)
{
	const double guess =
	        CYCLES_PER_PACKET_GUESS + CYCLES_PER_LOOKUP_GUESS * (double)(config->work.lookups - 1);
	const double packets = CYCLES_PER_EVENT_LOADED / (guess + delays_mean(&config->delays));

	return (int32_t)(RTE_MAX(packets, 1.0) *
	                 (config->accounting == ACCOUNTING_NONE ? UNINSTRUMENTED_FACTOR : 1));
}

static bool reads_rx_queues(const struct poller *p)
{
	return source_reads_rx_queues(p->source);
}

/* Find the driver's counters of lost reservations, by lcore and queue. */
static int find_race_counters(struct poller *p, struct node_error *err)
{
	for (uint16_t q = 0; p->source == SOURCE_COREC && q < p->queues; q++)
		if (net_crossover_race_lost(p->rx_port, q, p->lcore, &p->race_counters[q]))
			return node_fail(err, "dut.organisation", "queue %u is not in mode corec", q);
	return 0;
}

/* Counters of a shared queue do not say whose refill failed. */
static void find_refill_counters(struct poller *p)
{
	uint16_t found = 0;

	const bool alone = source_owns_rx_queues(p->source) && !poller_shares_queues(p);

	for (uint32_t q = p->first_queue; alone && q < p->end_queue; q += p->queue_step)
		found += net_crossover_refill_failures(p->rx_port, (uint16_t)q, &p->refill_counters[found]) ==
		         0;
	p->refill_counted = found == p->queues;
}

/* Lcore i of n polls the queues i, i + n, i + 2n ... below `queues`. */
static void deal_queues(struct poller *p, unsigned int i, unsigned int n, uint16_t queues)
{
	p->first_queue = (uint16_t)i;
	p->queue_step = (uint16_t)n;
	p->queues = (uint16_t)((queues - i + n - 1) / n);
	p->end_queue = (uint16_t)(i + (uint32_t)p->queues * n);
}

/* Assign what all lcores have in common. */
static void assign(struct poller *p, unsigned int i, const struct dut_config *config)
{
	p->rx_port = config->rx_port;
	p->tx_port = config->tx_port;
	p->burst = config->burst;
	p->accounting = config->accounting;
	p->sample_every = config->sample_every;
	p->longest = config->longest;
	p->packets_per_event = packets_per_event(config);
	p->delays.config = NULL;
	p->ring = dut_ring(i);
	p->locks = dut.locks;
	rng_seed(&p->rng, i);
}

static void assign_worker(struct poller *p, unsigned int i, const struct dut_config *config)
{
	assign(p, i, config);
	p->role = POLLER_WORKER;
	p->source = config->source;
	p->tx_queue = (uint16_t)i;
	p->delays.config = dut_config_delays(config) ? &config->delays : NULL;
	p->loop = dut_config_loop(config);
	p->process = dut_config_process(config);
	p->resizes = workloads[config->workload]->resizes;
	encryptor_free(p->encryptor);
	p->encryptor = NULL;
	sender_free(p->sender);
	p->sender = NULL;
	task_free(p->task);
	p->task = NULL;
	switch (p->source) {
	case SOURCE_NOTIFIED:
		p->alone = config->sharing == SHARING_OWN;
		deal_queues(p, dut_config_group(config, i), dut_config_groups(config),
		            ports_rx_queues(config->rx_port));
		break;
	case SOURCE_RX_QUEUES:
	case SOURCE_WAITING:
	case SOURCE_COUNTED:
		deal_queues(p, i, config->workers.n, ports_rx_queues(config->rx_port));
		break;
	case SOURCE_LOCKED:
	case SOURCE_TRYLOCK:
	case SOURCE_COREC:
		deal_queues(p, 0, 1, ports_rx_queues(config->rx_port));
		p->sweep_begin = (uint16_t)(i * p->queues / config->workers.n);
		break;
	default:
		deal_queues(p, 0, 1, 1);
	}
	find_refill_counters(p);
}

static void assign_dispatcher(struct poller *p, unsigned int i, const struct dut_config *config)
{
	assign(p, i, config);
	p->role = POLLER_DISPATCHER;
	p->source = SOURCE_RX_QUEUES;
	p->loop = dispatcher_loop;
	deal_queues(p, i, config->dispatchers.n, ports_rx_queues(config->rx_port));
	find_refill_counters(p);
}

static int prepare_workload(const struct dut_config *config, struct poller *p, struct node_error *err)
{
	const struct workload *workload = workloads[config->workload];
	const bool shares = config->tx_pool == TX_POOL_SHARED && p != dut.pollers[0];
	struct workload_spec spec = config->work;

	spec.shared_by = config->tx_pool == TX_POOL_SHARED ? config->workers.n : 1;
	spec.pools_of = shares ? dut.pollers[0]->sender : NULL;
	spec.rx_port = config->rx_port;
	spec.tx_port = config->tx_port;
	spec.socket = (int)rte_lcore_to_socket_id(config->workers.lcores[0]);
	return workload->prepare ? workload->prepare(&spec, p, err) : 0;
}

static int set_up(const struct dut_config *config, struct node_error *err)
{
	if (make_pollers(config, err) || dut_rings_make(config, err) || make_locks(config, err))
		return -1;
	for (unsigned int i = 0; i < config->workers.n; i++) {
		assign_worker(dut.pollers[i], i, config);
		if (find_race_counters(dut.pollers[i], err) || prepare_workload(config, dut.pollers[i], err))
			return -1;
	}
	for (unsigned int i = 0; i < config->dispatchers.n; i++)
		assign_dispatcher(dut.pollers[config->workers.n + i], i, config);
	return dut_rebalancer_make(config, dut.pollers, config->workers.n, err) ||
	                       dut_notify_make(config, dut.pollers, config->workers.n, err)
	               ? -1
	               : 0;
}

int dut_apply(const struct dut_config *config, struct node_error *err)
{
	if (config) {
		dut.config = *config;
		if (set_up(&dut.config, err) == 0)
			return 0;
	}
	dut_close();
	return config ? -1 : 0;
}

unsigned int dut_pollers(struct poller ***pollers)
{
	*pollers = dut.pollers;
	return dut.n;
}

int dut_rx_port(uint16_t *port)
{
	if (dut.n == 0 || dut.config.rx_port == NO_PORT)
		return -1;
	*port = dut.config.rx_port;
	return 0;
}

struct poller *dut_rx_poller(void)
{
	for (unsigned int i = 0; i < dut.n; i++)
		if (reads_rx_queues(dut.pollers[i]))
			return dut.pollers[i];
	return NULL;
}

static bool poller_frames_waiting(const struct poller *p)
{
	if (!reads_rx_queues(p))
		return false;
	for (uint32_t q = p->first_queue; q < p->end_queue; q += p->queue_step)
		if (rte_eth_rx_queue_count(p->rx_port, (uint16_t)q) > 0)
			return true;
	return false;
}

/*
 * Return whether a burst was received and not yet passed on, because it waits for its delays. Counters of a running lcore are a
 * snapshot.
 */
static bool poller_holds_packets(const struct poller *p)
{
	uint64_t held = 0;

	for (int s = 0; s < STAGES; s++) {
		const struct account *a = &p->accounts[s];

		held += a->rx_packets - a->tx_packets - a->tx_dropped - a->workload_dropped -
		        a->handed_packets - a->ring_full;
	}
	return p->source != SOURCE_MADE && held != 0;
}

bool dut_frames_waiting(void)
{
	for (unsigned int i = 0; i < dut.n; i++)
		if (poller_frames_waiting(dut.pollers[i]) || poller_holds_packets(dut.pollers[i]))
			return true;
	return dut_rings_waiting();
}

void dut_start(const struct trial *trial)
{
	for (unsigned int i = 0; i < dut.n; i++)
		poll_reset(dut.pollers[i], trial);
	dut_notify_begin(dut.pollers, dut.n);
	dut_rebalancer_begin(trial);
}

void dut_step(void)
{
	dut_rebalancer_step();
}

int dut_timeout_ms(void)
{
	return dut_rebalancer_timeout_ms();
}

/* Hardware counters belong to a thread, so the lcore opens its own, once. */
static void open_counters(struct poller *p)
{
	struct pmu_event events[PMU_COUNTERS];

	if (p->pmu_opened)
		return;
	pmu_events_of_host(events);
	pmu_open(&p->pmu, events);
	p->pmu_opened = true;
}

int dut_lcore_main(void *arg)
{
	struct poller *p = arg;

	open_counters(p);
	p->loop(p);
	return 0;
}
