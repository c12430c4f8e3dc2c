/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <string.h>

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

static const struct dut_config defaults = {
        .accounting = ACCOUNTING_SAMPLED,
        .workload = WORKLOAD_l3fwd_lpm, /* the application of SoCC'19 */
        .ring_slots = RING_SLOTS_DEFAULT,
        .wait_after_ns = WAIT_AFTER_DEFAULT_NS,
        .rebalance_period_ns = REBALANCE_PERIOD_DEFAULT_NS,
        .rebalance_threshold = REBALANCE_THRESHOLD_DEFAULT,
        .work = {.frame = {.sizes = {{.bytes = PACKET_FRAME_BYTES_MIN, .weight = 1}}, .count = 1},
                 .flows = FLOWS_DEFAULT,
                 .routes = ROUTES_DEFAULT,
                 .lookups = 1,
                 .sessions = SESSIONS_DEFAULT,
                 .task_buffers = 4,
                 .parity_buffers = 2},
        .burst = 32,
        .sample_every = 4,
        .longest = 16,
};

#define OF(member) FIELD_OF(struct dut_config, member)

static const struct field fields[] = {
        {.key = "lcores", .required = true},
        {.key = "dispatchers"},
        {"rx_port", FIELD_STRING, OF(rx_name), .max = RTE_ETH_NAME_MAX_LEN - 1, .nullable = true},
        {"tx_port", FIELD_STRING, OF(tx_name), .max = RTE_ETH_NAME_MAX_LEN - 1, .nullable = true},
        {"organisation", FIELD_CHOICE, OF(organisation), .names = organisations},
        {"ring_sync", FIELD_CHOICE, OF(ring_sync), .names = ring_syncs},
        {"ring_size", FIELD_NUMBER, OF(ring_slots), .min = HANDOFF_SLOTS_MIN, .max = HANDOFF_SLOTS_MAX},
        {"workload", FIELD_CHOICE, OF(workload), .names = workload_names},
        {"encapsulation", FIELD_CHOICE, OF(work.encapsulation), .names = encapsulations},
        {.key = "frame"},
        {"flows", FIELD_NUMBER, OF(work.flows), .min = 1, .max = PACKET_FLOWS_MAX},
        {"routes", FIELD_NUMBER, OF(work.routes), .min = 1, .max = ROUTES_MAX},
        {"burst", FIELD_NUMBER, OF(burst), .min = 1, .max = ACCOUNT_BURST_MAX},
        {"notification", FIELD_CHOICE, OF(notification), .names = notifications},
        {.key = "service"},
        {"extra_cycles", FIELD_NUMBER, OF(extra_cycles), .max = DELAY_CYCLES_MAX},
        {.key = "hiccup"},
        {"longest", FIELD_NUMBER, OF(longest), .max = LONGEST_MAX},
        {"accounting", FIELD_CHOICE, OF(accounting), .names = accounting_names},
        {"sample_every", FIELD_NUMBER, OF(sample_every), .min = 1, .max = SAMPLE_EVERY_MAX},
        {"lookups", FIELD_NUMBER, OF(work.lookups), .min = 1, .max = LOOKUPS_MAX},
        {"checksum", FIELD_CHOICE, OF(work.checksum), .names = checksums},
        {"tx_pool", FIELD_CHOICE, OF(tx_pool), .names = tx_pools},
        {"transform", FIELD_CHOICE, OF(work.transform), .names = transforms},
        {"sessions", FIELD_NUMBER, OF(work.sessions), .min = SESSIONS_MIN, .max = SESSIONS_MAX},
        {"task_buffers", FIELD_NUMBER, OF(work.task_buffers), .min = CODER_DATA_MIN, .max = CODER_DATA_MAX},
        {"parity_buffers", FIELD_NUMBER, OF(work.parity_buffers), .min = 1, .max = CODER_PARITY_MAX},
        {"task_data", FIELD_NUMBER, OF(work.task_data), .max = QUEUE_DATA_BYTES_MAX},
        {"service_order", FIELD_CHOICE, OF(service_order), .names = service_orders},
        {.key = "queue_weights"},
        {"ready_set", FIELD_CHOICE, OF(ready_set), .names = ready_sets},
        {"idle", FIELD_CHOICE, OF(idle), .names = idles},
        {"wait_after_ns", FIELD_NUMBER, OF(wait_after_ns), .max = WAIT_AFTER_MAX_NS},
        {"ready_set_sharing", FIELD_CHOICE, OF(sharing), .names = sharings},
        {"rebalance_period_ns", FIELD_NUMBER, OF(rebalance_period_ns), .min = REBALANCE_PERIOD_MIN_NS,
         .max = REBALANCE_PERIOD_MAX_NS},
        {"rebalance_threshold", FIELD_REAL, OF(rebalance_threshold), .most = 1},
        {0},
};

bool dut_config_has_lcore(const struct dut_config *config, unsigned int lcore)
{
	return lcore_is_listed(lcore, config->workers.lcores, config->workers.n) ||
	       lcore_is_listed(lcore, config->dispatchers.lcores, config->dispatchers.n);
}

static int read_lcores(const json_t *list, const char *at, struct lcore_list *lcores, struct node_error *err)
{
	const int n = lcore_list(list, at, lcores->lcores, err);

	if (n < 0)
		return -1;
	lcores->n = (unsigned int)n;
	return 0;
}

