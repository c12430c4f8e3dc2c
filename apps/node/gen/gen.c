/* SPDX-License-Identifier: BSD-3-Clause */
#include "gen.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "cycles.h"
#include "fields.h"
#include "lcore.h"
#include "net_crossover.h"
#include "config.h"
#include "engine.h"
#include "pattern.h"
#include "report.h"
#include "target.h"
#include "trace.h"
#include "wire_agent.h"
#include "ports/pools.h"
#include "ports/ports.h"

#define PPS_MIN 0.1
#define PPS_MAX 2e8 /* slots that one lcore can at least count, if not send */

/* Saturated sending has no known rate; one lcore stays below this. */
#define SATURATED_PPS_MAX 2e8

#define QUEUE_POLLS_PER_S_MAX 1e9

/* The largest stretch or shrinkage of a trace's distances that the fixed point of a pacer allows. */
#define STRETCH_MAX 1e6

#define POOL_CACHE      RTE_MEMPOOL_CACHE_MAX_SIZE
#define POOL_SPARE      2048 /* mbufs per lcore beyond those in rings: bursts in flight and its cache */
#define HIGHEST_TIME_NS 10000000000ull

static struct gen_config config;
static struct gen_engine *engines[GEN_LCORES_MAX]; /* by place of the lcore */
static unsigned int engines_n;                     /* 0: no generator */
static const struct gen_trace *trace;              /* NULL: none */
static struct rte_mempool *pool;
static uint16_t next_mark = 1;
static struct gen_pattern pattern; /* of the trial, where its arrivals have one */

static uint32_t rx_descriptors(uint16_t port)
{
	struct rte_eth_rxq_info queue;
	struct rte_eth_dev_info info;
	uint32_t descriptors = 0;

	if (port == NO_PORT || rte_eth_dev_info_get(port, &info) != 0)
		return 0;
	for (uint16_t i = 0; i < info.nb_rx_queues; i++)
		descriptors += rte_eth_rx_queue_info_get(port, i, &queue) == 0 ? queue.nb_desc : 0;
	return descriptors;
}

/* All TX queues in use have the same size. */
static uint32_t tx_descriptors(uint16_t port)
{
	struct rte_eth_txq_info queue;

	return rte_eth_tx_queue_info_get(port, 0, &queue) == 0 ? config.lcores_n * queue.nb_desc : 0;
}

static uint32_t pool_mbufs(void)
{
	uint32_t mbufs = config.lcores_n * POOL_SPARE + tx_descriptors(config.tx_port);

	if (ports_buffers_change_hands(config.tx_port))
		mbufs += rx_descriptors(config.target_port) + ports_held_mbufs();
	return mbufs;
}

/* Clear the bytes after the stamp once: the loop does not write them. */
static void clear_buffer(struct rte_mempool *mp, void *bytes, void *object, unsigned int index)
{
	(void)mp;
	(void)index;
	memset((uint8_t *)((struct rte_mbuf *)object + 1) + RTE_PKTMBUF_HEADROOM, 0,
	       *(const uint32_t *)bytes);
}

static struct rte_mempool *new_pool(uint32_t mbufs, uint16_t room)
{
	static unsigned int generation; /* the earlier pool may still hold its name */
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "gen.%u", generation++);
	return rte_pktmbuf_pool_create(name, mbufs, POOL_CACHE, 0, room,
	                               rte_eth_dev_socket_id(config.tx_port));
}

static double mean_frame(void)
{
	return trace != NULL ? trace->mean_bytes : frame_sizes_mean(&config.frame);
}

static int prepare_pool(struct node_error *err)
{
	const uint32_t largest = trace != NULL ? trace->largest_bytes : frame_sizes_largest(&config.frame);
	uint32_t room = RTE_MAX(largest, 2048u);
	const uint32_t mbufs = pool_mbufs();

	if (pool != NULL &&
	    (pool->size < mbufs || rte_pktmbuf_data_room_size(pool) < room + RTE_PKTMBUF_HEADROOM)) {
		pool_retire(pool);
		pool = NULL;
	}
	if (pool == NULL)
		pool = new_pool(mbufs, (uint16_t)(room + RTE_PKTMBUF_HEADROOM));
	if (pool == NULL)
		return node_fail(err, "gen", "no memory for %u buffers of %u bytes: %s", mbufs, room,
		                 rte_strerror(rte_errno));
	rte_mempool_obj_iter(pool, clear_buffer, &room);
	return 0;
}

