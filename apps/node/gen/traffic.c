/* SPDX-License-Identifier: BSD-3-Clause */
#include "traffic.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "rng.h"
#include "routes.h"
#include "trace.h"

#define SOURCE_NETWORK 0xac100000u /* 172.16.0.0/12 */

/* Entries of a play list: few enough to stay in L2. */
#define ENTRIES_MIN          32768
#define ENTRIES_PER_FLOW_MIN 8

/* A cold queue's weight can be a thousandth of a hot one's, and each should have some entries, which makes the list longer. */
#define ENTRIES_PER_COLD_QUEUE 4
#define ENTRIES_MAX            (UINT32_C(1) << 20)

/* Of a shared list each lcore has its own part in memory, 8 bytes per packet. */
#define SHARED_ENTRIES_MAX (UINT32_C(1) << 26)

/*
 * Bits of the source above the number of flows (and its top four in any case), and the host within a route. Ports alone suffice
 * where they are hashed. Many programs let their ports hash addresses only.
 */
static struct rss_freedom freedom_of(const struct gen_config *config)
{
	const uint32_t below = rte_align32pow2(config->flows) - 1;

	return (struct rss_freedom){
	        .source = 0x000f0000 | (0x000fffff & ~below), .destination = 0xff, .source_port = UINT16_MAX};
}

/* The weight of a cold queue relative to a hot one. */
static double cold_weight(const struct gen_config *config, const struct gen_shape_queues *queues)
{
	const double weight = gen_shape_arrivals(queues->probability) / config->busy_poll_packets;

	return weight < 1 ? weight : 1;
}

static int check_reachable(const struct gen_shape_queues *w, const struct rss_inverse *inverse,
                           struct node_error *err)
{
	const struct rss_target *target = inverse->target;
	unsigned int unreachable = 0, example = 0;

	for (unsigned int i = 0; i < w->count; i++) {
		if (rss_inverse_entries(inverse, w->queue[i]) > 0)
			continue;
		unreachable++;
		example = w->queue[i];
	}
	if (unreachable > 0)
		return node_fail(err, "gen.target_port",
		                 "%u of the port's %u RX queues are in none of the %u RETA entries (queue "
		                 "%u, for one); "
		                 "use at most as many queues as RETA entries, and name each in the RETA",
		                 unreachable, target->queues, target->reta_size, example);
	return 0;
}

static int invert(const struct gen_config *config, const struct rss_target *target,
                  const struct gen_shape_queues *w, struct rss_inverse *inverse, struct node_error *err)
{
	const struct rss_freedom freedom = freedom_of(config);
	const int status = rss_inverse_init(inverse, target, &freedom);

	if (status == -EINVAL)
		return node_fail(err, "gen.target_port",
		                 "RETA of %u entries cannot be inverted: not a power of two, or it "
		                 "names a queue above %u",
		                 target->reta_size, RSS_QUEUES_MAX - 1);
	if (status == -ERANGE)
		return node_fail(err, "gen.target_port",
		                 "the RSS key reaches only %u of the bits that choose one of %u RETA "
		                 "entries; use another key",
		                 inverse->rank, target->reta_size);
	return check_reachable(w, inverse, err);
}

static struct rss_tuple draw_tuple(const struct gen_config *config, uint32_t flow, struct rng *rng)
{
	return (struct rss_tuple){
	        .source = SOURCE_NETWORK | flow,
	        .destination =
	                route_address((uint32_t)rng_below(rng, config->routes), (uint8_t)rng_below(rng, 256)),
	        .source_port = (uint16_t)rng_below(rng, UINT16_MAX + 1),
	        .destination_port = PACKET_DESTINATION_PORT,
	};
}

static bool is_own(const struct gen_config *config, unsigned int place, uint32_t flow)
{
	return gen_config_sender(config, flow) == place;
}

