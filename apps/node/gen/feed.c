/* SPDX-License-Identifier: BSD-3-Clause */
#include "feed.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>

#include "net_crossover.h"
#include "ports/ports.h"

static struct {
	bool is_set;
	uint16_t port;
	struct gen_shape_queues queues;
} feed;

static const struct field fields[] = {
        {"port", FIELD_STRING, FIELD_OF(struct gen_feed, port_name), .max = RTE_ETH_NAME_MAX_LEN - 1,
         .required = true},
        GEN_SHAPE_FIELDS(struct gen_feed, shape),
        {"seed", FIELD_NUMBER, FIELD_OF(struct gen_feed, seed), .max = INT64_MAX},
        {0},
};

static int set_queue(uint16_t queue, double probability, uint64_t seed, struct node_error *err)
{
	const int status = net_crossover_feed_queue_polls(feed.port, queue, probability, seed);

	if (status == -ENODEV || status == -ENOTSUP)
		return node_fail(err, "feed.port",
		                 "only a net_crossover with feed=infinite makes packets itself");
	if (status < 0)
		return node_fail(err, "feed.port", "RX queue %u: %s", queue, rte_strerror(-status));
	return 0;
}

/* Each queue draws from a stream of its own; splitmix64 turns neighbouring seeds into unrelated ones. */
static int set_queues(uint64_t seed, struct node_error *err)
{
	const unsigned int queues = ports_rx_queues(feed.port);
	struct rng rng;

	rng_seed(&rng, seed);
	for (unsigned int i = 0; i < queues; i++) {
		const double probability = i < feed.queues.hot ? 1 : feed.queues.probability;

		if (set_queue(feed.queues.queue[i], probability, rng_next(&rng), err))
			return -1;
	}
	return 0;
}

/* A port that a configure does not touch keeps the settings of its queues. */
static void forget(void)
{
	for (unsigned int i = 0; feed.is_set && i < ports_rx_queues(feed.port); i++)
		net_crossover_feed_queue_polls(feed.port, (uint16_t)i, 1, 0);
	feed.is_set = false;
}

int gen_feed_parse(const json_t *spec, struct gen_feed *parsed, struct node_error *err)
{
	*parsed = (struct gen_feed){.shape = gen_shape_defaults, .seed = 1};
	return fields_read(spec, "feed", fields, parsed, err);
}

int gen_feed_apply(const struct gen_feed *wanted, struct node_error *err)
{
	struct rng rng;

	forget();
	if (wanted == NULL)
		return 0;
	feed.port = wanted->port;
	rng_seed(&rng, wanted->shape.seed);
	gen_shape_draw(&wanted->shape, ports_rx_queues(feed.port), &rng, &feed.queues);
	feed.is_set = true;
	if (set_queues(wanted->seed, err) == 0)
		return 0;
	forget();
	return -1;
}

json_t *gen_feed_report(void)
{
	if (!feed.is_set)
		return NULL;
	return json_pack("{s:o, s:i, s:f}", "hot", gen_shape_hot_json(&feed.queues), "cold",
	                 (int)(ports_rx_queues(feed.port) - feed.queues.hot), "probability",
	                 feed.queues.probability);
}
