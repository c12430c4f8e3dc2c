/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire_agent.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_memzone.h>

#include "agent.h"
#include "cycles.h"

/* Bits of numbers that a copy is looked for in, in words: the latest million. */
#define SEEN_WORDS 16384

/* Slots of arrivals that are not constant, which repeat after that: few enough to stay in L2, and to be drawn in 1 ms. */
#define TIMES_MAX 65536

struct gen_agent {
	struct agent_generator generator;
	struct agent_receiver receiver;
	struct wire_port *reads; /* NULL: nothing comes back */
	struct agent_ring rx_rings[WIRE_RINGS_MAX];
	struct agent_ring tx_rings[WIRE_RINGS_MAX];
	uint64_t bursts[AGENT_BATCH_MAX + 1];
	uint64_t seen[SEEN_WORDS];
	uint64_t times_q16[TIMES_MAX];
	struct agent_flow *flows;
	uint64_t *next;             /* per flow */
	uint16_t *lists[GEN_LISTS]; /* flows of the play lists */
};

static_assert(AGENT_BATCH_MAX == GEN_BURST_MAX && AGENT_FLOWS_MAX == PACKET_FLOWS_MAX,
              "an agent sends what an lcore sends");
static_assert(AGENT_FRAME_BYTES_MIN == PACKET_FRAME_BYTES_MIN - PACKET_FCS_BYTES &&
                      AGENT_FRAME_BYTES_MAX >= PACKET_FRAME_BYTES_MAX - PACKET_FCS_BYTES,
              "an agent sends what an lcore sends");
static_assert(TRIAL_RUN == 0 && sizeof(((struct trial *)NULL)->phase) == sizeof(uint32_t),
              "an agent stops when the phase is not 0");

/* Return the wire of a port with feed=external, or NULL. */
static struct wire_port *wire_of(uint16_t port)
{
	char port_name[RTE_ETH_NAME_MAX_LEN], name[RTE_ETH_NAME_MAX_LEN + sizeof(WIRE_MEMZONE)];
	const struct rte_memzone *zone;

	if (port == NO_PORT || rte_eth_dev_get_name_by_port(port, port_name) != 0)
		return NULL;
	snprintf(name, sizeof(name), WIRE_MEMZONE, port_name);
	zone = rte_memzone_lookup(name);
	return zone == NULL ? NULL : zone->addr;
}

int gen_agent_check_port(uint16_t port, const char *where, struct node_error *err)
{
	char name[RTE_ETH_NAME_MAX_LEN] = "";
	const struct wire_port *wire = wire_of(port);

	if (port == NO_PORT || (wire != NULL && wire->abi == WIRE_ABI))
		return 0;
	rte_eth_dev_get_name_by_port(port, name);
	return node_fail(err, where,
	                 "an agent plays the NIC of a net_crossover with feed=external, which %s is not",
	                 name);
}

int gen_agent_check(const struct gen_config *config, struct node_error *err)
{
	const struct {
		bool wrong;
		const char *where, *text;
	} checks[] = {
	        {config->lcores_n != 1, "gen.lcores", "an agent has one lcore"},
	        {config->tx_name != NULL, "gen.tx_port", "an agent sends on no port (leave it out)"},
	        {config->has_target, "gen.target", "an agent fills rings of this node (use target_port)"},
	        {config->target_name == NULL, "gen.target_port", "is required"},
	        {config->trace != NULL, "gen.trace", "an agent replays none (use generator core)"},
	        {config->frame.count != 1, "gen.frame", "an agent sends frames of one size"},
	        {config->shape.kind != GEN_FULLY_BALANCED && config->shape.kind != GEN_SINGLE_QUEUE,
	         "gen.shape", "an agent has FB and SQ"},
	        {config->sleep_ns != 0, "gen.sleep_ns", "an agent never sleeps"},
	        {config->nic_stamps_ns != 0, "gen.nic_stamps_ns", "an agent sends no PTP frames"},
	        {config->departures != 0, "gen.departures", "an agent lists none"},
	};

	if (config->kind == GEN_CORE && config->reads_name != NULL)
		return node_fail(err, "gen.reads_port", "is for generator agent");
	for (unsigned int i = 0; config->kind == GEN_AGENT && i < RTE_DIM(checks); i++)
		if (checks[i].wrong)
			return node_fail(err, checks[i].where, "%s", checks[i].text);
	return 0;
}

static void fill_flows(struct gen_agent *agent, const struct gen_traffic *traffic, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct packet_flow *flow = &traffic->flows[i];

		agent->flows[i] = (struct agent_flow){
		        .source = rte_be_to_cpu_32(flow->source),
		        .destination = rte_be_to_cpu_32(flow->destination),
		        .source_port = rte_be_to_cpu_16(flow->source_port),
		};
	}
}

