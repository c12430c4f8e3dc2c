/* SPDX-License-Identifier: BSD-3-Clause */
#include "dut.h"

#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "fields.h"
#include "net_crossover.h"
#include "poll_event.h"
#include "ports.h"
#include "routes.h"
#include "workload.h"

#define EXTRA_CYCLES_MAX 100000000
#define SAMPLE_EVERY_MAX 1000000
#define CYCLES_PER_EVENT_LOADED                                                                              \
	32768 /* a busy loop looks at the TSC after packets worth about so many cycles */
#define CYCLES_PER_PACKET_GUESS 64
#define UNINSTRUMENTED_FACTOR   4 /* mode none looks only for the end of its window */

static const char *const organisations[] = {"scale-out", NULL};
static const char *const notifications[] = {"spin", NULL};

struct dut_spec {
	unsigned int lcores[RTE_MAX_LCORE];
	unsigned int n;
	uint16_t rx_port;
	uint16_t tx_port;
	unsigned int organisation;
	unsigned int notification;
	unsigned int workload;
	unsigned int accounting;
	uint64_t routes;
	uint64_t extra_cycles;
	uint64_t burst;
	uint64_t sample_every;
	uint64_t longest;
};

static struct {
	struct dut_spec spec;
	struct poller *pollers[RTE_MAX_LCORE];
	unsigned int n;
} dut;

static int parse_lcores(json_t *list, struct dut_spec *spec, struct node_error *err)
{
	json_t *item;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > RTE_MAX_LCORE)
		return node_fail(err, "dut.lcores", "must be an array of at least one lcore");
	json_array_foreach(list, i, item)
	{
		const json_int_t lcore = json_is_integer(item) ? json_integer_value(item) : -1;

		if (lcore < 0 || lcore >= RTE_MAX_LCORE || !rte_lcore_is_enabled((unsigned int)lcore))
			return node_fail(err, "dut.lcores", "item %zu is not an lcore of this process", i);
		if ((unsigned int)lcore == rte_get_main_lcore())
			return node_fail(err, "dut.lcores", "lcore %u is the main lcore and does not poll",
			                 (unsigned int)lcore);
		for (unsigned int k = 0; k < spec->n; k++)
			if (spec->lcores[k] == (unsigned int)lcore)
				return node_fail(err, "dut.lcores", "lcore %u is listed twice",
				                 (unsigned int)lcore);
		spec->lcores[spec->n++] = (unsigned int)lcore;
	}
	return 0;
}

static int parse_port(json_t *object, const char *key, const char *where, uint16_t *port,
                      struct node_error *err)
{
	const char *name = NULL;

	if (fields_string(object, "dut", key, RTE_ETH_NAME_MAX_LEN - 1, &name, err))
		return -1;
	return ports_find(name, where, port, err);
}

static int parse_ports(json_t *object, struct dut_spec *spec, struct node_error *err)
{
	json_t *tx_port = json_object_get(object, "tx_port");

	if (fields_require(object, "dut", "rx_port", err) ||
	    parse_port(object, "rx_port", "dut.rx_port", &spec->rx_port, err))
		return -1;
	spec->tx_port = POLLER_NO_PORT;
	if (tx_port && !json_is_null(tx_port) &&
	    parse_port(object, "tx_port", "dut.tx_port", &spec->tx_port, err))
		return -1;
	if (workloads[spec->workload]->sends && spec->tx_port == POLLER_NO_PORT)
		return node_fail(err, "dut.tx_port", "is required: workload %s sends",
		                 workload_names[spec->workload]);
	return 0;
}

static int parse_numbers(json_t *object, struct dut_spec *spec, struct node_error *err)
{
	return fields_u64(object, "dut", "routes", 1, ROUTES_MAX, &spec->routes, err) ||
	       fields_u64(object, "dut", "extra_cycles", 0, EXTRA_CYCLES_MAX, &spec->extra_cycles, err) ||
	       fields_u64(object, "dut", "burst", 1, ACCOUNT_BURST_MAX, &spec->burst, err) ||
	       fields_u64(object, "dut", "sample_every", 1, SAMPLE_EVERY_MAX, &spec->sample_every, err) ||
	       fields_u64(object, "dut", "longest", 0, LONGEST_MAX, &spec->longest, err);
}

static int parse_composition(json_t *object, struct dut_spec *spec, struct node_error *err)
{
	return fields_choice(object, "dut", "organisation", organisations, &spec->organisation, err) ||
	       fields_choice(object, "dut", "notification", notifications, &spec->notification, err) ||
	       fields_choice(object, "dut", "workload", workload_names, &spec->workload, err) ||
	       fields_choice(object, "dut", "accounting", accounting_names, &spec->accounting, err);
}

static int parse(json_t *object, struct dut_spec *spec, struct node_error *err)
{
	static const char *const keys[] = {
	        "lcores",       "rx_port", "tx_port",    "organisation", "notification", "workload", "routes",
	        "extra_cycles", "burst",   "accounting", "sample_every", "longest",      NULL};

	*spec = (struct dut_spec){
	        .accounting = ACCOUNTING_SAMPLED,
	        .workload = 2, /* l3fwd-lpm, the application of SoCC'19 */
	        .routes = ROUTES_DEFAULT,
	        .burst = 32,
	        .sample_every = 64,
	        .longest = 16,
	};
	if (fields_only(object, "dut", keys, err) || fields_require(object, "dut", "lcores", err) ||
	    parse_lcores(json_object_get(object, "lcores"), spec, err) ||
	    parse_composition(object, spec, err) || parse_ports(object, spec, err) ||
	    parse_numbers(object, spec, err))
		return -1;
	return 0;
}

