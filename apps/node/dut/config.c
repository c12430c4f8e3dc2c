/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <rte_ethdev.h>

#include "delay_config.h"
#include "fields.h"
#include "lcore.h"
#include "loop/quiet.h"
#include "packets.h"
#include "ports/ports.h"
#include "routes.h"
#include "workload/coder.h"
#include "workload/queue_data.h"
#include "workload/routing.h"
#include "workload/workload.h"

#define SAMPLE_EVERY_MAX      1000000
#define RING_SLOTS_DEFAULT    1024
#define WAIT_AFTER_DEFAULT_NS 50000 /* about the time of a sleep and a wake-up */
#define WAIT_AFTER_MAX_NS     1000000000
/* The defaults of RSS++ for DPDK (github.com/rsspp/fastclick: TIMER 100, IMBALANCE_THRESHOLD 0.02). */
#define REBALANCE_PERIOD_DEFAULT_NS 100000000
#define REBALANCE_THRESHOLD_DEFAULT 0.02
#define REBALANCE_PERIOD_MIN_NS     1000000
#define REBALANCE_PERIOD_MAX_NS     10000000000
#define FLOWS_DEFAULT               1024
#define LOOKUPS_MAX                 1024
#define SESSIONS_DEFAULT            65536
#define SESSIONS_MIN                8 /* rte_hash */
#define SESSIONS_MAX                (1u << 24)

const char *const handoff_sync_names[] = {"default", "rts", "hts", "single", NULL};

static const char *const organisations[] = {"scale-out", "scale-up",   "locked", "trylock",
                                            "corec",     "rebalanced", NULL}; /* as in enum organisation */
static const char *const ring_syncs[] = {"default", "rts", "hts", NULL};      /* as in enum handoff_sync */
static const char *const notifications[] = {
        "spin",          "qwait",      "interrupt", "adaptive", "monitor",
        "monitor-multi", "sleep-ramp", "pause",     NULL}; /* as in enum notification */
static const char *const service_orders[] = {"round-robin", "weighted", "strict",
                                             NULL};                       /* by enum qwait_policy */
static const char *const ready_sets[] = {"hierarchical", "linear", NULL}; /* as in enum qwait_ready_set */
static const char *const sharings[] = {"own", "shared", "numa", "stealing", NULL}; /* ready_set_sharing */
static const char *const idles[] = {"pause", "sleep", "umwait", NULL};             /* as in enum qwait_idle */
static const char *const encapsulations[] = {"gre-ipv6", "ipip", NULL};
static const char *const transforms[] = {"aes-cbc-sha1", "aes-gcm", NULL}; /* as in enum esp_transform */
static const char *const tx_pools[] = {"per-core", "shared", NULL};
static const char *const checksums[] = {"none", "udp", NULL}; /* as in enum checksum */

static bool is_listed(const struct lcore_list *list, unsigned int lcore)
{
	for (unsigned int i = 0; i < list->n; i++)
		if (list->lcores[i] == lcore)
			return true;
	return false;
}

bool dut_config_has_lcore(const struct dut_config *config, unsigned int lcore)
{
	return is_listed(&config->workers, lcore) || is_listed(&config->dispatchers, lcore);
}

static int read_lcore(const json_t *item, size_t i, const char *at, const struct dut_config *config,
                      struct lcore_list *list, struct node_error *err)
{
	unsigned int lcore;

	if (lcore_worker(item, &lcore))
		return node_fail(err, at, "item %zu is not a worker lcore of this process", i);
	if (dut_config_has_lcore(config, lcore))
		return node_fail(err, at, "lcore %u is listed twice", lcore);
	list->lcores[list->n++] = lcore;
	return 0;
}

static int read_lcores(const json_t *list, size_t min, const char *at, const struct dut_config *config,
                       struct lcore_list *lcores, struct node_error *err)
{
	if (!json_is_array(list) || json_array_size(list) < min || json_array_size(list) > RTE_MAX_LCORE)
		return node_fail(err, at, "must be an array of at least %zu lcores", min);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (read_lcore(json_array_get(list, i), i, at, config, lcores, err))
			return -1;
	return 0;
}