static int copy_list(const struct gen_list *list, uint16_t **flows)
{
	if (list->count == 0)
		return 0;
	*flows = rte_malloc("agent", list->count * sizeof(**flows), RTE_CACHE_LINE_SIZE);
	if (*flows == NULL)
		return -1;
	for (uint32_t i = 0; i < list->count; i++)
		(*flows)[i] = list->entries[i].flow;
	return 0;
}

static int allocate(struct gen_agent *agent, const struct gen_config *config,
                    const struct gen_traffic *traffic)
{
	agent->flows = rte_zmalloc("agent", config->flows * sizeof(*agent->flows), RTE_CACHE_LINE_SIZE);
	agent->next = rte_zmalloc("agent", config->flows * sizeof(*agent->next), RTE_CACHE_LINE_SIZE);
	if (agent->flows == NULL || agent->next == NULL)
		return -1;
	for (unsigned int i = 0; i < GEN_LISTS; i++)
		if (copy_list(&traffic->lists[i], &agent->lists[i]))
			return -1;
	return 0;
}

/* Its counts are the engine's. */
static void share_histogram(struct agent_histogram *mine, const struct histogram *engines)
{
	*mine = (struct agent_histogram){.counts = engines->counts, .nb_counts = engines->counts_len};
	mine->min = UINT64_MAX;
}

int gen_agent_make(const struct gen_config *config, struct gen_engine *engine, struct node_error *err)
{
	struct gen_agent *agent = rte_zmalloc("agent", sizeof(*agent), RTE_CACHE_LINE_SIZE);
	const char *wrong;

	engine->agent = agent;
	if (agent == NULL || allocate(agent, config, &engine->traffic) != 0)
		return node_fail(err, "gen.flows", "no memory for an agent with %u flows", config->flows);
	fill_flows(agent, &engine->traffic, config->flows);
	agent->reads = wire_of(config->reads_port);
	agent->generator = (struct agent_generator){
	        .port = wire_of(config->target_port),
	        .rings = agent->rx_rings,
	        .flows = agent->flows,
	        .nb_flows = config->flows,
	        .frame_bytes = config->frame.sizes[0].bytes - PACKET_FCS_BYTES,
	        .batch = config->burst,
	        .bursts = agent->bursts,
	        .list = agent->lists[GEN_MIXED],
	        .nb_list = engine->traffic.lists[GEN_MIXED].count,
	};
	agent->receiver = (struct agent_receiver){
	        .port = agent->reads,
	        .rings = agent->tx_rings,
	        .batch = GEN_RX_BURST,
	        .blind = config->rx_port == NO_PORT,
	};
	wrong = agent_generator_check(&agent->generator);
	if (wrong != NULL)
		return node_fail(err, "gen", "%s", wrong);
	agent_prepare(&agent->generator);
	return 0;
}

/*
 * List the slots of arrivals that are not constant. If the trial has more, they repeat after whole periods of a pattern, and Poisson arrivals
 * are stretched so that their mean is exact.
 */
static int list_times(struct gen_agent *agent, const struct gen_engine *engine, double pps,
                      struct pacer *pacer, struct node_error *err)
{
	const uint32_t most = pacer->gaps > 0 ? TIMES_MAX / pacer->gaps * pacer->gaps : TIMES_MAX;
	const struct trial *trial = engine->trial;
	const pacing_time begin = (pacing_time)trial->begin_tsc << 64;
	const pacing_time end = (pacing_time)trial->end_tsc << 64;
	struct agent_generator *g = &agent->generator;
	const uint64_t first = (uint64_t)((pacer->next - begin) >> 48);
	double stretch = 1;

	if (most == 0)
		return node_fail(
		        err, "gen.arrivals",
		        "on-off: a period has %u packets; an agent lists at most %u (use generator core)",
		        pacer->gaps, TIMES_MAX);
	for (g->nb_times = 0; g->nb_times < most && (pacer->gaps > 0 || pacer->next < end); g->nb_times++) {
		agent->times_q16[g->nb_times] = (uint64_t)((pacer->next - begin) >> 48);
		pacer_advance(pacer);
	}
	if (g->nb_times == 0)
		agent->times_q16[g->nb_times++] = first;
	g->times_q16 = agent->times_q16;
	g->period_q16 = (uint64_t)((pacer->next - begin) >> 48) - first;
	if (!pacer->poisson || g->nb_times < TIMES_MAX)
		return 0;
	stretch = ldexp((double)trial->tsc_hz / pps * g->nb_times, 16) / (double)g->period_q16;
	for (uint32_t i = 0; i < g->nb_times; i++)
		agent->times_q16[i] = (uint64_t)((double)agent->times_q16[i] * stretch);
	g->period_q16 = (uint64_t)((double)g->period_q16 * stretch);
	return 0;
}

