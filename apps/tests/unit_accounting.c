/* SPDX-License-Identifier: BSD-3-Clause */
/* What accounting.h records, against sums that are known because they are made up here. */
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

static void slices_leave_their_weighted_products(void)
{
	const struct account_slice busy = {.polls = 8,
	                                   .visits = 3,
	                                   .switches = 2,
	                                   .packets = 40,
	                                   .lost = 1,
	                                   .cycles = 5000},
	                           quiet = {.polls = 16, .cycles = 160};
	const double x[] = {1, 4, 2, 3, 40, 5000, 1}, y[] = {1, 16, 0, 0, 0, 160, 0};
	struct account *a = new_account();
	int product = 0;

	account_add_slice(a, 3, &busy);
	account_add_slice(a, 3, &quiet);
	UNIT_EQUAL(a->blocks[3].slices, 2);
	UNIT_EQUAL(a->blocks[3].quiet_slices, 1);
	UNIT_EQUAL(a->blocks[2].slices, 0);
	UNIT_EQUAL(a->sampled_cycles, 5160);
	for (int i = 0; i < ACCOUNT_VARIABLES; i++)
		for (int j = i; j < ACCOUNT_VARIABLES; j++)
			UNIT_NEAR(a->blocks[3].products[product++],
			          account_slice_weight(&busy) * x[i] * x[j] +
			                  account_slice_weight(&quiet) * y[i] * y[j],
			          1e-6);
	UNIT_EQUAL(product, ACCOUNT_PRODUCTS);
	UNIT_NEAR(a->blocks[3].quiet[4], account_slice_weight(&quiet) * 16 * 160, 1e-9);
	drop(a);
}

static void slices_are_kept_one_by_one_up_to_their_number(void)
{
	struct account_slice room[2];
	const struct account_slice slice = {.polls = 4, .cycles = 50};
	struct account *a = new_account();

	a->slices = room;
	a->slices_max = 2;
	account_reset(a, 16);
	for (int i = 0; i < 3; i++)
		account_add_slice(a, 0, &slice);
	UNIT_EQUAL(a->slices_count, 2);
	UNIT_EQUAL(room[1].cycles, 50);
	UNIT_EQUAL(a->blocks[0].slices, 3);
	a->slices = NULL;
	drop(a);
}

/* Visits after long gaps are met more often by a random poll, and count less for it. */
static void timed_visits_are_weighted_with_the_inverse_of_their_chance(void)
{
	const uint64_t near[] = {0, 100, 300, 400}, far[] = {0, 1000, 1200, 1300};
	struct account *a = new_account();

	account_add_visit(a, 4, 0, near);
	account_add_visit(a, 4, 3, far);
	account_add_visit(a, 4, 1000000, far);
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
	a->visits[1] = 7;
	a->visits[32] = 5;
	UNIT_EQUAL(account_busy_visits(a), 12);
	UNIT_EQUAL(account_empty_polls(a, 4), 28);
	UNIT_EQUAL(account_empty_polls(a, 1), 0);
	drop(a);
}

static void unsampled_burst_sizes_are_interpolated(void)
{
	uint64_t visits[ACCOUNT_BURST_MAX + 1] = {0};
	double mean[ACCOUNT_BURST_MAX + 1] = {0}, weight[ACCOUNT_BURST_MAX + 1] = {0};

	visits[3] = 10;
	UNIT_NEAR(account_scale_up(visits, weight, mean), 0, 0);
	weight[2] = weight[6] = 0.5;
	mean[2] = 100;
	mean[6] = 180;
	UNIT_NEAR(account_scale_up(visits, weight, mean), 10 * 120, 1e-9);
	visits[3] = 0;
	visits[1] = visits[12] = 1;
	UNIT_NEAR(account_scale_up(visits, weight, mean), 50 + 360, 1e-9);
	visits[2] = 2;
	UNIT_NEAR(account_scale_up(visits, weight, mean), 50 + 360 + 200, 1e-9);
}

static const struct unit_case cases[] = {
        {"slices leave their weighted products", slices_leave_their_weighted_products},
        {"slices are kept one by one up to their number", slices_are_kept_one_by_one_up_to_their_number},
        {"timed visits are weighted with the inverse of their chance",
         timed_visits_are_weighted_with_the_inverse_of_their_chance},
        {"empty polls are what is left of all polls", empty_polls_are_what_is_left_of_all_polls},
        {"unsampled burst sizes are interpolated", unsampled_burst_sizes_are_interpolated},
        {NULL, NULL},
};

const struct unit_suite unit_accounting = {"accounting", cases};