static int read_roles(json_t *object, struct dut_config *config, struct node_error *err)
{
	const json_t *dispatchers = json_object_get(object, "dispatchers");

	if (fields_require(object, "dut", "lcores", err) ||
	    read_lcores(json_object_get(object, "lcores"), 1, "dut.lcores", config, &config->workers, err))
		return -1;
	if (!dispatchers)
		return 0;
	return read_lcores(dispatchers, 0, "dut.dispatchers", config, &config->dispatchers, err);
}

static int read_composition(json_t *object, struct dut_config *config, struct node_error *err)
{
	unsigned int organisation = config->organisation, accounting = config->accounting,
	             sync = config->ring_sync, notification = 0;

	if (fields_choice(object, "dut", "organisation", organisations, &organisation, err) ||
	    fields_choice(object, "dut", "ring_sync", ring_syncs, &sync, err) ||
	    fields_choice(object, "dut", "notification", notifications, &notification, err) ||
	    fields_choice(object, "dut", "service_order", service_orders, &config->service_order, err) ||
	    fields_choice(object, "dut", "ready_set", ready_sets, &config->ready_set, err) ||
	    fields_choice(object, "dut", "idle", idles, &config->idle, err) ||
	    fields_choice(object, "dut", "ready_set_sharing", sharings, &config->sharing, err) ||
	    fields_choice(object, "dut", "workload", workload_names, &config->workload, err) ||
	    fields_choice(object, "dut", "accounting", accounting_names, &accounting, err) ||
	    fields_choice(object, "dut", "encapsulation", encapsulations, &config->encapsulation, err) ||
	    fields_choice(object, "dut", "transform", transforms, &config->transform, err) ||
	    fields_choice(object, "dut", "checksum", checksums, &config->checksum, err) ||
	    fields_choice(object, "dut", "tx_pool", tx_pools, &config->tx_pool, err))
		return -1;
	config->organisation = (enum organisation)organisation;
	config->accounting = (enum accounting)accounting;
	config->ring_sync = (enum handoff_sync)sync;
	config->notification = (enum notification)notification;
	return 0;
}

/* Only QWAIT_WEIGHTED has weights, and it requires them. */
static int read_weights(const json_t *object, struct dut_config *config, struct node_error *err)
{
	const json_t *list = json_object_get(object, "queue_weights");
	const size_t n = json_array_size(list);

	if ((list != NULL) != (config->service_order == QWAIT_WEIGHTED))
		return node_fail(err, "dut.queue_weights",
		                 "is required with service_order weighted, and applies only to it");
	if (list != NULL && (n == 0 || n > QUEUE_WEIGHTS_MAX))
		return node_fail(err, "dut.queue_weights", "must be an array of 1 to %d weights",
		                 QUEUE_WEIGHTS_MAX);
	for (config->nb_weights = 0; config->nb_weights < n; config->nb_weights++) {
		const json_int_t weight = json_integer_value(json_array_get(list, config->nb_weights));

		if (weight < 1 || weight > QUEUE_WEIGHT_MAX)
			return node_fail(err, "dut.queue_weights", "weights are whole numbers from 1 to %d",
			                 QUEUE_WEIGHT_MAX);
		config->queue_weights[config->nb_weights] = (uint32_t)weight;
	}
	return 0;
}

/* Read the name of a port; null and an absent key leave *name unchanged. */
static int read_port(json_t *object, const char *key, const char **name, struct node_error *err)
{
	const json_t *value = json_object_get(object, key);

	if (!value || json_is_null(value))
		return 0;
	return fields_string(object, "dut", key, RTE_ETH_NAME_MAX_LEN - 1, name, err);
}

static int read_ports(json_t *object, struct dut_config *config, struct node_error *err)
{
	const struct workload *workload = workloads[config->workload];

	if (read_port(object, "rx_port", &config->rx_name, err) ||
	    read_port(object, "tx_port", &config->tx_name, err))
		return -1;
	if (workload->receives && !config->rx_name)
		return node_fail(err, "dut.rx_port", "is required: workload %s receives",
		                 workload_names[config->workload]);
	if (!workload->receives && config->rx_name)
		return node_fail(err, "dut.rx_port", "must be null: workload %s receives nothing",
		                 workload_names[config->workload]);
	if (workload->sends && !config->tx_name)
		return node_fail(err, "dut.tx_port", "is required: workload %s sends",
		                 workload_names[config->workload]);
	return 0;
}