/* The distance of two frames at the port's line rate in ticks, 48.16 fixed point; 0 if that is not known. */
static uint64_t line_q16(const struct gen_config *config, uint64_t tsc_hz)
{
	const double wire_bits = 8.0 * (config->frame.sizes[0].bytes + PACKET_WIRE_OVERHEAD_BYTES);
	struct rte_eth_link link;

	if (rte_eth_link_get_nowait(config->target_port, &link) != 0 ||
	    link.link_speed == RTE_ETH_SPEED_NUM_NONE || link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN)
		return 0;
	return (uint64_t)ldexp((double)tsc_hz * wire_bits / (link.link_speed * 1e6), 16);
}

static int choose_schedule(const struct gen_config *config, struct gen_engine *engine, double pps,
                           struct pacer *pacer, struct node_error *err)
{
	struct gen_agent *agent = engine->agent;
	struct agent_generator *g = &agent->generator;
	const enum gen_list_kind list = engine->backlog ? GEN_HOT : GEN_MIXED;

	g->list = agent->lists[list];
	g->nb_list = engine->traffic.lists[list].count;
	g->saturates = engine->saturate;
	g->silent = !engine->saturate && pps == 0;
	g->times_q16 = NULL;
	g->nb_times = 0;
	g->interval_q16 = 0;
	if (engine->saturate)
		g->interval_q16 = line_q16(config, engine->trial->tsc_hz);
	else if (!g->silent && pacer_is_constant(pacer))
		g->interval_q16 = (uint64_t)llround(ldexp((double)engine->trial->tsc_hz / pps, 16));
	else if (!g->silent)
		return list_times(agent, engine, pps, pacer, err);
	return 0;
}

int gen_agent_start(const struct gen_config *config, struct gen_engine *engine, double pps,
                    struct pacer *pacer, struct node_error *err)
{
	struct gen_agent *agent = engine->agent;
	struct agent_generator *g = &agent->generator;
	struct agent_receiver *r = &agent->receiver;
	const struct trial *trial = engine->trial;

	if (choose_schedule(config, engine, pps, pacer, err))
		return -1;
	g->stop = (const uint32_t *)&trial->phase;
	g->mark = engine->mark;
	g->late_max = cycles_of_ns(config->late_max_ns, trial->tsc_hz);
	g->ns_per_tick_q32 = r->ns_per_tick_q32 = engine->ns_per_cycle_q32;
	g->ticks_per_us = engine->cycles_us;
	g->recording = 0;
	share_histogram(&g->lateness, &engine->lateness_ns);
	share_histogram(&g->interdeparture, &engine->interdeparture_ns);
	memset(agent->bursts, 0, sizeof(agent->bursts));
	memset(agent->next, 0, config->flows * sizeof(*agent->next));
	memset(agent->seen, 0, sizeof(agent->seen));
	r->check = (struct agent_check){
	        .mark = engine->mark,
	        .nb_flows = config->flows,
	        .next = agent->next,
	        .seen = agent->seen,
	        .nb_seen = SEEN_WORDS,
	};
	r->window_begin = trial->start_tsc - trial->begin_tsc;
	r->window_end = trial->end_tsc - trial->begin_tsc;
	share_histogram(&r->from_intended, &engine->latency_intended_ns);
	share_histogram(&r->from_sent, &engine->latency_sent_ns);
	agent_begin(g, agent->reads != NULL ? r : NULL, trial->begin_tsc);
	return 0;
}

static void take_histogram(struct histogram *engines, const struct agent_histogram *mine)
{
	engines->total = mine->total;
	engines->refused = mine->refused;
	engines->min = mine->min;
	engines->max = mine->max;
	engines->sum = mine->sum;
}

static struct gen_counts counts_of(const struct gen_agent *agent)
{
	const struct agent_generator *g = &agent->generator;
	const struct agent_check *check = &agent->receiver.check;
	struct gen_counts counts = {
	        .intended = g->numbered + g->unsent,
	        .sent = g->numbered,
	        .unsent = g->unsent,
	        .tx_bytes = g->numbered * g->frame_bytes,
	        .rx_packets = check->packets - check->unmarked,
	        .rx_bytes = check->bytes,
	        .rx_foreign = check->unmarked,
	        .gaps_over_1us = g->gaps_over_1us,
	        .gaps_over_10us = g->gaps_over_10us,
	        .gaps_over_100us = g->gaps_over_100us,
	        .cycles_over_100us = g->ticks_over_100us,
	};