static int prepare_trace(struct node_error *err)
{
	if (config.trace == NULL)
		return 0;
	if (gen_trace_open(config.trace, config.frame_max, &trace, err))
		return -1;
	config.flows = trace->flows;
	return 0;
}

static int prepare_templates(struct gen_engine *engine, struct node_error *err)
{
	const unsigned int sizes = trace != NULL ? trace->sizes : config.frame.count;

	engine->templates =
	        aligned_alloc(_Alignof(struct packet_template), sizes * sizeof(*engine->templates));
	return engine->templates == NULL ? node_fail(err, "gen", "no memory for %u frame sizes", sizes) : 0;
}

static int prepare_target(struct node_error *err)
{
	if (config.target_port != NO_PORT) {
		if (gen_target_read(config.target_port, &config.target, err))
			return -1;
		config.has_target = true;
	}
	const unsigned int queues = config.has_target ? config.target.rss.queues : 1;
	const unsigned int loaded = gen_shape_loaded(&config.shape, queues);

	config.dealt = loaded < config.lcores_n ? 0 : loaded;
	return gen_config_check_flows(&config, queues, err);
}

/* The first lcore has the most. */
static uint32_t flows_of_sender(void)
{
	uint32_t flows = 0;

	for (uint32_t flow = 0; flow < config.flows; flow++)
		flows += gen_config_sender(&config, flow) == 0;
	return flows;
}

/* An agent looks at its frames itself. */
static bool keeps_order(void)
{
	return config.rx_port != NO_PORT && config.kind == GEN_CORE;
}

static int prepare_results(struct gen_engine *engine, struct node_error *err)
{
	const uint32_t flows = flows_of_sender();
	struct histogram *const histograms[] = {&engine->lateness_ns, &engine->interdeparture_ns,
	                                        &engine->latency_intended_ns, &engine->latency_sent_ns};

	for (unsigned int i = 0; i < RTE_DIM(histograms); i++)
		if (histogram_init(histograms[i], 1, HIGHEST_TIME_NS, 3) != 0)
			return node_fail(err, "gen", "no memory for histograms");
	for (unsigned int i = 0; keeps_order() && i < config.lcores_n; i++)
		if ((engine->received[i] = sequence_new(flows)) == NULL)
			return node_fail(err, "gen.flows", "no memory to track %u flows", config.flows);
	engine->departures = calloc(config.departures, sizeof(*engine->departures));
	if (config.departures > 0 && engine->departures == NULL)
		return node_fail(err, "gen.departures", "no memory for %u stamps", config.departures);
	return 0;
}

/* Runs on an lcore of the generator. */
static int take_class(void *error)
{
	const struct sched_param first = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
	const struct sched_param usual = {.sched_priority = 0};

	*(int *)error = config.sleep_ns != 0 ? pthread_setschedparam(pthread_self(), SCHED_FIFO, &first)
	                                     : pthread_setschedparam(pthread_self(), SCHED_OTHER, &usual);
	return 0;
}

/* A generator that sleeps shares a CPU with an lcore that never does, so it must run first when it wakes. */
static int prepare_class(struct node_error *err)
{
	int error = 0;

	for (unsigned int i = 0; i < config.lcores_n && error == 0; i++)
		if (rte_eal_remote_launch(take_class, &error, config.lcores[i]) == 0)
			lcore_wait_all();
	return error == 0 ? 0
	                  : node_fail(err, "gen.sleep_ns", "SCHED_FIFO for its thread: %s", strerror(error));
}

static double cold_per_poll(const struct gen_traffic *traffic)
{
	const struct gen_shape_queues *queues = &traffic->queues;

	return traffic->lists[GEN_COLD].count == 0
	               ? 0
	               : traffic->cold_part * gen_shape_arrivals(queues->probability);
}

