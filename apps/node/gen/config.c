/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <limits.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_ethdev.h>

#include "accounting.h"
#include "fields.h"
#include "lcore.h"
#include "packets.h"
#include "routes.h"
#include "wire_agent.h"

/* 24 bits of lateness in a frame hold 3 ms up to a TSC of 5.5 GHz. */
#define LATE_MAX_NS_MAX     3000000
#define LATE_MAX_NS_DEFAULT 100000
#define SLEEP_NS_MAX        10000000
#define NIC_STAMPS_NS_MIN                                                                                    \
	100000 /* reading stamps takes microseconds; with a shorter distance the lcore would do little else */
#define NIC_STAMPS_NS_MAX 10000000000
#define FLOWS_DEFAULT     1024
#define BURST_DEFAULT     32
#define BURST_PACKETS_MAX 1024
#define ON_DEFAULT_NS     1000000
#define ON_MAX_NS         10000000000

static const struct gen_config defaults = {
        .frame = {.sizes = {{.bytes = PACKET_FRAME_BYTES_MIN, .weight = 1}}, .count = 1},
        .flows = FLOWS_DEFAULT,
        .routes = ROUTES_DEFAULT,
        .busy_poll_packets = BURST_DEFAULT,
        .burst_packets = BURST_DEFAULT,
        .on_ns = ON_DEFAULT_NS,
        .off_ns = ON_DEFAULT_NS,
        .seed = 1,
        .burst = BURST_DEFAULT,
        .late_max_ns = LATE_MAX_NS_DEFAULT,
};

static const char *const kind_names[] = {[GEN_CORE] = "core", [GEN_AGENT] = "agent", NULL};
static const char *const arrival_names[] = {
        [GEN_CONSTANT] = "constant", [GEN_POISSON] = "poisson", [GEN_TRACE] = "trace",
        [GEN_BURSTS] = "bursts",     [GEN_ON_OFF] = "on-off",   NULL};

#define OF(member) FIELD_OF(struct gen_config, member)

static const struct field fields[] = {
        {.key = "lcores", .required = true},
        {"tx_port", FIELD_STRING, OF(tx_name), .max = RTE_ETH_NAME_MAX_LEN - 1, .nullable = true},
        {"rx_port", FIELD_STRING, OF(rx_name), .max = RTE_ETH_NAME_MAX_LEN - 1, .nullable = true},
        {"target_port", FIELD_STRING, OF(target_name), .max = RTE_ETH_NAME_MAX_LEN - 1, .nullable = true},
        {"reads_port", FIELD_STRING, OF(reads_name), .max = RTE_ETH_NAME_MAX_LEN - 1, .nullable = true},
        {"generator", FIELD_CHOICE, OF(kind), .names = kind_names},
        {.key = "target"},
        {.key = "frame"},
        {"flows", FIELD_NUMBER, OF(flows), .min = 1, .max = PACKET_FLOWS_MAX},
        {"routes", FIELD_NUMBER, OF(routes), .min = 1, .max = ROUTES_MAX},
        GEN_SHAPE_FIELDS(struct gen_config, shape),
        {"busy_poll_packets", FIELD_NUMBER, OF(busy_poll_packets), .min = 1, .max = ACCOUNT_BURST_MAX},
        {"arrivals", FIELD_CHOICE, OF(arrivals), .names = arrival_names},
        {"seed", FIELD_NUMBER, OF(seed), .max = INT64_MAX},
        {"burst", FIELD_NUMBER, OF(burst), .min = 1, .max = GEN_BURST_MAX},
        {"late_max_ns", FIELD_NUMBER, OF(late_max_ns), .max = LATE_MAX_NS_MAX},
        {"departures", FIELD_NUMBER, OF(departures), .max = GEN_DEPARTURES_MAX},
        {"trace", FIELD_STRING, OF(trace), .max = PATH_MAX - 1, .nullable = true},
        {"burst_packets", FIELD_NUMBER, OF(burst_packets), .min = 1, .max = BURST_PACKETS_MAX},
        {"on_ns", FIELD_NUMBER, OF(on_ns), .min = 1, .max = ON_MAX_NS},
        {"off_ns", FIELD_NUMBER, OF(off_ns), .max = ON_MAX_NS},
        {"sleep_ns", FIELD_NUMBER, OF(sleep_ns), .max = SLEEP_NS_MAX},
        {"nic_stamps_ns", FIELD_NUMBER, OF(nic_stamps_ns), .max = NIC_STAMPS_NS_MAX},
        {0},
};