static int read_ring_slots(json_t *object, struct dut_config *config, struct node_error *err)
{
	uint64_t slots = config->ring_slots;

	if (fields_u64(object, "dut", "ring_size", HANDOFF_SLOTS_MIN, HANDOFF_SLOTS_MAX, &slots, err))
		return -1;
	if (slots & (slots - 1))
		return node_fail(err, "dut.ring_size", "must be a power of two, not %u", (unsigned int)slots);
	config->ring_slots = (uint32_t)slots;
	return 0;
}

static int read_numbers(json_t *object, struct dut_config *config, struct node_error *err)
{
	return read_ring_slots(object, config, err) ||
	       fields_u64(object, "dut", "routes", 1, ROUTES_MAX, &config->routes, err) ||
	       fields_u64(object, "dut", "lookups", 1, LOOKUPS_MAX, &config->lookups, err) ||
	       fields_u64(object, "dut", "sessions", SESSIONS_MIN, SESSIONS_MAX, &config->sessions, err) ||
	       fields_u64(object, "dut", "task_buffers", CODER_DATA_MIN, CODER_DATA_MAX,
	                  &config->task_buffers, err) ||
	       fields_u64(object, "dut", "parity_buffers", 1, CODER_PARITY_MAX, &config->parity_buffers,
	                  err) ||
	       fields_u64(object, "dut", "task_data", 0, QUEUE_DATA_BYTES_MAX, &config->task_data, err) ||
	       fields_u64(object, "dut", "flows", 1, PACKET_FLOWS_MAX, &config->flows, err) ||
	       frame_sizes_read(json_object_get(object, "frame"), "dut.frame", &config->frame, err) ||
	       fields_u64(object, "dut", "burst", 1, ACCOUNT_BURST_MAX, &config->burst, err) ||
	       fields_u64(object, "dut", "sample_every", 1, SAMPLE_EVERY_MAX, &config->sample_every, err) ||
	       fields_u64(object, "dut", "wait_after_ns", 0, WAIT_AFTER_MAX_NS, &config->wait_after_ns,
	                  err) ||
	       fields_u64(object, "dut", "rebalance_period_ns", REBALANCE_PERIOD_MIN_NS,
	                  REBALANCE_PERIOD_MAX_NS, &config->rebalance_period_ns, err) ||
	       fields_real(object, "dut", "rebalance_threshold", 0, 1, &config->rebalance_threshold, err) ||
	       fields_u64(object, "dut", "longest", 0, LONGEST_MAX, &config->longest, err);
}

unsigned int dut_config_rings(const struct dut_config *config)
{
	return config->organisation == SCALE_UP ? 1 : config->dispatchers.n;
}

/* Return the worker's NUMA node as an index, in the order in which the workers' nodes first appear. */
static unsigned int node_of(const struct dut_config *config, unsigned int worker)
{
	const unsigned int node = rte_lcore_to_socket_id(config->workers.lcores[worker]);
	unsigned int before = 0;

	for (unsigned int i = 0; i < worker; i++) {
		if (rte_lcore_to_socket_id(config->workers.lcores[i]) == node)
			return node_of(config, i);
		if (node_of(config, i) == before)
			before++;
	}
	return before;
}

unsigned int dut_config_group(const struct dut_config *config, unsigned int worker)
{
	switch ((enum ready_set_sharing)config->sharing) {
	case SHARING_ALL:
		return 0;
	case SHARING_NUMA:
		return node_of(config, worker);
	default:
		return worker;
	}
}

unsigned int dut_config_groups(const struct dut_config *config)
{
	unsigned int groups = 0;

	for (unsigned int i = 0; i < config->workers.n; i++)
		groups = RTE_MAX(groups, dut_config_group(config, i) + 1);
	return groups;
}

/* Return whether all workers poll all RX queues. */
static bool shares_queues(const struct dut_config *config)
{
	return config->organisation == LOCKED || config->organisation == TRYLOCK ||
	       config->organisation == COREC;
}