static void fill_engine(struct gen_engine *engine, unsigned int place)
{
	struct rte_eth_dev_info info;

	engine->pool = pool;
	engine->trace = trace;
	engine->senders = engines;
	engine->senders_n = config.lcores_n;
	engine->tx_port = config.tx_port;
	engine->tx_queue = engine->rx_queue = (uint16_t)place;
	engine->rx_port = config.rx_port;
	if (config.rx_port != NO_PORT && rte_eth_dev_info_get(config.rx_port, &info) == 0)
		engine->rx_queues = info.nb_rx_queues;
	engine->flows = flows_of_sender();
	engine->target_queues = config.has_target ? config.target.rss.queues : 1;
	engine->burst = config.burst;
	engine->sleep_ns = config.sleep_ns;
	engine->departures_max = config.departures;
	engine->cold_per_poll = cold_per_poll(&engine->traffic);
}

static void free_engine(struct gen_engine *engine)
{
	gen_agent_free(engine);
	histogram_free(&engine->lateness_ns);
	histogram_free(&engine->interdeparture_ns);
	histogram_free(&engine->latency_intended_ns);
	histogram_free(&engine->latency_sent_ns);
	for (unsigned int i = 0; i < GEN_LCORES_MAX; i++)
		sequence_free(engine->received[i]);
	gen_traffic_free(&engine->traffic);
	gen_stamps_free(&engine->stamps);
	free(engine->departures);
	free(engine->templates);
	rte_free(engine);
}

/*
 * A ring whose frames all come from one lcore belongs to that lcore's TX queue; its senders need not fear each other. Other drivers, and
 * senders that are not at the other end, do not know this.
 */
static int assign_rings(struct node_error *err)
{
	static uint16_t senders[RSS_QUEUES_MAX]; /* main lcore only */
	const struct gen_shape_queues *queues = &engines[0]->traffic.queues;
	int status;

	if (config.target_port == NO_PORT || config.lcores_n < 2 || queues->count < config.lcores_n)
		return 0;
	for (unsigned int i = 0; i < config.target.rss.queues; i++)
		senders[i] = UINT16_MAX;
	for (unsigned int i = 0; i < queues->count; i++)
		senders[queues->queue[i]] = (uint16_t)gen_config_sender(&config, i);
	status = net_crossover_assign(config.target_port, config.tx_port, senders, config.target.rss.queues);
	if (status == 0 || status == -ENODEV || status == -ENOTSUP)
		return 0;
	return node_fail(err, "gen.target_port", "its queues cannot be assigned to lcores: %s",
	                 rte_strerror(-status));
}

static void free_engines(void)
{
	if (engines_n > 1 && config.target_port != NO_PORT)
		net_crossover_assign(config.target_port, config.tx_port, NULL, 0); /* others may send again */
	while (engines_n > 0)
		free_engine(engines[--engines_n]);
}

static int prepare_engine(unsigned int place, struct node_error *err)
{
	struct gen_engine *engine = rte_zmalloc("gen", sizeof(*engine), RTE_CACHE_LINE_SIZE);

	if (engine == NULL)
		return node_fail(err, "gen", "no memory");
	engines[engines_n++] = engine;
	if (prepare_templates(engine, err) ||
	    gen_traffic_make(&config, place, config.has_target ? &config.target.rss : NULL, trace,
	                     &engine->traffic, err) ||
	    prepare_results(engine, err) ||
	    gen_stamps_prepare(&engine->stamps, place == 0 ? config.nic_stamps_ns : 0, pool, err))
		return -1;
	fill_engine(engine, place);
	return config.kind == GEN_AGENT ? gen_agent_make(&config, engine, err) : 0;
}

static int prepare(struct node_error *err)
{
	trace = NULL;
	if (prepare_trace(err) || prepare_target(err) || (config.kind == GEN_CORE && prepare_pool(err)) ||
	    prepare_class(err))
		return -1;
	for (unsigned int place = 0; place < config.lcores_n; place++)
		if (prepare_engine(place, err))
			return -1;
	return assign_rings(err);
}