/* Flow f goes to queue number f modulo the number of queues with traffic. */
static void make_flows(const struct gen_config *config, const struct gen_shape_queues *w,
                       const struct rss_inverse *inverse, struct rng *rng, struct packet_flow *flows)
{
	uint32_t number[GEN_LCORES_MAX] = {0};

	for (uint32_t f = 0; f < config->flows; f++) {
		struct rss_tuple tuple = draw_tuple(config, f, rng);

		if (inverse != NULL)
			rss_inverse_steer(inverse, rng, w->queue[f % w->count], &tuple);
		packet_flow_init(&flows[f], (uint16_t)number[gen_config_sender(config, f)]++, tuple.source,
		                 tuple.destination, tuple.source_port);
	}
}

/* Return flow number `n` of queue `i`. */
static uint32_t flow_of(const struct gen_shape_queues *w, unsigned int i, uint64_t n)
{
	return (uint32_t)(i + n * w->count);
}

static uint32_t flows_of(const struct gen_config *config, const struct gen_shape_queues *w, unsigned int i)
{
	return config->flows / w->count + (i < config->flows % w->count);
}

static uint32_t own_flows_of(const struct gen_config *config, const struct gen_shape_queues *w,
                             unsigned int place, unsigned int i)
{
	uint32_t own = 0;

	for (uint32_t n = 0; n < flows_of(config, w, i); n++)
		own += is_own(config, place, flow_of(w, i, n));
	return own;
}

/* Draw one of this lcore's flows of the queue, which has at least one. */
static uint16_t draw_own_flow(const struct gen_config *config, const struct gen_shape_queues *w,
                              unsigned int place, unsigned int i, struct rng *rng)
{
	uint32_t flow;

	do
		flow = flow_of(w, i, rng_below(rng, flows_of(config, w, i)));
	while (!is_own(config, place, flow));
	return (uint16_t)flow;
}

static void count_parts(const struct gen_config *config, unsigned int place, struct gen_traffic *traffic)
{
	const struct gen_shape_queues *w = &traffic->queues;

	for (unsigned int i = 0; i < w->count; i++)
		*(i < w->hot ? &traffic->hot_part : &traffic->cold_part) +=
		        (double)own_flows_of(config, w, place, i) / flows_of(config, w, i);
}

/*
 * Each flow's share of the entries: the weight of its queue, divided among the queue's flows. Queue by queue, so that rounding
 * evens out within a queue.
 */
static void deal_flows(const struct gen_config *config, const struct gen_shape_queues *w,
                       struct gen_list *list)
{
	const double cold = cold_weight(config, w);
	const double total = w->hot + cold * (w->count - w->hot);
	double before = 0;
	uint32_t entry = 0;

	for (unsigned int i = 0; i < w->count; i++) {
		const uint32_t flows = flows_of(config, w, i);

		for (uint32_t n = 0; n < flows; n++) {
			before += (i < w->hot ? 1 : cold) / flows;
			const uint32_t end = (uint32_t)lround(before / total * list->count);
			for (; entry < end; entry++)
				list->entries[entry].flow = (uint16_t)flow_of(w, i, n);
		}
	}
}

static int allocate_list(uint32_t count, struct gen_list *list)
{
	list->entries = calloc(count + GEN_BURST_MAX, sizeof(*list->entries));
	list->count = list->entries == NULL ? 0 : count;
	return list->entries == NULL ? -1 : 0;
}

/* The flows are set: deal out sizes, and append a copy of the beginning. */
static int finish_list(const struct gen_config *config, struct rng *rng, struct gen_list *list)
{
	uint8_t *sizes = calloc(list->count, sizeof(*sizes));

	if (sizes == NULL)
		return -1;
	frame_sizes_deal(&config->frame, rng, sizes, list->count);
	for (uint32_t i = 0; i < list->count; i++)
		list->entries[i].size = sizes[i];
	for (uint32_t i = 0; i < GEN_BURST_MAX; i++)
		list->entries[list->count + i] = list->entries[i % list->count];
	free(sizes);
	return 0;
}

