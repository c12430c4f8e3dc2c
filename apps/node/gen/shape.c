/* SPDX-License-Identifier: BSD-3-Clause */
#include "shape.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const struct gen_shape gen_shape_defaults = {
        .kind = GEN_FULLY_BALANCED,
        .seed = 1,
        .concentrated_share = 0.2,
        .concentrated_queues = 100,
        .background_probability = 0.05,
};

const char *const gen_shape_names[] = {"FB", "PC", "NC", "SQ", NULL};

/* The probability that a poll of a cold queue finds something. */
static double cold_probability(const struct gen_shape *shape)
{
	return shape->kind == GEN_SINGLE_QUEUE ? 0 : shape->background_probability;
}

static unsigned int hot_queues(const struct gen_shape *shape, unsigned int queues)
{
	const unsigned int share = (unsigned int)lround(shape->concentrated_share * queues);

	switch (shape->kind) {
	case GEN_PROPORTIONALLY_CONCENTRATED:
		return share < 1 ? 1 : share;
	case GEN_NONPROPORTIONALLY_CONCENTRATED:
		return shape->concentrated_queues < queues ? shape->concentrated_queues : queues;
	case GEN_SINGLE_QUEUE:
		return 1;
	case GEN_FULLY_BALANCED:
		break;
	}
	return queues;
}

unsigned int gen_shape_loaded(const struct gen_shape *shape, unsigned int queues)
{
	return cold_probability(shape) > 0 ? queues : hot_queues(shape, queues);
}

void gen_shape_draw(const struct gen_shape *shape, unsigned int queues, struct rng *rng,
                    struct gen_shape_queues *drawn)
{
	drawn->probability = cold_probability(shape);
	for (unsigned int i = 0; i < queues; i++)
		drawn->queue[i] = (uint16_t)i;
	rng_shuffle(rng, drawn->queue, queues, sizeof(drawn->queue[0]));
	/* a queue that always has packets is hot */
	drawn->hot = drawn->probability < 1 ? hot_queues(shape, queues) : queues;
	drawn->count = gen_shape_loaded(shape, queues);
}

double gen_shape_arrivals(double probability)
{
	return -log1p(-probability);
}

json_t *gen_shape_hot_json(const struct gen_shape_queues *queues)
{
	bool is_hot[RSS_QUEUES_MAX] = {false};
	json_t *list = json_array();

	for (unsigned int i = 0; i < queues->hot; i++)
		is_hot[queues->queue[i]] = true;
	for (unsigned int queue = 0; queue < RSS_QUEUES_MAX; queue++)
		if (is_hot[queue])
			json_array_append_new(list, json_integer(queue));
	return list;
}