int gen_apply(const struct gen_config *wanted, struct node_error *err)
{
	free_engines();
	if (wanted == NULL)
		return 0;
	config = *wanted;
	if (prepare(err) == 0)
		return 0;
	free_engines();
	return -1;
}

uint16_t gen_tx_port(struct rte_mempool **mempool)
{
	*mempool = pool;
	return config.tx_port;
}

unsigned int gen_lcores(const unsigned int **lcores)
{
	*lcores = config.lcores;
	return engines_n;
}

unsigned int gen_lcore(void)
{
	return engines_n == 0 ? LCORE_ID_ANY : config.lcores[0];
}

unsigned int gen_spinning_lcore(void)
{
	return config.sleep_ns == 0 ? gen_lcore() : LCORE_ID_ANY;
}

bool gen_frames_waiting(void)
{
	if (engines_n > 0 && config.kind == GEN_AGENT)
		return gen_agent_frames_waiting(engines[0]);
	if (engines_n == 0 || config.rx_port == NO_PORT)
		return false;
	for (uint16_t queue = 0; queue < engines[0]->rx_queues; queue++)
		if (rte_eth_rx_queue_count(config.rx_port, queue) > 0)
			return true;
	return false;
}

bool gen_packets_out(void)
{
	uint64_t received = 0, sent = 0;

	if (engines_n == 0 || config.rx_port == NO_PORT || config.target_port != NO_PORT)
		return false;
	for (unsigned int i = 0; i < engines_n; i++) {
		received += __atomic_load_n(&engines[i]->counts.rx_packets, __ATOMIC_RELAXED);
		sent += __atomic_load_n(&engines[i]->counts.sent, __ATOMIC_RELAXED);
	}
	return received < sent;
}

int gen_set_queue_polls(const json_t *request, struct node_error *err)
{
	static const struct field fields[] = {
	        FIELDS_OF_REQUEST,
	        {"per_s", FIELD_REAL, 0, sizeof(double), .most = QUEUE_POLLS_PER_S_MAX, .required = true},
	        {0}};
	double per_s = 0;

	if (engines_n == 0)
		return node_fail(err, "", "no generator is configured");
	if (config.target_port != NO_PORT)
		return node_fail(err, "", "the DUT polls in this node, which counts the polls itself");
	if (fields_read(request, "", fields, &per_s, err))
		return -1;
	for (unsigned int i = 0; i < engines_n; i++)
		atomic_store_explicit(&engines[i]->queue_polls.requested_per_s, per_s, memory_order_relaxed);
	return 0;
}

static int line_rate_pps(double share, double *pps, struct node_error *err)
{
	const double wire_bits = 8 * (mean_frame() + PACKET_WIRE_OVERHEAD_BYTES);
	struct rte_eth_link link;

	if (rte_eth_link_get_nowait(config.kind == GEN_AGENT ? config.target_port : config.tx_port, &link) !=
	            0 ||
	    link.link_speed == RTE_ETH_SPEED_NUM_NONE || link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN)
		return node_fail(err, "rate.line_share", "the TX port's link speed is not known");
	*pps = share * link.link_speed * 1e6 / wire_bits;
	return 0;
}

/* The rate at which the trace was recorded. */
static double trace_pps(void)
{
	return 1e9 * trace->packets / (double)trace->duration_ns;
}

/* *pps becomes 0 for silence. */
static int resolve_rate(const struct trial_rate *rate, double *pps, struct node_error *err)
{
	static const char *const keys[] = {
	        [TRIAL_RATE_PPS] = "rate.pps",
	        [TRIAL_RATE_LINE_SHARE] = "rate.line_share",
	        [TRIAL_RATE_TRACE_SHARE] = "rate.trace_share",
	};
	const char *where = keys[rate->kind];

	*pps = rate->value;
	if (rate->kind == TRIAL_RATE_LINE_SHARE && line_rate_pps(rate->value, pps, err))
		return -1;
	if (rate->kind == TRIAL_RATE_TRACE_SHARE) {
		if (trace == NULL)
			return node_fail(err, where, "the generator has no trace");
		*pps = rate->value * trace_pps();
	}
	if (*pps != 0 && !(*pps >= PPS_MIN && *pps <= PPS_MAX))
		return node_fail(err, where, "%g packets/s; a generator takes 0 or %g..%g", *pps, PPS_MIN,
		                 PPS_MAX);
	if (*pps != 0 && config.arrivals == GEN_TRACE &&
	    (trace_pps() > STRETCH_MAX * *pps || *pps > STRETCH_MAX * trace_pps()))
		return node_fail(err, where,
		                 "%g packets/s from a trace of %g: at most %g times slower or faster", *pps,
		                 trace_pps(), STRETCH_MAX);
	return 0;
}