/* A multiple of the number of flows, so that balanced flows get exactly the same. */
static uint32_t mixed_entries(const struct gen_config *config, const struct gen_shape_queues *w)
{
	const double cold = cold_weight(config, w);
	double wanted = RTE_MAX(config->flows * ENTRIES_PER_FLOW_MIN, (uint32_t)ENTRIES_MIN);

	if (w->count > w->hot)
		wanted = RTE_MAX(wanted, ENTRIES_PER_COLD_QUEUE * (w->hot / cold + w->count - w->hot));
	wanted = RTE_MIN(wanted, (double)ENTRIES_MAX);
	return ((uint32_t)wanted + config->flows - 1) / config->flows * config->flows;
}

static int make_mixed(const struct gen_config *config, const struct gen_shape_queues *w, struct rng *rng,
                      struct gen_list *list)
{
	if (allocate_list(mixed_entries(config, w), list))
		return -1;
	deal_flows(config, w, list);
	rng_shuffle(rng, list->entries, list->count, sizeof(list->entries[0]));
	return finish_list(config, rng, list);
}

/* Rounds over the hot queues with own flows; in each round every queue has a run of one burst, with random flows. */
static int make_hot(const struct gen_config *config, const struct gen_shape_queues *w, unsigned int place,
                    struct rng *rng, struct gen_list *list)
{
	static uint16_t queues[RSS_QUEUES_MAX]; /* main lcore only */
	unsigned int count = 0;

	for (unsigned int i = 0; i < w->hot; i++)
		if (own_flows_of(config, w, place, i) > 0)
			queues[count++] = (uint16_t)i;
	const uint32_t round = count * config->burst;

	if (count == 0)
		return 0;
	if (allocate_list(round * ((ENTRIES_MIN + round - 1) / round), list))
		return -1;
	for (uint32_t entry = 0; entry < list->count; entry++)
		list->entries[entry].flow =
		        draw_own_flow(config, w, place, queues[entry / config->burst % count], rng);
	return finish_list(config, rng, list);
}

/* This lcore's share of all flows of cold queues, each as often as if all were its own. */
static int make_cold(const struct gen_config *config, const struct gen_shape_queues *w, unsigned int place,
                     struct rng *rng, struct gen_list *list)
{
	if (allocate_list(ENTRIES_MIN, list))
		return -1;
	for (uint32_t entry = 0; entry < list->count; entry++) {
		uint32_t flow;

		do {
			const unsigned int i = w->hot + (unsigned int)rng_below(rng, w->count - w->hot);

			flow = flow_of(w, i, rng_below(rng, flows_of(config, w, i)));
		} while (!is_own(config, place, flow));
		list->entries[entry].flow = (uint16_t)flow;
	}
	return finish_list(config, rng, list);
}

static void lend_trace(const struct gen_trace *trace, struct gen_list *list)
{
	/* no list is written after it was made */
	*list = (struct gen_list){.entries = (struct gen_entry *)(uintptr_t)trace->entries,
	                          .count = trace->packets,
	                          .is_lent = true};
}

/* `places`: of the flows on several queues. */
static int make_lists(const struct gen_config *config, unsigned int place, bool places, struct rng *rng,
                      struct gen_traffic *traffic)
{
	const struct gen_shape_queues *w = &traffic->queues;

	if (make_mixed(config, w, rng, &traffic->lists[GEN_MIXED]) ||
	    (places && make_hot(config, w, place, rng, &traffic->lists[GEN_HOT])) ||
	    (places && traffic->cold_part > 0 && make_cold(config, w, place, rng, &traffic->lists[GEN_COLD])))
		return -1;
	return 0;
}

static uint32_t own_entries(const struct gen_config *config, unsigned int place, const struct gen_list *list)
{
	uint32_t own = 0;

	for (uint32_t entry = 0; entry < list->count; entry++)
		own += is_own(config, place, list->entries[entry].flow);
	return own;
}

/* Keep this lcore's entries of the common play list, in their order and at their places. */
static void keep_own(const struct gen_config *config, unsigned int place, const struct gen_list *all,
                     struct gen_traffic *traffic)
{
	const struct gen_list *list = &traffic->lists[GEN_MIXED];
	uint32_t own = 0, before = 0;

