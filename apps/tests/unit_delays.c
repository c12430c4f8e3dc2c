/* SPDX-License-Identifier: BSD-3-Clause */
/* Check service times and hiccups against their distributions; bounds are 5 standard deviations. */
#include "unit.h"

#include <string.h>

#include "delays.h"

#define PACKETS 1000000
#define P       0.01

static const struct delay_distribution fixed = {.kind = DELAY_FIXED, .cycles = 1000};
static const struct delay_distribution exponential = {.kind = DELAY_EXPONENTIAL, .cycles = 2000};
static const struct delay_distribution bimodal = {
        .kind = DELAY_BIMODAL, .cycles = 500, .long_cycles = 50000, .long_probability = 0.02};
static const struct delay_distribution list = {.kind = DELAY_LIST, .listed = 4, .list = {100, 200, 200, 700}};

static struct delays_config with_hiccups(double probability, const struct delay_distribution *delay)
{
	return (struct delays_config){.hiccup = *delay, .hiccup_probability = probability, .hiccup_seed = 1};
}

/* Pass PACKETS packets in bursts of `burst`. Returns the cycles of all. */
static uint64_t run(const struct delays_config *config, unsigned int lcore, uint32_t burst,
                    struct delay_counts *counts)
{
	struct delay_streams streams;
	uint64_t cycles = 0;

	memset(counts, 0, sizeof(*counts));
	delay_streams_begin(&streams, config, lcore);
	for (uint32_t left = PACKETS; left > 0;) {
		const uint32_t n = left < burst ? left : burst;

		cycles += delays_due(&streams, n, counts);
		left -= n;
	}
	return cycles;
}

static void hiccups_are_binomial(void)
{
	const struct delays_config config = with_hiccups(P, &fixed);
	struct delay_counts counts;
	const uint64_t cycles = run(&config, 2, 32, &counts);

	UNIT_NEAR(counts.hiccups, PACKETS * P, 5 * sqrt(PACKETS * P * (1 - P)));
	UNIT_EQUAL(counts.hiccup_cycles, counts.hiccups * 1000);
	UNIT_EQUAL(cycles, counts.hiccup_cycles);
	UNIT_EQUAL(counts.packets, PACKETS);
	UNIT_EQUAL(counts.service_cycles, 0);
}

/* The division into bursts changes nothing, because hiccups belong to packets. */
static void bursts_do_not_matter(void)
{
	const struct delays_config config = with_hiccups(P, &exponential);
	struct delay_counts single, all;

	run(&config, 2, 1, &single);
	for (uint32_t burst = 2; burst <= 512; burst *= 4) {
		run(&config, 2, burst, &all);
		UNIT_EQUAL(all.hiccups, single.hiccups);
		UNIT_EQUAL(all.hiccup_cycles, single.hiccup_cycles);
	}
}

/* An independent draw per packet: after a hiccup the next packet has one with the same probability. */
static void hiccups_have_no_memory(void)
{
	const struct delays_config config = with_hiccups(0.2, &fixed);
	struct delay_counts counts = {0};
	struct delay_streams streams;
	uint64_t hiccups = 0, pairs = 0;
	bool before = false;

	delay_streams_begin(&streams, &config, 3);
	for (int i = 0; i < PACKETS; i++) {
		const bool now = delays_due(&streams, 1, &counts) > 0;

		hiccups += before;
		pairs += before && now;
		before = now;
	}
	UNIT_NEAR((double)pairs / (double)hiccups, 0.2, 5 * sqrt(0.2 * 0.8 / (double)hiccups));
}

static void probability_0_and_1(void)
{
	const struct delays_config never = with_hiccups(0, &fixed), always = with_hiccups(1, &fixed),
	                           seldom = with_hiccups(1e-300, &fixed);
	struct delay_counts counts;

	UNIT_EQUAL(run(&never, 2, 7, &counts), 0);
	UNIT_EQUAL(counts.hiccups, 0);
	UNIT_EQUAL(run(&always, 2, 7, &counts), PACKETS * 1000);
	UNIT_EQUAL(counts.hiccups, PACKETS);
	UNIT_EQUAL(run(&seldom, 2, 7, &counts), 0);
}

