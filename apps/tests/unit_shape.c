/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "gen/shape.h"

static struct gen_shape_queues drawn;

static struct gen_shape shape_of(enum gen_shape_kind kind, double share, uint32_t queues, double probability)
{
	return (struct gen_shape){.kind = kind,
	                          .concentrated_share = share,
	                          .concentrated_queues = queues,
	                          .background_probability = probability};
}

static void draw(const struct gen_shape *shape, unsigned int queues, uint64_t seed)
{
	struct rng rng;

	rng_seed(&rng, seed);
	gen_shape_draw(shape, queues, &rng, &drawn);
}

static void hot_and_cold_queues_are_as_many_as_asked_for(void)
{
	static const struct {
		enum gen_shape_kind kind;
		double share;
		uint32_t concentrated;
		double probability;
		unsigned int queues, hot, count;
	} rows[] = {
	        {GEN_FULLY_BALANCED, 0.2, 100, 0.05, 500, 500, 500},
	        {GEN_PROPORTIONALLY_CONCENTRATED, 0.2, 100, 0.05, 500, 100, 500},
	        {GEN_PROPORTIONALLY_CONCENTRATED, 0.2, 100, 0.05, 1, 1, 1},
	        {GEN_PROPORTIONALLY_CONCENTRATED, 0, 100, 0.05, 8, 1, 8},
	        {GEN_PROPORTIONALLY_CONCENTRATED, 0.5, 100, 0.05, 5, 3, 5}, /* a half counts as one */
	        {GEN_PROPORTIONALLY_CONCENTRATED, 0.2, 100, 0, 500, 100, 100},
	        {GEN_PROPORTIONALLY_CONCENTRATED, 0.2, 100, 1, 500, 500,
	         500}, /* a queue that always has packets is hot */
	        {GEN_NONPROPORTIONALLY_CONCENTRATED, 0.2, 100, 0.05, 500, 100, 500},
	        {GEN_NONPROPORTIONALLY_CONCENTRATED, 0.2, 100, 0.05, 60, 60,
	         60}, /* fewer than the hot ones requested */
	        {GEN_SINGLE_QUEUE, 0.2, 100, 0.05, 500, 1, 1},
	        {GEN_SINGLE_QUEUE, 0.2, 100, 1, 500, 1, 1},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct gen_shape shape =
		        shape_of(rows[i].kind, rows[i].share, rows[i].concentrated, rows[i].probability);

		draw(&shape, rows[i].queues, i);
		UNIT_EQUAL(drawn.hot, rows[i].hot);
		UNIT_EQUAL(drawn.count, rows[i].count);
	}
}

static void every_queue_is_drawn_once(void)
{
	const struct gen_shape shape = shape_of(GEN_PROPORTIONALLY_CONCENTRATED, 0.2, 0, 0.05);

	for (unsigned int queues = 1; queues <= RSS_QUEUES_MAX; queues++) {
		unsigned int seen[RSS_QUEUES_MAX] = {0}, missing = 0;

		draw(&shape, queues, queues);
		for (unsigned int i = 0; i < queues; i++)
			seen[drawn.queue[i]]++;
		for (unsigned int i = 0; i < queues; i++)
			missing += seen[i] != 1;
		UNIT_EQUAL(missing, 0);
	}
}

static void the_seed_decides_which_are_hot(void)
{
	const struct gen_shape shape = shape_of(GEN_NONPROPORTIONALLY_CONCENTRATED, 0, 10, 0.05);
	uint16_t first[10];

	draw(&shape, 500, 1);
	memcpy(first, drawn.queue, sizeof(first));
	draw(&shape, 500, 1);
	UNIT_CHECK(memcmp(first, drawn.queue, sizeof(first)) == 0);
	draw(&shape, 500, 2);
	UNIT_CHECK(memcmp(first, drawn.queue, sizeof(first)) != 0);
}

static void hot_queues_are_told_in_order(void)
{
	const struct gen_shape shape = shape_of(GEN_NONPROPORTIONALLY_CONCENTRATED, 0, 10, 0.05);
	json_int_t before = -1;
	json_t *list, *each;
	size_t i;

	draw(&shape, 500, 1);
	list = gen_shape_hot_json(&drawn);
	UNIT_EQUAL(json_array_size(list), 10);
	json_array_foreach(list, i, each)
	{
		UNIT_CHECK(json_integer_value(each) > before);
		before = json_integer_value(each);
	}
	json_decref(list);
}

/* P(no arrival) = exp(-mean) of a Poisson process. */
static void arrivals_leave_a_queue_poll_empty_as_often_as_they_should(void)
{
	for (unsigned int i = 0; i < 64; i++)
		UNIT_NEAR(1 - exp(-gen_shape_arrivals(i / 64.0)), i / 64.0, 1e-12);
}

static const struct unit_case cases[] = {
        {"hot and cold queues are as many as asked for", hot_and_cold_queues_are_as_many_as_asked_for},
        {"every queue is drawn once", every_queue_is_drawn_once},
        {"the seed decides which are hot", the_seed_decides_which_are_hot},
        {"hot queues are reported in order", hot_queues_are_told_in_order},
        {"arrivals leave a poll empty as often as they should",
         arrivals_leave_a_queue_poll_empty_as_often_as_they_should},
        {NULL, NULL},
};

const struct unit_suite unit_shape = {"shape", cases};