static int read_lcores(const json_t *spec, struct gen_config *config, struct node_error *err)
{
	unsigned int lcores[RTE_MAX_LCORE];
	const int n = lcore_list(json_object_get(spec, "lcores"), "gen.lcores", lcores, err);

	if (n < 0)
		return -1;
	if (n > GEN_LCORES_MAX)
		return node_fail(err, "gen.lcores", "%d lcores; a generator has at most %d", n,
		                 GEN_LCORES_MAX);
	memcpy(config->lcores, lcores, (size_t)n * sizeof(lcores[0]));
	config->lcores_n = (unsigned int)n;
	return 0;
}

static int read_target(const json_t *spec, struct gen_config *config, struct node_error *err)
{
	const json_t *const target = json_object_get(spec, "target");

	if (target == NULL || json_is_null(target))
		return 0;
	if (config->target_name != NULL)
		return node_fail(err, "gen.target", "excludes target_port (give one of the two)");
	config->has_target = true;
	return gen_target_parse(target, &config->target, err);
}

/* A trace replaces the keys that otherwise determine which packets are sent. */
static int check_trace(const json_t *spec, const struct gen_config *config, struct node_error *err)
{
	static const char *const replaced[] = {"frame", "flows"};

	if (config->trace == NULL)
		return config->arrivals == GEN_TRACE
		               ? node_fail(err, "gen.arrivals", "'trace' needs a trace (key trace)")
		               : 0;
	for (unsigned int i = 0; i < RTE_DIM(replaced); i++)
		if (json_object_get(spec, replaced[i]) != NULL)
			return node_fail(err, "gen.trace", "replaces %s (leave that out)", replaced[i]);
	if (config->shape.kind != GEN_FULLY_BALANCED)
		return node_fail(err, "gen.shape", "flows of a trace use all queues (use FB)");
	return 0;
}

/* The driver of a real port drops or truncates frames above its MTU, so refuse them here. */
static int check_mtu(struct gen_config *config, uint16_t mtu, struct node_error *err)
{
	const uint32_t overhead = RTE_ETHER_HDR_LEN + PACKET_FCS_BYTES;
	const uint32_t largest = frame_sizes_largest(&config->frame);
	const char *const port = config->kind == GEN_AGENT ? config->target_name : config->tx_name;

	config->frame_max = mtu + overhead;
	if (largest > config->frame_max)
		return node_fail(err, "gen.frame",
		                 "frames of %u bytes do not fit the MTU %u of %s (needs %u)", largest, mtu,
		                 port, largest - overhead);
	return 0;
}

int gen_config_check_flows(const struct gen_config *config, unsigned int queues, struct node_error *err)
{
	const unsigned int loaded = gen_shape_loaded(&config->shape, queues);

	if (config->flows < config->lcores_n)
		return node_fail(err, "gen.flows", "%u flows cannot be shared by %u lcores", config->flows,
		                 config->lcores_n);
	if (config->flows < loaded)
		return node_fail(err, "gen.flows",
		                 "%u flows cannot reach the %u queues that this shape loads", config->flows,
		                 loaded);
	return 0;
}

/* A TX queue has one sender (DPDK, ethdev). */
static int check_tx_queues(const struct gen_config *config, uint16_t tx_queues, struct node_error *err)
{
	if (config->lcores_n > tx_queues)
		return node_fail(err, "gen.lcores", "%u lcores need as many TX queues; %s has %u",
		                 config->lcores_n, config->tx_name, tx_queues);
	return 0;
}