static void service_has_its_mean(void)
{
	/* standard deviation of one value */
	const struct {
		const struct delay_distribution *distribution;
		double deviation;
	} all[] = {{&fixed, 0}, {&exponential, 2000}, {&bimodal, 49500 * sqrt(0.02 * 0.98)}, {&list, 235}};

	for (unsigned int i = 0; i < 4; i++) {
		const struct delays_config config = {.service = *all[i].distribution, .service_seed = 1};
		struct delay_counts counts;
		const uint64_t cycles = run(&config, 2, 32, &counts);

		UNIT_EQUAL(cycles, counts.service_cycles);
		UNIT_EQUAL(counts.hiccups, 0);
		UNIT_NEAR((double)cycles / PACKETS, delay_mean(all[i].distribution),
		          5 * all[i].deviation / sqrt(PACKETS) + 1e-9);
	}
	UNIT_NEAR(delay_mean(&bimodal), 1490, 1e-9);
	UNIT_NEAR(delay_mean(&list), 300, 1e-9);
}

static void values_are_those_of_the_distribution(void)
{
	unsigned int longs = 0, seen[3] = {0};
	struct rng rng;

	rng_seed(&rng, 7);
	for (int i = 0; i < PACKETS; i++) {
		const uint64_t value = delay_draw(&bimodal, &rng);

		UNIT_CHECK(value == 500 || value == 50000);
		longs += value == 50000;
	}
	UNIT_NEAR(longs, PACKETS * 0.02, 5 * sqrt(PACKETS * 0.02 * 0.98));
	for (int i = 0; i < PACKETS; i++) {
		const uint64_t value = delay_draw(&list, &rng);

		UNIT_CHECK(value == 100 || value == 200 || value == 700);
		seen[value == 100 ? 0 : value == 200 ? 1 : 2]++;
	}
	UNIT_NEAR(seen[0], PACKETS * 0.25, 5 * sqrt(PACKETS * 0.25 * 0.75));
	UNIT_NEAR(seen[1], PACKETS * 0.5, 5 * sqrt(PACKETS * 0.5 * 0.5));
}

static void streams_are_apart(void)
{
	const struct delays_config plain = with_hiccups(P, &exponential);
	struct delays_config served = plain;
	struct delay_counts alone, beside, other;
	struct delay_streams a, b;

	served.service = exponential;
	served.service_seed = 1;
	run(&plain, 2, 32, &alone);
	run(&served, 2, 32, &beside);
	run(&plain, 3, 32, &other);
	UNIT_EQUAL(alone.hiccups, beside.hiccups); /* whatever the service draws */
	UNIT_EQUAL(alone.hiccup_cycles, beside.hiccup_cycles);
	UNIT_CHECK(alone.hiccup_cycles != other.hiccup_cycles);
	delay_streams_begin(&a, &served, 2);
	delay_streams_begin(&b, &served, 3);
	UNIT_CHECK(a.hiccup_seed != b.hiccup_seed && a.service_seed != b.service_seed);
	UNIT_CHECK(a.hiccup_seed != a.service_seed);
	UNIT_CHECK(a.hiccup_seed < UINT64_C(1) << 63 && a.service_seed < UINT64_C(1) << 63);
}

static void expected_delay_of_a_packet(void)
{
	struct delays_config config = with_hiccups(P, &fixed);

	UNIT_NEAR(delays_mean(&config), 10, 1e-9);
	config.service = bimodal;
	UNIT_NEAR(delays_mean(&config), 1500, 1e-9);
	UNIT_NEAR(delays_mean(&(struct delays_config){0}), 0, 0);
}

static const struct unit_case cases[] = {
        {"hiccups are binomial", hiccups_are_binomial},
        {"bursts do not matter", bursts_do_not_matter},
        {"hiccups have no memory", hiccups_have_no_memory},
        {"probability 0 and 1", probability_0_and_1},
        {"service has its mean", service_has_its_mean},
        {"values are those of the distribution", values_are_those_of_the_distribution},
        {"streams are apart", streams_are_apart},
        {"expected delay of a packet", expected_delay_of_a_packet},
        {NULL, NULL},
};

const struct unit_suite unit_delays = {"delays", cases};
