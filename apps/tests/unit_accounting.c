/* SPDX-License-Identifier: BSD-3-Clause */
/* Check what accounting.h records against known sums. */
#include "unit.h"

#include <stdlib.h>

#include "accounting.h"

static struct account *new_account(void)
{
	struct account *a = calloc(1, sizeof(*a));

	if (!a || account_init(a) < 0)
		abort();
	account_reset(a, 16);
	return a;
}

static void drop(struct account *a)
{
	account_free(a);
	free(a);
}

static void timed_intervals_leave_their_weighted_products(void)
{
	const struct account_timed_interval busy = {.polls = 8,
	                                            .busy_polls = 3,
	                                            .transitions = 2,
	                                            .packets = 40,
	                                            .lost = 1,
	                                            .cycles = 5000},
	                                    quiet = {.polls = 16, .cycles = 160};
	const double x[] = {1, 4, 2, 3, 40, 5000, 1}, y[] = {1, 16, 0, 0, 0, 160, 0};
	struct account *a = new_account();
	int product = 0;

	account_add_timed_interval(a, 3, &busy);
	account_add_timed_interval(a, 3, &quiet);
	UNIT_EQUAL(a->blocks[3].timed_intervals, 2);
	UNIT_EQUAL(a->blocks[3].quiet_timed_intervals, 1);
	UNIT_EQUAL(a->blocks[2].timed_intervals, 0);
	UNIT_EQUAL(a->sampled_cycles, 5160);
	for (int i = 0; i < ACCOUNT_VARIABLES; i++)
		for (int j = i; j < ACCOUNT_VARIABLES; j++)
			UNIT_NEAR(a->blocks[3].products[product++],
			          account_timed_interval_weight(&busy) * x[i] * x[j] +
			                  account_timed_interval_weight(&quiet) * y[i] * y[j],
			          1e-6);
	UNIT_EQUAL(product, ACCOUNT_PRODUCTS);
	UNIT_NEAR(a->blocks[3].quiet[4], account_timed_interval_weight(&quiet) * 16 * 160, 1e-9);
	drop(a);
}

static void timed_intervals_are_kept_one_by_one_up_to_their_number(void)
{
	struct account_timed_interval room[2];
	const struct account_timed_interval timed_interval = {.polls = 4, .cycles = 50};
	struct account *a = new_account();

	a->timed_intervals = room;
	a->timed_intervals_max = 2;
	account_reset(a, 16);
	for (int i = 0; i < 3; i++)
		account_add_timed_interval(a, 0, &timed_interval);
	UNIT_EQUAL(a->timed_intervals_count, 2);
	UNIT_EQUAL(room[1].cycles, 50);
	UNIT_EQUAL(a->blocks[0].timed_intervals, 3);
	a->timed_intervals = NULL;
	drop(a);
}

/* A random poll meets busy polls after long gaps more often, so they count less. */
static void timed_busy_polls_are_weighted_with_the_inverse_of_their_chance(void)
{
	const uint64_t near[] = {0, 100, 300, 400}, far[] = {0, 1000, 1200, 1300};
	struct account *a = new_account();

	account_add_busy_poll(a, 4, 0, near);
	account_add_busy_poll(a, 4, 3, far);
	account_add_busy_poll(a, 4, 1000000, far);
	const double weight = 1 + 1.0 / 4 + 1.0 / ACCOUNT_TIMED_POLLS;

	UNIT_EQUAL(a->strata[4].samples, 3);
	UNIT_NEAR(a->strata[4].weight, weight, 1e-12);
	UNIT_NEAR(a->strata[4].receive_cycles, 100 + 1000 * (weight - 1), 1e-9);
	UNIT_NEAR(a->strata[4].process_cycles, 200 * weight, 1e-9);
	UNIT_NEAR(a->strata[4].transmit_cycles, 100 * weight, 1e-9);
	drop(a);
}

static void empty_polls_are_what_is_left_of_all_polls(void)
{
	struct account *a = new_account();

	a->sweeps = 10;
	a->busy_polls[1] = 7;
	a->busy_polls[32] = 5;
	UNIT_EQUAL(account_busy_busy_polls(a), 12);
	UNIT_EQUAL(account_empty_polls(a, 4), 28);
	UNIT_EQUAL(account_empty_polls(a, 1), 0);
	drop(a);
}

static void unsampled_burst_sizes_are_interpolated(void)
{
	uint64_t busy_polls[ACCOUNT_BURST_MAX + 1] = {0};
	double mean[ACCOUNT_BURST_MAX + 1] = {0}, weight[ACCOUNT_BURST_MAX + 1] = {0};

	busy_polls[3] = 10;
	UNIT_NEAR(account_scale_up(busy_polls, weight, mean), 0, 0);
	weight[2] = weight[6] = 0.5;
	mean[2] = 100;
	mean[6] = 180;
	UNIT_NEAR(account_scale_up(busy_polls, weight, mean), 10 * 120, 1e-9);
	busy_polls[3] = 0;
	busy_polls[1] = busy_polls[12] = 1;
	UNIT_NEAR(account_scale_up(busy_polls, weight, mean), 50 + 360, 1e-9);
	busy_polls[2] = 2;
	UNIT_NEAR(account_scale_up(busy_polls, weight, mean), 50 + 360 + 200, 1e-9);
}

static const struct unit_case cases[] = {
        {"timed intervals leave their weighted products", timed_intervals_leave_their_weighted_products},
        {"timed intervals are kept one by one up to their number",
         timed_intervals_are_kept_one_by_one_up_to_their_number},
        {"timed busy polls are weighted with the inverse of their chance",
         timed_busy_polls_are_weighted_with_the_inverse_of_their_chance},
        {"empty polls are what is left of all polls", empty_polls_are_what_is_left_of_all_polls},
        {"unsampled burst sizes are interpolated", unsampled_burst_sizes_are_interpolated},
        {NULL, NULL},
};

const struct unit_suite unit_accounting = {"accounting", cases};