static int ask_for_stamps(const struct gen_config *config, struct ports_plan *plan, struct node_error *err)
{
	if (config->nic_stamps_ns == 0)
		return 0;
	if (config->nic_stamps_ns < NIC_STAMPS_NS_MIN)
		return node_fail(err, "gen.nic_stamps_ns", "must be 0 or at least %d", NIC_STAMPS_NS_MIN);
	if (config->rx_port == NO_PORT)
		return node_fail(err, "gen.nic_stamps_ns", "needs rx_port, to which frames come back");
	plan->ports[config->tx_port].spec.timesync = plan->ports[config->rx_port].spec.timesync = true;
	return 0;
}

/* Beside a program, as its secondary process, the node does not configure the target: it is the program's port. */
static int find_target(struct gen_config *config, const struct ports_plan *plan, struct node_error *err)
{
	if (config->target_name != NULL && rte_eal_process_type() == RTE_PROC_SECONDARY &&
	    rte_eth_dev_get_port_by_name(config->target_name, &config->target_port) == 0)
		return 0;
	return ports_plan_find(plan, config->target_name, "gen.target_port", &config->target_port, err);
}

static unsigned int target_queues(const struct gen_config *config, const struct ports_plan *plan)
{
	struct rte_eth_dev_info info;

	if (config->target_port != NO_PORT && plan->ports[config->target_port].wanted)
		return plan->ports[config->target_port].spec.rx_queues;
	if (config->target_port != NO_PORT)
		return rte_eth_dev_info_get(config->target_port, &info) == 0 ? info.nb_rx_queues : 1;
	return config->has_target ? config->target.rss.queues : 1;
}

static int resolve_sender(struct gen_config *config, const struct ports_plan *plan, struct node_error *err)
{
	return check_tx_queues(config, plan->ports[config->tx_port].spec.tx_queues, err) ||
	       check_mtu(config, plan->ports[config->tx_port].spec.mtu, err);
}

static int resolve_agent(struct gen_config *config, const struct ports_plan *plan, struct node_error *err)
{
	if (config->rx_port != NO_PORT && config->reads_port != NO_PORT &&
	    config->reads_port != config->rx_port)
		return node_fail(err, "gen.reads_port", "is another port than rx_port (leave it out)");
	if (config->rx_port != NO_PORT)
		config->reads_port = config->rx_port;
	return gen_agent_check_port(config->target_port, "gen.target_port", err) ||
	       gen_agent_check_port(config->rx_port, "gen.rx_port", err) ||
	       gen_agent_check_port(config->reads_port, "gen.reads_port", err) ||
	       check_mtu(config, plan->ports[config->target_port].spec.mtu, err);
}

int gen_config_resolve(struct gen_config *config, struct ports_plan *plan, struct node_error *err)
{
	if (ports_plan_find(plan, config->tx_name, "gen.tx_port", &config->tx_port, err) ||
	    ports_plan_find(plan, config->rx_name, "gen.rx_port", &config->rx_port, err) ||
	    ports_plan_find(plan, config->reads_name, "gen.reads_port", &config->reads_port, err) ||
	    find_target(config, plan, err) ||
	    (config->kind == GEN_AGENT ? resolve_agent(config, plan, err)
	                               : resolve_sender(config, plan, err)) ||
	    ask_for_stamps(config, plan, err))
		return -1;
	/* The number of flows of a trace is known after it was read. */
	return config->trace == NULL ? gen_config_check_flows(config, target_queues(config, plan), err) : 0;
}

int gen_config_parse(const json_t *spec, struct gen_config *config, struct node_error *err)
{
	*config = defaults;
	config->shape = gen_shape_defaults;
	if (fields_read(spec, "gen", fields, config, err) || read_lcores(spec, config, err))
		return -1;
	if (config->tx_name == NULL && config->kind == GEN_CORE)
		return node_fail(err, "gen.tx_port", "is required");
	return read_target(spec, config, err) ||
	       frame_sizes_read(json_object_get(spec, "frame"), "gen.frame", &config->frame, err) ||
	       check_trace(spec, config, err) || gen_agent_check(config, err);
}