	memcpy(counts.bursts, agent->bursts, sizeof(counts.bursts));
	return counts;
}

void gen_agent_count(struct gen_engine *engine)
{
	const struct gen_agent *agent = engine->agent;

	engine->counts = counts_of(agent);
	engine->longest_gap = agent->generator.longest_gap;
	take_histogram(&engine->lateness_ns, &agent->generator.lateness);
	take_histogram(&engine->interdeparture_ns, &agent->generator.interdeparture);
	take_histogram(&engine->latency_intended_ns, &agent->receiver.from_intended);
	take_histogram(&engine->latency_sent_ns, &agent->receiver.from_sent);
}

/* The latest step is the first at or behind the start, or follows it at once. */
static void open_window(struct gen_engine *engine)
{
	struct agent_generator *g = &engine->agent->generator;
	const uint64_t now = rte_rdtsc();

	engine->at_open = counts_of(engine->agent);
	engine->queue_polls_at_open = gen_queue_polls_count(&engine->queue_polls, now);
	g->longest_gap = gen_gap_over_start(engine, g->last_gap, g->last_step);
	g->recording = 1;
	engine->in_window = true;
	atomic_store(&engine->opened_tsc, now);
}

static void close_window(struct gen_engine *engine)
{
	const uint64_t now = rte_rdtsc();

	engine->at_close = counts_of(engine->agent);
	engine->queue_polls_at_close = gen_queue_polls_count(&engine->queue_polls, now);
	engine->agent->generator.recording = 0;
	engine->in_window = false;
	atomic_store(&engine->closed_tsc, now);
}

/* Return whether a frame may still come whose latency or order would be recorded. */
static bool is_expecting(const struct gen_agent *agent)
{
	const struct agent_check *check = &agent->receiver.check;

	return !agent->receiver.blind &&
	       check->packets - check->unmarked - check->duplicated < agent->generator.numbered;
}

/* As that of engine.c: the main lcore may share this CPU. */
static void drain(const struct gen_engine *engine)
{
	struct gen_agent *agent = engine->agent;

	while (trial_phase(engine->trial) != TRIAL_OVER) {
		if (agent->reads != NULL && agent_read(&agent->receiver) > 0)
			continue;
		if (is_expecting(agent))
			rte_pause();
		else
			sched_yield();
	}
}

void gen_agent_run(struct gen_engine *engine)
{
	struct gen_agent *agent = engine->agent;
	struct agent_receiver *receiver = agent->reads != NULL ? &agent->receiver : NULL;

	if (agent_send_until(&agent->generator, receiver, agent->receiver.window_begin)) {
		open_window(engine);
		agent_send_until(&agent->generator, receiver, agent->receiver.window_end);
		close_window(engine);
	}
	trial_wake(engine->trial);
	agent_end(&agent->generator, NULL); /* nothing follows the stops of its rings any more */
	drain(engine);
	agent_end(&agent->generator, receiver);
}

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

json_t *gen_agent_sequence(const struct gen_engine *engine)
{
	static const char *const absent[] = {"window", "extent", "distance", "degree", "displaced", "flows"};
	const struct agent_check *check = &engine->agent->receiver.check;
	const uint64_t sent = engine->counts.sent, unique = engine->counts.rx_packets - check->duplicated;
	json_t *report = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "lost",
	                           integer(sent > unique ? sent - unique : 0), "duplicated",
	                           integer(check->duplicated), "reordered", integer(check->reordered),
	                           "reordered_in_total", integer(check->overtaken), "too_old",
	                           integer(check->too_old), "torn", integer(check->torn));

	for (unsigned int i = 0; i < RTE_DIM(absent); i++)
		json_object_set_new(report, absent[i],
		                    json_pack("{s:s}", "absent", "an agent keeps no arrivals per flow"));
	return report;
}

bool gen_agent_frames_waiting(const struct gen_engine *engine)
{
	const struct wire_port *wire = engine->agent->reads;

	for (uint32_t i = 0; wire != NULL && i < wire->tx_rings; i++) {
		const uint32_t *tail = (const uint32_t *)(uintptr_t)wire->tx[i].tail;

		if (wire->tx[i].epoch != 0 && AGENT_LOAD(tail) != AGENT_LOAD(&wire->tx[i].head))
			return true;
	}
	return false;
}

void gen_agent_free(struct gen_engine *engine)
{
	struct gen_agent *agent = engine->agent;

	if (agent == NULL)
		return;
	for (unsigned int i = 0; i < GEN_LISTS; i++)
		rte_free(agent->lists[i]);
	rte_free(agent->flows);
	rte_free(agent->next);
	rte_free(agent);
	engine->agent = NULL;
}