static int check_organisation(const struct dut_config *config, struct node_error *err)
{
	const unsigned int workers = config->workers.n, dispatchers = config->dispatchers.n;

	if (config->organisation == SCALE_OUT && dispatchers && dispatchers != workers)
		return node_fail(err, "dut.dispatchers",
		                 "scale-out needs none, or one for each of the %u lcores; not %u", workers,
		                 dispatchers);
	if (config->organisation == SCALE_UP && !dispatchers)
		return node_fail(err, "dut.dispatchers", "scale-up needs at least one");
	if ((shares_queues(config) || config->organisation == REBALANCED) && dispatchers)
		return node_fail(err, "dut.dispatchers", "%s has none: lcores poll the RX queues themselves",
		                 organisations[config->organisation]);
	if (config->organisation != SCALE_UP && config->ring_sync != HANDOFF_DEFAULT)
		return node_fail(err, "dut.ring_sync",
		                 "applies only to the shared ring of scale-up (leave it out with %s)",
		                 organisations[config->organisation]);
	if (dut_config_rings(config) == 0 && config->ring_slots != RING_SLOTS_DEFAULT)
		return node_fail(err, "dut.ring_size",
		                 "applies only to rings (leave it out without dispatchers)");
	return 0;
}

static bool is_of(const struct workload *workload, const struct workload *const *of)
{
	while (*of && *of != workload)
		of++;
	return *of;
}

/* Keys of organisation rebalanced are refused with others. */
static int check_rebalancing(const json_t *object, const struct dut_config *config, struct node_error *err)
{
	static const struct {
		const char *key, *where;
	} own[] = {{"rebalance_period_ns", "dut.rebalance_period_ns"},
	           {"rebalance_threshold", "dut.rebalance_threshold"}};

	for (unsigned int i = 0; config->organisation != REBALANCED && i < RTE_DIM(own); i++)
		if (json_object_get(object, own[i].key))
			return node_fail(err, own[i].where,
			                 "applies only to organisation rebalanced (leave it out with %s)",
			                 organisations[config->organisation]);
	return 0;
}

/* Keys of some workloads are refused with others. */
static int check_own_keys(const json_t *object, const struct dut_config *config, struct node_error *err)
{
	static const struct {
		const char *key, *where, *words;
		const struct workload *of[7]; /* ends with NULL */
	} own[] = {
	        {"encapsulation", "dut.encapsulation", "workload encap", {&workload_encap}},
	        {"transform", "dut.transform", "workload ipsec", {&workload_ipsec}},
	        {"sessions", "dut.sessions", "workload steer", {&workload_steer}},
	        {"task_buffers", "dut.task_buffers", "workloads rs and raid", {&workload_rs, &workload_raid}},
	        {"parity_buffers", "dut.parity_buffers", "workload rs", {&workload_rs}},
	        {"task_data",
	         "dut.task_data",
	         "workloads encap, crypto, steer, rs, raid and dispatch",
	         {&workload_encap, &workload_crypto, &workload_steer, &workload_rs, &workload_raid,
	          &workload_dispatch}},
	};

	for (unsigned int i = 0; i < RTE_DIM(own); i++)
		if (json_object_get(object, own[i].key) && !is_of(workloads[config->workload], own[i].of))
			return node_fail(err, own[i].where, "applies only to %s (leave it out with %s)",
			                 own[i].words, workload_names[config->workload]);
	return 0;
}

static int check_halt(const struct dut_config *config, struct node_error *err)
{
	const bool several = config->notification == NOTIFICATION_MONITOR_MULTI;

	if ((several || config->notification == NOTIFICATION_MONITOR) && !quiet_has_monitor(several))
		return node_fail(
		        err, "dut.notification",
		        "%s: this processor has no instruction to halt on %s that this DPDK uses; use "
		        "interrupt",
		        notifications[config->notification],
		        several ? "several lines (WAITPKG with RTM)" : "a line (WAITPKG, MWAITX)");
	if (config->idle == QWAIT_UMWAIT && !qwait_has_umwait())
		return node_fail(err, "dut.idle",
		                 "this processor has no UMWAIT (WAITPKG); use pause or sleep");
	return 0;
}