static int read_roles(const json_t *object, struct dut_config *config, struct node_error *err)
{
	static const char at[] = "dut.dispatchers";
	const json_t *dispatchers = json_object_get(object, "dispatchers");

	if (read_lcores(json_object_get(object, "lcores"), "dut.lcores", &config->workers, err))
		return -1;
	if (!dispatchers || (json_is_array(dispatchers) && json_array_size(dispatchers) == 0))
		return 0;
	if (read_lcores(dispatchers, at, &config->dispatchers, err))
		return -1;
	for (unsigned int i = 0; i < config->dispatchers.n; i++)
		if (lcore_is_listed(config->dispatchers.lcores[i], config->workers.lcores, config->workers.n))
			return node_fail(err, at, "lcore %u is listed twice", config->dispatchers.lcores[i]);
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

static int check_ports(const struct dut_config *config, struct node_error *err)
{
	const struct workload *workload = workloads[config->workload];

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
	if (config->ring_slots & (config->ring_slots - 1))
		return node_fail(err, "dut.ring_size", "must be a power of two, not %u", config->ring_slots);
	if (dut_config_rings(config) == 0 && config->ring_slots != RING_SLOTS_DEFAULT)
		return node_fail(err, "dut.ring_size",
		                 "applies only to rings (leave it out without dispatchers)");
	return 0;
}

static int only_with(const char *key, const char *with, const char *without, struct node_error *err)
{
	char path[64];

	return node_fail(err, node_where(path, sizeof(path), "dut", key),
	                 "applies only to %s (leave it out with %s)", with, without);
}

/* Refuse keys of one organisation or notification with others. */
static int check_options(const json_t *object, const struct dut_config *config, struct node_error *err)
{
	static const char *const of_rebalanced[] = {"rebalance_period_ns", "rebalance_threshold"};
	static const char *const of_qwait[] = {"service_order", "queue_weights", "ready_set",
	                                       "ready_set_sharing", "idle"};

	for (unsigned int i = 0; config->organisation != REBALANCED && i < RTE_DIM(of_rebalanced); i++)
		if (json_object_get(object, of_rebalanced[i]))
			return only_with(of_rebalanced[i], "organisation rebalanced",
			                 organisations[config->organisation], err);
	for (unsigned int i = 0; config->notification != NOTIFICATION_QWAIT && i < RTE_DIM(of_qwait); i++)
		if (json_object_get(object, of_qwait[i]))
			return only_with(of_qwait[i], "notification qwait",
			                 notifications[config->notification], err);
	return 0;
}

static bool is_key_of(const char *key, unsigned int workload)
{
	const char *const *keys = workload_keys[workload];

	while (*keys && strcmp(*keys, key) != 0)
		keys++;
	return *keys;
}

/* Return the workloads that have the key, as "workload NAME, NAME"; NULL: all have it. */
static const char *owners_of(const char *key, char *text, size_t size)
{
	size_t used = 0;

	for (unsigned int w = 0; workloads[w] && used < size; w++)
		if (is_key_of(key, w))
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "workload ",
			                         workload_names[w]);
	return used ? text : NULL;
}

static int check_own_keys(json_t *object, const struct dut_config *config, struct node_error *err)
{
	char owners[128];
	const char *key;
	json_t *value;

	json_object_foreach(
	        object, key,
	        value) if (!is_key_of(key, config->workload) &&
	                   owners_of(key, owners,
	                             sizeof(owners))) return only_with(key, owners,
	                                                               workload_names[config->workload], err);
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

/* A notified worker reads RX queues of its own. */
static int check_notification(const json_t *object, const struct dut_config *config, struct node_error *err)
{
	const char *name = notifications[config->notification];

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
	return config->work.lookups > 1 || config->work.checksum != CHECKSUM_NONE;
}

static int check_workload(json_t *object, const struct dut_config *config, struct node_error *err)
{
	const struct workload *workload = workloads[config->workload];

	if (!workload->receives && (config->organisation != SCALE_OUT || config->dispatchers.n))
		return node_fail(err, "dut.organisation",
		                 "workload %s receives nothing (use scale-out without dispatchers)",
		                 workload_names[config->workload]);
	if (check_own_keys(object, config, err))
		return -1;
	if (workload == &workload_ipsec && config->work.routes < ROUTING_HOPS)
		return node_fail(err, "dut.routes", "workload ipsec needs at least %u routes, not %u",
		                 ROUTING_HOPS, config->work.routes);
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
	const uint32_t largest = frame_sizes_largest(&config->work.frame);

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
	*config = defaults;
	if (fields_read(object, "dut", fields, config, err) || read_roles(object, config, err) ||
	    frame_sizes_read(json_object_get(object, "frame"), "dut.frame", &config->work.frame, err) ||
	    check_ports(config, err) || delay_config_read(object, config, err))
		return -1;
	config->source = source_of(config);
	return check_organisation(config, err) || check_workload(object, config, err) ||
	       check_options(object, config, err) || check_notification(object, config, err) ||
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
	if (config->work.task_data && config->rx_port != NO_PORT &&
	    ask_for_hashes(config, "dut.task_data", plan, err))
		return -1;
	if (config->source == SOURCE_COUNTED && config->rx_port != NO_PORT &&
	    ask_for_hashes(config, "dut.organisation", plan, err))
		return -1;
	plan->held_port = config->rx_port;
	plan->held_mbufs = config->ring_slots * dut_config_rings(config);
	return 0;
}