	for (uint32_t entry = 0; entry < all->count; entry++) {
		if (!is_own(config, place, all->entries[entry].flow))
			continue;
		if (own == 0)
			traffic->first = entry;
		traffic->turns[own] = entry - before;
		list->entries[own++] = all->entries[entry];
		before = entry;
	}
	if (own > 0)
		traffic->turns[0] = all->count - before + traffic->first;
	for (uint32_t i = 0; own > 0 && i < GEN_BURST_MAX; i++)
		list->entries[own + i] = list->entries[i % own];
}

static int share_mixed(const struct gen_config *config, unsigned int place, struct gen_traffic *traffic,
                       struct node_error *err)
{
	struct gen_list *list = &traffic->lists[GEN_MIXED];
	const struct gen_list all = *list;
	int status = 0;

	if (config->lcores_n == 1)
		return 0;
	if (all.count > SHARED_ENTRIES_MAX)
		return node_fail(err, "gen.trace", "%u packets; several lcores share a trace of at most %u",
		                 all.count, SHARED_ENTRIES_MAX);
	const uint32_t own = own_entries(config, place, &all);

	*list = (struct gen_list){0};
	traffic->turns = calloc(own + 1, sizeof(*traffic->turns));
	if (traffic->turns == NULL || allocate_list(own, list))
		status = node_fail(err, "gen", "out of memory for %u packets", own);
	else
		keep_own(config, place, &all, traffic);
	if (!all.is_lent)
		free(all.entries);
	return status;
}

static int fill(const struct gen_config *config, unsigned int place, const struct rss_inverse *inverse,
                struct rng *rng, const struct gen_trace *trace, struct gen_traffic *traffic,
                struct node_error *err)
{
	traffic->flows = calloc(config->flows, sizeof(*traffic->flows));
	if (traffic->flows == NULL)
		return node_fail(err, "gen.flows", "out of memory for %u flows", config->flows);
	make_flows(config, &traffic->queues, inverse, rng, traffic->flows);
	if (trace != NULL)
		lend_trace(trace, &traffic->lists[GEN_MIXED]);
	else if (make_lists(config, place, inverse != NULL, rng, traffic) != 0)
		return node_fail(err, "gen.flows", "out of memory for %u flows", config->flows);
	return share_mixed(config, place, traffic, err);
}

int gen_traffic_make(const struct gen_config *config, unsigned int place, const struct rss_target *target,
                     const struct gen_trace *trace, struct gen_traffic *traffic, struct node_error *err)
{
	static struct rss_inverse inverse; /* main lcore only */
	const bool is_placed = target != NULL && target->reta_size > 0;
	struct rng rng;

	memset(traffic, 0, sizeof(*traffic));
	rng_seed(&rng, config->shape.seed);
	gen_shape_draw(&config->shape, target == NULL ? 1 : target->queues, &rng, &traffic->queues);
	if (is_placed && invert(config, target, &traffic->queues, &inverse, err))
		return -1;
	count_parts(config, place, traffic);
	if (fill(config, place, is_placed ? &inverse : NULL, &rng, trace, traffic, err)) {
		gen_traffic_free(traffic);
		return -1;
	}
	return 0;
}

void gen_list_count_flows(const struct gen_list *list, uint64_t sent, uint64_t *counts)
{
	const uint64_t rounds = list->count == 0 ? 0 : sent / list->count;
	const uint64_t begun = sent - rounds * list->count;

	/* entries of a long list that were never reached are not counted */
	const uint64_t reached = rounds == 0 ? begun : list->count;

	for (uint64_t entry = 0; entry < reached; entry++)
		counts[list->entries[entry].flow] += rounds + (entry < begun);
}

void gen_traffic_free(struct gen_traffic *traffic)
{
	free(traffic->flows);
	free(traffic->turns);
	for (unsigned int i = 0; i < GEN_LISTS; i++)
		if (!traffic->lists[i].is_lent)
			free(traffic->lists[i].entries);
	memset(traffic, 0, sizeof(*traffic));
}
