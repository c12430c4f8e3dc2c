/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "rebalance.h"
#include "rng.h"
#include "rss.h"

#define ENTRIES 512

static uint64_t loads[ENTRIES];
static uint16_t reta[ENTRIES];

static void deal(unsigned int queues, uint64_t load_of_queue_0, uint64_t load_of_others)
{
	for (unsigned int i = 0; i < ENTRIES; i++) {
		reta[i] = (uint16_t)(i % queues);
		loads[i] = reta[i] == 0 ? load_of_queue_0 : load_of_others;
	}
}

static void what_is_balanced_stays(void)
{
	deal(4, 100, 100);
	UNIT_NEAR(rebalance_excess(loads, reta, ENTRIES, 4), 0, 0);
	UNIT_EQUAL(rebalance(loads, reta, ENTRIES, 4, 0), 0);
	deal(2, 101, 100); /* 0.5 % above the mean */
	UNIT_EQUAL(rebalance(loads, reta, ENTRIES, 2, 0.02), 0);
}

static void without_load_nothing_moves(void)
{
	deal(2, 0, 0);
	UNIT_NEAR(rebalance_excess(loads, reta, ENTRIES, 2), 0, 0);
	UNIT_EQUAL(rebalance(loads, reta, ENTRIES, 2, 0), 0);
}

static void half_of_one_queue_goes_to_the_other(void)
{
	deal(2, 100, 0);
	UNIT_NEAR(rebalance_excess(loads, reta, ENTRIES, 2), 1, 1e-9);
	UNIT_EQUAL(rebalance(loads, reta, ENTRIES, 2, 0.02), 126); /* 130 of 256 are 1.6 % above 128 */
	UNIT_CHECK(rebalance_excess(loads, reta, ENTRIES, 2) <= 0.02);
	UNIT_EQUAL(rebalance(loads, reta, ENTRIES, 2, 0.02), 0);
}

/* A flow cannot be divided: a load above the difference stays, the rest moves away. */
static void a_heavy_entry_is_left_alone_on_its_queue(void)
{
	deal(2, 1, 1);
	loads[0] = 100000;
	rebalance(loads, reta, ENTRIES, 2, 0);
	UNIT_EQUAL(reta[0], 0);
	for (unsigned int i = 1; i < ENTRIES; i++)
		UNIT_EQUAL(reta[i], 1);
	UNIT_EQUAL(rebalance(loads, reta, ENTRIES, 2, 0), 0);
}

static void large_entries_are_moved_before_many_small_ones(void)
{
	deal(2, 1, 0);
	loads[0] = loads[2] = 1000;
	UNIT_EQUAL(rebalance(loads, reta, ENTRIES, 2, 0.13), 1); /* 254 of 2254 remain: 0.127 above */
}

static void random_loads_come_within_the_threshold(void)
{
	struct rng rng;

	rng_seed(&rng, 1);
	for (unsigned int queues = 2; queues <= 16; queues++) {
		uint64_t before = 0, after = 0;

		for (unsigned int i = 0; i < ENTRIES; i++) {
			reta[i] = (uint16_t)(rng_below(&rng, 2) ? 0 : rng_below(&rng, queues));
			loads[i] = rng_below(&rng, 1000);
			before += loads[i];
		}
		rebalance(loads, reta, ENTRIES, queues, 0.02);
		UNIT_CHECK(rebalance_excess(loads, reta, ENTRIES, queues) <= 0.02);
		for (unsigned int i = 0; i < ENTRIES; i++) {
			UNIT_CHECK(reta[i] < queues);
			after += loads[i];
		}
		UNIT_EQUAL(after, before);
	}
}

const struct unit_suite unit_rebalance = {
        "rebalance",
        (const struct unit_case[]){
                {"what is balanced stays", what_is_balanced_stays},
                {"without load nothing moves", without_load_nothing_moves},
                {"half of one queue goes to the other", half_of_one_queue_goes_to_the_other},
                {"a heavy entry is left alone on its queue", a_heavy_entry_is_left_alone_on_its_queue},
                {"large entries are moved before many small ones",
                 large_entries_are_moved_before_many_small_ones},
                {"random loads come within the threshold", random_loads_come_within_the_threshold},
                {NULL, NULL},
        },
};