/* A notified worker reads RX queues of its own, and options of notification are refused with spin. */
static int check_notification(const json_t *object, const struct dut_config *config, struct node_error *err)
{
	static const struct {
		const char *key, *where;
	} of_qwait[] = {{"service_order", "dut.service_order"},
	                {"queue_weights", "dut.queue_weights"},
	                {"ready_set", "dut.ready_set"},
	                {"ready_set_sharing", "dut.ready_set_sharing"},
	                {"idle", "dut.idle"}};

	const char *name = notifications[config->notification];

	for (unsigned int i = 0; config->notification != NOTIFICATION_QWAIT && i < RTE_DIM(of_qwait); i++)
		if (json_object_get(object, of_qwait[i].key))
			return node_fail(err, of_qwait[i].where,
			                 "applies only to notification qwait (leave it out with %s)", name);
	if (json_object_get(object, "wait_after_ns") && config->notification != NOTIFICATION_ADAPTIVE &&
	    (config->notification != NOTIFICATION_QWAIT || config->idle != QWAIT_SLEEP))
		return node_fail(
		        err, "dut.wait_after_ns",
		        "applies only to notification adaptive, and to qwait with idle sleep (leave it out)");
	if (config->notification == NOTIFICATION_SPIN)
		return 0;
	if (!source_owns_rx_queues(config->source) || config->source == SOURCE_COUNTED)
		return node_fail(
		        err, "dut.notification",
		        "%s needs lcores with RX queues of their own (use scale-out without dispatchers)",
		        name);
	if (config->accounting != ACCOUNTING_SAMPLED)
		return node_fail(err, "dut.accounting",
		                 "%s cannot be combined with notification %s (use sampled)",
		                 accounting_names[config->accounting], name);
	return check_halt(config, err);
}

/* Return whether there is more work than the look-up that routes a packet. */
static bool works_further(const struct dut_config *config)
{
	return config->lookups > 1 || config->checksum != CHECKSUM_NONE;
}

static int check_workload(const json_t *object, const struct dut_config *config, struct node_error *err)
{
	const struct workload *workload = workloads[config->workload];
	static const struct {
		const char *key, *where;
	} of_tx[] = {{"frame", "dut.frame"}, {"flows", "dut.flows"}, {"tx_pool", "dut.tx_pool"}};

	if (!workload->receives && (config->organisation != SCALE_OUT || config->dispatchers.n))
		return node_fail(err, "dut.organisation",
		                 "workload %s receives nothing (use scale-out without dispatchers)",
		                 workload_names[config->workload]);
	for (unsigned int i = 0; workload->receives && i < RTE_DIM(of_tx); i++)
		if (json_object_get(object, of_tx[i].key))
			return node_fail(err, of_tx[i].where,
			                 "applies only to workload tx (leave it out with %s)",
			                 workload_names[config->workload]);
	if (!workload->process_further && works_further(config))
		return node_fail(err, config->checksum ? "dut.checksum" : "dut.lookups",
		                 "applies only to workload l3fwd-lpm (leave it out with %s)",
		                 workload_names[config->workload]);
	if (check_own_keys(object, config, err))
		return -1;
	if (workload == &workload_ipsec && config->routes < ROUTING_HOPS)
		return node_fail(err, "dut.routes", "workload ipsec needs at least %u routes, not %u",
		                 ROUTING_HOPS, (unsigned int)config->routes);
	return 0;
}

static enum poller_source source_of(const struct dut_config *config)
{
	static const enum poller_source shared_sources[ORGANISATIONS] = {
	        [LOCKED] = SOURCE_LOCKED, [TRYLOCK] = SOURCE_TRYLOCK, [COREC] = SOURCE_COREC};

	if (!workloads[config->workload]->receives)
		return SOURCE_MADE;
	if (shares_queues(config))
		return shared_sources[config->organisation];
	if (config->organisation == REBALANCED)
		return SOURCE_COUNTED;
	if (config->dispatchers.n)
		return SOURCE_RING;
	switch (config->notification) {
	case NOTIFICATION_SPIN:
		return SOURCE_RX_QUEUES;
	case NOTIFICATION_QWAIT:
		return SOURCE_NOTIFIED;
	default:
		return SOURCE_WAITING;
	}
}