/* The fields of the stamp limit a trial: 40 bits of sequence number, 48 bits of time. */
static int check_stamp_range(const struct trial *trial, double pps, struct node_error *err)
{
	const uint64_t cycles =
	        trial->end_tsc - trial->begin_tsc + cycles_of_ns(config.late_max_ns, trial->tsc_hz);
	const double packets = pps * ((double)cycles / (double)trial->tsc_hz);

	if (cycles >> PACKET_INTENDED_BITS != 0 || packets >= ldexp(1, PACKET_SEQUENCE_BITS))
		return node_fail(err, "window_ns", "trial too long: at most %g packets and %g s",
		                 ldexp(1, PACKET_SEQUENCE_BITS),
		                 ldexp(1, PACKET_INTENDED_BITS) / (double)trial->tsc_hz);
	return 0;
}

/* Pace cold queues once the rate of polls is known. The processes of several lcores are independent. */
static void start_cold_pacer(struct pacer *pacer, const struct trial *trial, uint64_t late_max,
                             unsigned int place)
{
	pacer_poisson(pacer, trial->begin_tsc, (double)trial->tsc_hz, late_max,
	              config.seed ^ (uint64_t)place << 32);
	pacer_hold(pacer);
}

static void start_pacer(struct pacer *pacer, const struct trial *trial, double pps, uint64_t late_max)
{
	if (pps == 0)
		pacer_silent(pacer);
	else if (config.arrivals == GEN_TRACE)
		pacer_gaps(pacer, trial->begin_tsc, trace->gaps_ns, trace->packets,
		           (double)trial->tsc_hz / 1e9 * trace_pps() / pps, late_max);
	else if (pattern.gaps != NULL)
		pacer_gaps(pacer, trial->begin_tsc, pattern.gaps, pattern.packets, pattern.cycles_per_unit,
		           late_max);
	else if (config.arrivals == GEN_POISSON)
		pacer_poisson(pacer, trial->begin_tsc, (double)trial->tsc_hz / pps, late_max, config.seed);
	else
		pacer_constant(pacer, trial->begin_tsc, (long double)trial->tsc_hz / pps, late_max);
}

static void free_pattern(void)
{
	free(pattern.gaps);
	pattern.gaps = NULL;
}

/* No pattern without a rate, or if the arrivals do not repeat. */
static int prepare_pattern(const struct trial *trial, double pps, struct node_error *err)
{
	free_pattern();
	if (pps == 0 || (config.arrivals != GEN_BURSTS && config.arrivals != GEN_ON_OFF))
		return 0;
	return gen_pattern_make(&config, pps, (double)trial->tsc_hz, &pattern, err);
}

static int make_templates(struct gen_engine *engine, unsigned int place, struct node_error *err)
{
	const uint16_t mark = (uint16_t)(engine->mark + place);
	struct rte_ether_addr source, destination;

	memset(&destination, 0xff, sizeof(destination)); /* no particular receiver: broadcast */
	if (config.has_target)
		destination = config.target.mac;
	if (rte_eth_macaddr_get(config.tx_port, &source) != 0)
		return node_fail(err, "gen.tx_port", "cannot read the port's MAC address");
	gen_stamps_address(&engine->stamps, &source, &destination);
	if (trace != NULL)
		for (unsigned int i = 0; i < trace->sizes; i++)
			packet_template_init(&engine->templates[i], trace->frame_bytes[i], &source,
			                     &destination, mark);
	else
		for (unsigned int i = 0; i < config.frame.count; i++)
			packet_template_init(&engine->templates[i], config.frame.sizes[i].bytes, &source,
			                     &destination, mark);
	return 0;
}