static int check_queues(const struct dut_spec *spec, struct node_error *err)
{
	if (ports_rx_queues(spec->rx_port) < spec->n)
		return node_fail(err, "dut.lcores", "%u lcores need as many RX queues; the port has %u",
		                 spec->n, ports_rx_queues(spec->rx_port));
	if (spec->tx_port != POLLER_NO_PORT && ports_tx_queues(spec->tx_port) < spec->n)
		return node_fail(err, "dut.lcores", "%u lcores need as many TX queues; the port has %u",
		                 spec->n, ports_tx_queues(spec->tx_port));
	return 0;
}

static void drop_pollers(void)
{
	for (unsigned int i = 0; i < dut.n; i++) {
		pmu_close(&dut.pollers[i]->pmu);
		poller_free(dut.pollers[i]);
	}
	dut.n = 0;
}

static int make_pollers(const struct dut_spec *spec, struct node_error *err)
{
	bool same = dut.n == spec->n;

	for (unsigned int i = 0; i < dut.n && same; i++)
		same = dut.pollers[i]->lcore == spec->lcores[i];
	if (same)
		return 0;
	drop_pollers();
	for (unsigned int i = 0; i < spec->n; i++) {
		dut.pollers[i] = poller_new(spec->lcores[i]);
		if (!dut.pollers[i])
			return node_fail(err, "dut", "out of memory");
		dut.n++;
	}
	return 0;
}

static int32_t packets_per_event(const struct dut_spec *spec)
{
	const uint64_t packets = CYCLES_PER_EVENT_LOADED / (CYCLES_PER_PACKET_GUESS + spec->extra_cycles);

	return (int32_t)(RTE_MAX(packets, UINT64_C(1)) *
	                 (spec->accounting == ACCOUNTING_NONE ? UNINSTRUMENTED_FACTOR : 1));
}

static void find_refill_counters(struct poller *p)
{
	uint16_t found = 0;

	for (uint32_t q = p->first_queue; q < p->end_queue; q += p->queue_step)
		found += net_crossover_refill_failures(p->rx_port, (uint16_t)q, &p->refill_counters[found]) ==
		         0;
	p->refill_counted = found == p->queues;
}

/* Queues are dealt out in turn: lcore i of n polls the queues i, i + n, i + 2n ... */
static void assign(struct poller *p, unsigned int i, const struct dut_spec *spec)
{
	const uint16_t queues = ports_rx_queues(spec->rx_port);

	p->rx_port = spec->rx_port;
	p->tx_port = spec->tx_port;
	p->tx_queue = (uint16_t)i;
	p->first_queue = (uint16_t)i;
	p->queue_step = (uint16_t)spec->n;
	p->queues = (uint16_t)((queues - i + spec->n - 1) / spec->n);
	p->end_queue = (uint16_t)(i + (uint32_t)p->queues * spec->n);
	p->burst = (uint16_t)spec->burst;
	p->extra_cycles = spec->extra_cycles;
	p->accounting = (enum accounting)spec->accounting;
	p->sample_every = (uint32_t)spec->sample_every;
	p->longest = (uint32_t)spec->longest;
	p->packets_per_event = packets_per_event(spec);
	rng_seed(&p->rng, i);
	find_refill_counters(p);
}

int dut_configure(json_t *object, struct node_error *err)
{
	struct workload_spec needs = {0};
	struct dut_spec spec;

	if (!object) {
		drop_pollers();
		return 0;
	}
	if (parse(object, &spec, err) || check_queues(&spec, err) || make_pollers(&spec, err)) {
		drop_pollers();
		return -1;
	}
	const struct workload *workload = workloads[spec.workload];

	needs.routes = (uint32_t)spec.routes;
	needs.tx_port = spec.tx_port;
	needs.socket = (int)rte_lcore_to_socket_id(spec.lcores[0]);
	for (unsigned int i = 0; i < spec.n; i++) {
		assign(dut.pollers[i], i, &spec);
		if (workload->prepare && workload->prepare(&needs, dut.pollers[i], err) < 0) {
			drop_pollers();
			return -1;
		}
	}
	dut.spec = spec;
	return 0;
}

unsigned int dut_pollers(struct poller ***pollers)
{
	*pollers = dut.pollers;
	return dut.n;
}

static bool poller_frames_waiting(const struct poller *p)
{
	for (uint32_t q = p->first_queue; q < p->end_queue; q += p->queue_step)
		if (rte_eth_rx_queue_count(p->rx_port, (uint16_t)q) > 0)
			return true;
	return false;
}

bool dut_frames_waiting(void)
{
	for (unsigned int i = 0; i < dut.n; i++)
		if (poller_frames_waiting(dut.pollers[i]))
			return true;
	return false;
}

bool dut_has_lcore(unsigned int lcore)
{
	for (unsigned int i = 0; i < dut.n; i++)
		if (dut.pollers[i]->lcore == lcore)
			return true;
	return false;
}

const poll_loop_fn *dut_loops(void)
{
	return workloads[dut.spec.workload]->loops;
}

void dut_start(const struct trial *trial)
{
	for (unsigned int i = 0; i < dut.n; i++)
		poll_reset(dut.pollers[i], trial);
}

/* Counters belong to a thread: the lcore opens its own, once. */
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
	dut_loops()[p->accounting](p);
	return 0;
}

void dut_close(void)
{
	drop_pollers();
}