const char *dut_config_notification(const struct dut_config *config)
{
	return notifications[config->notification];
}

bool dut_config_delays(const struct dut_config *config)
{
	return config->has_service || config->has_hiccup;
}

process_fn dut_config_process(const struct dut_config *config)
{
	const struct workload *workload = workloads[config->workload];

	return works_further(config) ? workload->process_further : workload->process;
}

poll_loop_fn dut_config_loop(const struct dut_config *config)
{
	const loop_table *own = workloads[config->workload]->loops;
	const loop_table *loops = own && !works_further(config) ? own : called_loops;

	return (*loops)[config->source][dut_config_delays(config)][config->accounting];
}

/* Not every combination has a loop (loop/loop.h). */
static int check_loop(const struct dut_config *config, struct node_error *err)
{
	if (dut_config_loop(config))
		return 0;
	return node_fail(
	        err, "dut.accounting",
	        "%s cannot be combined with rings, shared or rebalanced queues, or delays (use sampled)",
	        accounting_names[config->accounting]);
}

static int check_frames(const struct dut_config *config, const struct ports_plan *plan,
                        struct node_error *err)
{
	const uint32_t largest = frame_sizes_largest(&config->frame);

	if (workloads[config->workload]->receives)
		return 0;
	const uint16_t mtu = plan->ports[config->tx_port].spec.mtu;

	if (largest > (uint32_t)mtu + RTE_ETHER_HDR_LEN + PACKET_FCS_BYTES)
		return node_fail(err, "dut.frame", "frames of %u bytes do not fit the MTU %u of the TX port",
		                 largest, mtu);
	return 0;
}

/* Every lcore that polls RX queues alone needs at least one, and every worker needs a TX queue. */
static int check_queues(const struct dut_config *config, const struct ports_plan *plan,
                        struct node_error *err)
{
	const bool dispatched = config->dispatchers.n > 0;
	const unsigned int workers = config->workers.n,
	                   readers = dispatched ? config->dispatchers.n : dut_config_groups(config);

	if (config->rx_port != NO_PORT && !shares_queues(config) &&
	    plan->ports[config->rx_port].spec.rx_queues < readers)
		return node_fail(err, dispatched ? "dut.dispatchers" : "dut.lcores",
		                 "%u lcores need as many RX queues; the port has %u", readers,
		                 plan->ports[config->rx_port].spec.rx_queues);
	if (config->tx_port != NO_PORT && plan->ports[config->tx_port].spec.tx_queues < workers)
		return node_fail(err, "dut.lcores", "%u lcores need as many TX queues; the port has %u",
		                 workers, plan->ports[config->tx_port].spec.tx_queues);
	if (config->rx_port != NO_PORT && config->source == SOURCE_COUNTED &&
	    plan->ports[config->rx_port].spec.rx_queues != workers)
		return node_fail(
		        err, "dut.lcores",
		        "rebalanced: each lcore has one RX queue, so %u need as many; the port has %u",
		        workers, plan->ports[config->rx_port].spec.rx_queues);
	return 0;
}