static void clear_results(struct gen_engine *engine)
{
	memset(&engine->counts, 0, sizeof(engine->counts));
	memset(&engine->at_open, 0, sizeof(engine->at_open));
	memset(&engine->at_close, 0, sizeof(engine->at_close));
	engine->opened_tsc = engine->closed_tsc = engine->longest_gap = 0;
	engine->departures_count = 0;
	histogram_reset(&engine->lateness_ns);
	histogram_reset(&engine->interdeparture_ns);
	histogram_reset(&engine->latency_intended_ns);
	histogram_reset(&engine->latency_sent_ns);
	for (unsigned int i = 0; i < config.lcores_n && keeps_order(); i++)
		sequence_reset(engine->received[i]);
}

static void rewind_loop(struct gen_engine *engine, const struct trial *trial)
{
	engine->trial = trial;
	engine->mark = next_mark;
	engine->saturate = trial->rate.kind == TRIAL_RATE_SATURATE;
	engine->backlog =
	        engine->saturate && trace == NULL && config.has_target && config.target.rss.reta_size > 0;
	engine->cycles_us = trial->tsc_hz / 1000000;
	engine->ns_per_cycle_q32 = (uint64_t)llround(ldexp(1e9 / (double)trial->tsc_hz, 32));
	engine->sequence = engine->last_departure_tsc = 0;
	engine->held = engine->waiting = engine->cold_due = 0;
	memset(engine->place, 0, sizeof(engine->place));
	memset(engine->sent_of, 0, sizeof(engine->sent_of));
	gen_queue_polls_begin(&engine->queue_polls, config.target_port, trial->begin_tsc, trial->tsc_hz);
	engine->in_window = false;
}

static int start_engine(struct gen_engine *engine, unsigned int place, const struct trial *trial, double pps,
                        struct node_error *err)
{
	const uint64_t late_max = cycles_of_ns(config.late_max_ns, trial->tsc_hz);

	rewind_loop(engine, trial);
	clear_results(engine);
	gen_stamps_begin(&engine->stamps, config.tx_port, config.rx_port, trial);
	if (engine->saturate) {
		start_cold_pacer(&engine->pacer, trial, late_max, place);
	} else {
		start_pacer(&engine->pacer, trial, pps, late_max);
		if (engine->traffic.turns != NULL && pps != 0)
			pacer_share(&engine->pacer, engine->traffic.first, engine->traffic.turns,
			            engine->traffic.lists[GEN_MIXED].count);
	}
	return config.kind == GEN_AGENT ? gen_agent_start(&config, engine, pps, &engine->pacer, err)
	                                : make_templates(engine, place, err);
}

int gen_start(const struct trial *trial, struct node_error *err)
{
	const bool saturate = trial->rate.kind == TRIAL_RATE_SATURATE;
	double pps = 0;

	if ((!saturate && resolve_rate(&trial->rate, &pps, err)) ||
	    check_stamp_range(trial, saturate ? SATURATED_PPS_MAX : pps, err) ||
	    prepare_pattern(trial, pps, err))
		return -1;
	for (unsigned int place = 0; place < engines_n; place++)
		if (start_engine(engines[place], place, trial, pps, err))
			return -1;
	next_mark = (uint16_t)(next_mark + engines_n);
	return 0;
}

int gen_lcore_main(void *place)
{
	struct gen_engine *engine = engines[(uintptr_t)place];

	if (engine->agent != NULL)
		gen_agent_run(engine);
	else
		gen_engine_run(engine);
	return 0;
}

json_t *gen_report(void)
{
	json_t *lcores = json_array();

	for (unsigned int place = 0; place < engines_n && engines[0]->trial != NULL; place++)
		json_array_append_new(lcores, gen_report_lcore(&config, engines, place));
	return lcores;
}

void gen_close(void)
{
	free_engines();
	free_pattern();
	gen_trace_close();
	pool_retire(pool);
	pool = NULL;
}
