/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Distribution of traffic over the RX queues of a port (HyperPlane, MICRO'20, section II-C). A hot queue is always backlogged,
 * so that a poll gets as many packets as it asks for. A poll of a cold queue finds something with probability
 * `background_probability`. FB: all queues are hot. PC: `concentrated_share` of them (rounded, at least one). NC:
 * `concentrated_queues` of them, all if there are fewer. SQ: one, and the others get nothing.
 */
#ifndef GEN_SHAPE_H
#define GEN_SHAPE_H

#include <stdint.h>
#include <jansson.h>

#include "fields.h"
#include "rng.h"
#include "rss.h"

enum gen_shape_kind {
	GEN_FULLY_BALANCED,
	GEN_PROPORTIONALLY_CONCENTRATED,
	GEN_NONPROPORTIONALLY_CONCENTRATED,
	GEN_SINGLE_QUEUE,
};

struct gen_shape {
	enum gen_shape_kind kind;
	uint64_t seed;
	double concentrated_share;
	uint32_t concentrated_queues;
	double background_probability;
};

/* The shape's entries in the table of an object's keys (fields.h), for `member` of `type`. */
#define GEN_SHAPE_FIELDS(type, member)                                                                       \
	{"shape", FIELD_CHOICE, FIELD_OF(type, member.kind), .names = gen_shape_names},                      \
	        {"shape_seed", FIELD_NUMBER, FIELD_OF(type, member.seed), .max = INT64_MAX},                 \
	        {"concentrated_share", FIELD_REAL, FIELD_OF(type, member.concentrated_share), .most = 1},    \
	        {"concentrated_queues", FIELD_NUMBER, FIELD_OF(type, member.concentrated_queues), .min = 1,  \
	         .max = UINT16_MAX},                                                                         \
	        {"background_probability", FIELD_REAL, FIELD_OF(type, member.background_probability),        \
	         .most = 1}

/* The hot queues: queue[0..hot-1]. The others of the `count` may get packets; queues beyond get none. */
struct gen_shape_queues {
	uint16_t queue[RSS_QUEUES_MAX];
	unsigned int count;
	unsigned int hot;
	double probability; /* of a poll of a cold queue */
};

extern const struct gen_shape gen_shape_defaults;
extern const char *const gen_shape_names[]; /* by enum gen_shape_kind */

/* Return how many of the queues 0..queues-1 may get packets. */
unsigned int gen_shape_loaded(const struct gen_shape *shape, unsigned int queues);

/* Draw the hot ones of queues 0..queues-1 with `rng`, which the caller has seeded with shape->seed. */
void gen_shape_draw(const struct gen_shape *shape, unsigned int queues, struct rng *rng,
                    struct gen_shape_queues *drawn);

/* Return the mean number of arrivals between two polls for which a Poisson process leaves a poll empty with 1 - probability. */
double gen_shape_arrivals(double probability);

/* Return the numbers of the hot queues as a JSON array, ascending. */
json_t *gen_shape_hot_json(const struct gen_shape_queues *queues);

#endif