int dut_config_parse(json_t *object, struct dut_config *config, struct node_error *err)
{
	static const char *const keys[] = {"lcores",
	                                   "dispatchers",
	                                   "rx_port",
	                                   "tx_port",
	                                   "organisation",
	                                   "ring_sync",
	                                   "ring_size",
	                                   "workload",
	                                   "encapsulation",
	                                   "frame",
	                                   "flows",
	                                   "routes",
	                                   "burst",
	                                   "notification",
	                                   "service",
	                                   "extra_cycles",
	                                   "hiccup",
	                                   "longest",
	                                   "accounting",
	                                   "sample_every",
	                                   "lookups",
	                                   "checksum",
	                                   "tx_pool",
	                                   "transform",
	                                   "sessions",
	                                   "task_buffers",
	                                   "parity_buffers",
	                                   "task_data",
	                                   "service_order",
	                                   "queue_weights",
	                                   "ready_set",
	                                   "idle",
	                                   "wait_after_ns",
	                                   "ready_set_sharing",
	                                   "rebalance_period_ns",
	                                   "rebalance_threshold",
	                                   NULL};

	*config = (struct dut_config){
	        .accounting = ACCOUNTING_SAMPLED,
	        .workload = WORKLOAD_l3fwd_lpm, /* the application of SoCC'19 */
	        .ring_slots = RING_SLOTS_DEFAULT,
	        .wait_after_ns = WAIT_AFTER_DEFAULT_NS,
	        .rebalance_period_ns = REBALANCE_PERIOD_DEFAULT_NS,
	        .rebalance_threshold = REBALANCE_THRESHOLD_DEFAULT,
	        .frame = {.sizes = {{.bytes = PACKET_FRAME_BYTES_MIN, .weight = 1}}, .count = 1},
	        .flows = FLOWS_DEFAULT,
	        .routes = ROUTES_DEFAULT,
	        .lookups = 1,
	        .sessions = SESSIONS_DEFAULT,
	        .task_buffers = 4,
	        .parity_buffers = 2,
	        .burst = 32,
	        .sample_every = 4,
	        .longest = 16,
	};
	if (fields_only(object, "dut", keys, err) || read_roles(object, config, err) ||
	    read_composition(object, config, err) || read_ports(object, config, err) ||
	    read_numbers(object, config, err) || delay_config_read(object, config, err))
		return -1;
	config->source = source_of(config);
	return check_organisation(config, err) || check_rebalancing(object, config, err) ||
	       check_workload(object, config, err) || check_notification(object, config, err) ||
	       read_weights(object, config, err) || check_loop(config, err);
}

/* The RSS hash of a packet gives its RETA entry and so its queue (workload/queue_data.h). */
static int ask_for_hashes(const struct dut_config *config, const char *where, struct ports_plan *plan,
                          struct node_error *err)
{
	struct port_spec *spec = &plan->ports[config->rx_port].spec;
	struct rte_eth_dev_info info;

	if (spec->rx_queues == 1)
		return 0;
	if (rte_eth_dev_info_get(config->rx_port, &info) < 0 ||
	    !(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH))
		return node_fail(err, where,
		                 "needs a port that delivers RSS hashes, or one RX queue; %s does not",
		                 config->rx_name);
	spec->rss_hash = true;
	return 0;
}

/* Buffers apart from descriptors need one lcore at a time per queue, and no doorbells. */
static int check_buffers(const struct dut_config *config, const struct port_spec *spec,
                         struct node_error *err)
{
	const bool rung =
	        config->notification != NOTIFICATION_SPIN && !notification_is_timed(config->notification);

	if (spec->buffers == PORT_BUFFERS_POSTED)
		return 0;
	if (config->organisation == COREC)
		return node_fail(err, "dut.organisation", "organisation corec needs posted buffers, not %s",
		                 port_buffers_names[spec->buffers]);
	if (rung)
		return node_fail(err, "dut.notification", "%s needs posted buffers, not %s",
		                 dut_config_notification(config), port_buffers_names[spec->buffers]);
	return 0;
}

int dut_config_resolve(struct dut_config *config, struct ports_plan *plan, struct node_error *err)
{
	if (ports_plan_find(plan, config->rx_name, "dut.rx_port", &config->rx_port, err) ||
	    ports_plan_find(plan, config->tx_name, "dut.tx_port", &config->tx_port, err) ||
	    check_frames(config, plan, err) || check_queues(config, plan, err))
		return -1;
	if (config->rx_port != NO_PORT && check_buffers(config, &plan->ports[config->rx_port].spec, err))
		return -1;
	if (config->organisation == COREC && config->rx_port != NO_PORT)
		plan->ports[config->rx_port].spec.corec = true;
	if (config->task_data && config->rx_port != NO_PORT &&
	    ask_for_hashes(config, "dut.task_data", plan, err))
		return -1;
	if (config->source == SOURCE_COUNTED && config->rx_port != NO_PORT &&
	    ask_for_hashes(config, "dut.organisation", plan, err))
		return -1;
	plan->held_port = config->rx_port;
	plan->held_mbufs = config->ring_slots * dut_config_rings(config);
	return 0;
}
