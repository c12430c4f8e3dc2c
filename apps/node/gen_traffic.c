/* SPDX-License-Identifier: BSD-3-Clause */
#include "gen_traffic.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/rng.h"
#include "../lib/routes.h"

#define SOURCE_NETWORK 0xac100000u /* 172.16.0.0/12 */

/* Turns of the play list: enough for weights of 1:1000 to be kept, few enough to stay in L2. */
#define TURNS_MIN          32768
#define TURNS_PER_FLOW_MIN 8

static const struct rss_freedom freedom = {
        .source = 0x000f0000, .destination = 0xff, .source_port = UINT16_MAX};

/* Queues that get traffic, and how much of it in proportion to each other. */
struct queue_weights {
	uint16_t queue[RSS_QUEUES_MAX];
	double weight[RSS_QUEUES_MAX];
	unsigned int count;
};

static unsigned int hot_queues(const struct gen_config *config, unsigned int queues)
{
	const unsigned int share = (unsigned int)lround(config->concentrated_share * queues);

	switch (config->shape) {
	case GEN_PROPORTIONALLY_CONCENTRATED:
		return share < 1 ? 1 : share;
	case GEN_NONPROPORTIONALLY_CONCENTRATED:
		return config->concentrated_queues < queues ? config->concentrated_queues : queues;
	case GEN_SINGLE_QUEUE:
		return 1;
	case GEN_FULLY_BALANCED:
		break;
	}
	return queues;
}

static void weigh_queues(const struct gen_config *config, unsigned int queues, struct rng *rng,
                         struct queue_weights *w)
{
	const unsigned int hot = hot_queues(config, queues);
	const bool has_background = config->shape != GEN_SINGLE_QUEUE && config->background_probability > 0;

	for (unsigned int i = 0; i < queues; i++)
		w->queue[i] = (uint16_t)i;
	rng_shuffle(rng, w->queue, queues, sizeof(w->queue[0]));
	w->count = has_background ? queues : hot;
	for (unsigned int i = 0; i < w->count; i++)
		w->weight[i] = i < hot ? 1 : config->background_probability;
}

static int check_reachable(const struct queue_weights *w, const struct rss_inverse *inverse,
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

static int invert(const struct rss_target *target, const struct queue_weights *w, struct rss_inverse *inverse,
                  struct node_error *err)
{
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

/* Flow f goes to queue number f modulo the queues that get traffic. */
static void make_flows(const struct gen_config *config, const struct queue_weights *w,
                       const struct rss_inverse *inverse, struct rng *rng, struct packet_flow *flows)
{
	for (uint32_t f = 0; f < config->flows; f++) {
		struct rss_tuple tuple = draw_tuple(config, f, rng);

		if (inverse != NULL)
			rss_inverse_steer(inverse, rng, w->queue[f % w->count], &tuple);
		packet_flow_init(&flows[f], (uint16_t)f, tuple.source, tuple.destination, tuple.source_port);
	}
}

/* Each flow's share of the turns, in flow order: its queue's weight, divided among the flows of that queue.
 */
static void deal_flows(const struct gen_config *config, const struct queue_weights *w,
                       struct gen_traffic *traffic)
{
	const uint32_t flows = config->flows;
	double total = 0, before = 0;
	uint32_t turn = 0;

	for (unsigned int i = 0; i < w->count; i++)
		total += w->weight[i];
	for (uint32_t f = 0; f < flows; f++) {
		const unsigned int i = f % w->count;
		const unsigned int beside = flows / w->count + (i < flows % w->count);

		before += w->weight[i] / beside;
		const uint32_t end = (uint32_t)lround(before / total * traffic->turns_count);
		for (; turn < end; turn++)
			traffic->turns[turn].flow = (uint16_t)f;
	}
}

static int make_turns(const struct gen_config *config, const struct queue_weights *w, struct rng *rng,
                      struct gen_traffic *traffic)
{
	uint8_t *sizes = calloc(traffic->turns_count, sizeof(*sizes));

	if (sizes == NULL)
		return -1;
	deal_flows(config, w, traffic);
	rng_shuffle(rng, traffic->turns, traffic->turns_count, sizeof(traffic->turns[0]));
	frame_sizes_deal(&config->frame, rng, sizes, traffic->turns_count);
	for (uint32_t i = 0; i < traffic->turns_count; i++)
		traffic->turns[i].size = sizes[i];
	memcpy(traffic->turns + traffic->turns_count, traffic->turns,
	       GEN_BURST_MAX * sizeof(traffic->turns[0]));
	free(sizes);
	return 0;
}

/* A multiple of the number of flows, so that balanced flows get exactly the same. */
static uint32_t turns_for(uint32_t flows)
{
	const uint32_t wanted =
	        flows * TURNS_PER_FLOW_MIN > TURNS_MIN ? flows * TURNS_PER_FLOW_MIN : TURNS_MIN;

	return (wanted + flows - 1) / flows * flows;
}

static int fill(const struct gen_config *config, const struct queue_weights *w,
                const struct rss_inverse *inverse, struct rng *rng, struct gen_traffic *traffic,
                struct node_error *err)
{
	traffic->turns_count = turns_for(config->flows);
	traffic->flows = calloc(config->flows, sizeof(*traffic->flows));
	traffic->turns = calloc(traffic->turns_count + GEN_BURST_MAX, sizeof(*traffic->turns));
	if (traffic->flows == NULL || traffic->turns == NULL)
		return node_fail(err, "gen.flows", "out of memory for %u flows", config->flows);
	make_flows(config, w, inverse, rng, traffic->flows);
	if (make_turns(config, w, rng, traffic) != 0)
		return node_fail(err, "gen.flows", "out of memory for %u flows", config->flows);
	return 0;
}

int gen_traffic_make(const struct gen_config *config, const struct rss_target *target,
                     struct gen_traffic *traffic, struct node_error *err)
{
	static struct queue_weights weights; /* main lcore only */
	static struct rss_inverse inverse;
	const bool is_placed = target != NULL && target->reta_size > 0;
	struct rng rng;

	memset(traffic, 0, sizeof(*traffic));
	rng_seed(&rng, config->shape_seed);
	weigh_queues(config, target == NULL ? 1 : target->queues, &rng, &weights);
	if (config->flows < weights.count)
		return node_fail(err, "gen.flows",
		                 "%u flows cannot reach the %u queues that this shape loads", config->flows,
		                 weights.count);
	if (is_placed && invert(target, &weights, &inverse, err))
		return -1;
	if (fill(config, &weights, is_placed ? &inverse : NULL, &rng, traffic, err)) {
		gen_traffic_free(traffic);
		return -1;
	}
	return 0;
}

void gen_traffic_count_flows(const struct gen_traffic *traffic, uint64_t sent, uint64_t *counts)
{
	const uint64_t rounds = sent / traffic->turns_count;
	const uint64_t begun = sent % traffic->turns_count;

	for (uint32_t turn = 0; turn < traffic->turns_count; turn++)
		counts[traffic->turns[turn].flow] += rounds + (turn < begun);
}

void gen_traffic_free(struct gen_traffic *traffic)
{
	free(traffic->flows);
	free(traffic->turns);
	memset(traffic, 0, sizeof(*traffic));
}
