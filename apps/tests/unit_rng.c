/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "rng.h"

#define SAMPLES 1000000

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Kolmogorov-Smirnov distance of sorted samples from 1 - exp(-x). */
static double exponential_distance(const double *sorted, size_t n)
{
	double distance = 0;

	for (size_t i = 0; i < n; i++) {
		const double expected = -expm1(-sorted[i]);

		distance = fmax(distance, fmax(expected - (double)i / (double)n,
		                               (double)(i + 1) / (double)n - expected));
	}
	return distance;
}

/* The numbers of the public implementations of xoshiro256++ for the state {1, 2, 3, 4}. */
static void first_numbers_of_xoshiro(void)
{
	static const uint64_t expected[] = {41943041,
	                                    58720359,
	                                    3588806011781223,
	                                    3591011842654386,
	                                    9228616714210784205u,
	                                    9973669472204895162u};
	struct rng rng = {.state = {1, 2, 3, 4}};

	for (unsigned int i = 0; i < 6; i++)
		UNIT_EQUAL(rng_next(&rng), expected[i]);
}

static void same_seed_same_numbers(void)
{
	struct rng a, b, c;

	rng_seed(&a, 42);
	rng_seed(&b, 42);
	rng_seed(&c, 43);
	for (int i = 0; i < 100; i++) {
		const uint64_t number = rng_next(&a);

		UNIT_EQUAL(number, rng_next(&b));
		UNIT_CHECK(number != rng_next(&c));
	}
}

static void below_is_uniform(void)
{
	uint64_t counts[10] = {0};
	struct rng rng;

	rng_seed(&rng, 1);
	for (int i = 0; i < SAMPLES; i++)
		counts[rng_below(&rng, 10)]++;
	for (int i = 0; i < 10; i++) /* 5 standard deviations of a binomial count */
		UNIT_NEAR(counts[i], SAMPLES / 10.0, 5 * sqrt(SAMPLES * 0.1 * 0.9));
}

static void shuffle_keeps_elements(void)
{
	uint32_t elements[1000];
	unsigned int moved = 0;
	uint64_t sum = 0;
	struct rng rng;

	for (uint32_t i = 0; i < 1000; i++)
		elements[i] = i;
	rng_seed(&rng, 1);
	rng_shuffle(&rng, elements, 1000, sizeof(elements[0]));
	for (uint32_t i = 0; i < 1000; i++) {
		sum += elements[i];
		moved += elements[i] != i;
	}
	UNIT_EQUAL(sum, 999 * 1000 / 2);
	UNIT_CHECK(moved > 980);
}

static void exponential_layers_are_consistent(void)
{
	struct rng_exponential layers;

	rng_exponential_init(&layers);
	for (int i = 1; i < 255; i++)
		UNIT_NEAR(layers.edge[i] * (layers.height[i + 1] - layers.height[i]),
		          0.0039496598225815571993, 1e-12);
	/* the last layer closes at the top of the curve */
	UNIT_NEAR(layers.edge[255] * (1 - layers.height[255]), 0.0039496598225815571993, 1e-9);
}

static void exponential_sampler_is_exponential(void)
{
	double *samples = malloc(SAMPLES * sizeof(*samples));
	struct rng_exponential layers;
	double sum = 0, squares = 0;
	struct rng rng;

	rng_exponential_init(&layers);
	rng_seed(&rng, 12345);
	for (int i = 0; i < SAMPLES; i++) {
		samples[i] = rng_exponential(&layers, &rng);
		sum += samples[i];
		squares += samples[i] * samples[i];
	}
	qsort(samples, SAMPLES, sizeof(*samples), compare);
	UNIT_NEAR(sum / SAMPLES, 1, 5 / sqrt(SAMPLES));
	UNIT_NEAR(squares / SAMPLES, 2, 5 * sqrt(20.0 / SAMPLES)); /* variance of x^2 is 24 - 4 */
	UNIT_CHECK(exponential_distance(samples, SAMPLES) < 1.63 / sqrt(SAMPLES)); /* 1 % level */
	UNIT_CHECK(samples[SAMPLES - 1] > 7.7); /* the tail beyond layer 0 is used */
	free(samples);
}

static const struct unit_case cases[] = {
        {"first numbers of xoshiro256++", first_numbers_of_xoshiro},
        {"same seed, same numbers", same_seed_same_numbers},
        {"below is uniform", below_is_uniform},
        {"shuffle keeps the elements", shuffle_keeps_elements},
        {"exponential layers have equal areas", exponential_layers_are_consistent},
        {"exponential sampler passes Kolmogorov-Smirnov", exponential_sampler_is_exponential},
        {NULL, NULL},
};

const struct unit_suite unit_rng = {"rng", cases};
