/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "pacing.h"

#define HZ       2600000000ull
#define BEGIN    123456789ull
#define LATE_MAX 260000 /* 100 us */
#define ALWAYS   UINT64_MAX
#define BURST    32

struct drained {
	uint64_t taken;
	uint64_t skipped;
	uint64_t first;
	uint64_t last;
};

/* A loop that runs every `turn_cycles` from BEGIN to BEGIN + cycles. */
static struct drained drain(struct pacer *pacer, uint64_t cycles, uint64_t turn_cycles)
{
	struct drained d = {.first = UINT64_MAX};
	uint64_t intended[BURST];

	for (uint64_t now = BEGIN; now < BEGIN + cycles; now += turn_cycles) {
		const unsigned int n = pacer_take(pacer, now, BEGIN + cycles, intended, BURST, &d.skipped);

		if (n == 0)
			continue;
		if (d.taken == 0)
			d.first = intended[0];
		d.last = intended[n - 1];
		d.taken += n;
	}
	return d;
}

static void constant_rate_is_exact(void)
{
	static const double rates[] = {100000, 1e6, 3e6, 14.88e6, 0.7, 12345.678};
	struct pacer pacer;

	for (unsigned int i = 0; i < 6; i++) {
		const uint64_t seconds = rates[i] > 10 ? 1 : 100;

		pacer_constant(&pacer, BEGIN, (long double)HZ / rates[i], LATE_MAX);
		/* slots at 0, T, 2T, ... below the end */
		UNIT_NEAR(pacer_skip_until(&pacer, BEGIN + seconds * HZ), ceil(rates[i] * (double)seconds),
		          1);
	}
}

/* Distances of 1, 2 and 3 us at 2.6 cycles per ns; the one before the first slot lies between two repetitions. */
static void recorded_gaps_come_again_and_again(void)
{
	static const uint32_t gaps_ns[] = {3000, 1000, 2000};
	static const double places[] = {0, 1000, 3000};
	struct pacer pacer;

	pacer_gaps(&pacer, BEGIN, gaps_ns, 3, HZ / 1e9, LATE_MAX);
	for (uint64_t i = 0; i < 3000000; i++, pacer_advance(&pacer)) {
		const uint64_t rounds = i / 3;

		if (i % 100000 > 2)
			continue;
		UNIT_NEAR((double)(pacer_next(&pacer) - BEGIN), 2.6 * ((double)rounds * 6000 + places[i % 3]),
		          3);
	}
}

static void takes_what_is_due_and_no_more(void)
{
	struct pacer pacer;
	uint64_t intended[BURST], skipped = 0;

	pacer_constant(&pacer, BEGIN, 1000, LATE_MAX);
	UNIT_EQUAL(pacer_take(&pacer, BEGIN - 1, ALWAYS, intended, BURST, &skipped), 0);
	UNIT_EQUAL(pacer_take(&pacer, BEGIN, ALWAYS, intended, BURST, &skipped), 1);
	UNIT_EQUAL(intended[0], BEGIN);
	UNIT_EQUAL(pacer_take(&pacer, BEGIN + 999, ALWAYS, intended, BURST, &skipped), 0);
	UNIT_EQUAL(pacer_take(&pacer, BEGIN + 3500, ALWAYS, intended, BURST, &skipped), 3);
	UNIT_EQUAL(intended[2], BEGIN + 3000);
	UNIT_EQUAL(skipped, 0);
}

static void one_burst_at_most_per_turn(void)
{
	struct pacer pacer;
	uint64_t intended[BURST], skipped = 0;

	pacer_constant(&pacer, BEGIN, 100, LATE_MAX);
	UNIT_EQUAL(pacer_take(&pacer, BEGIN + 100000, ALWAYS, intended, BURST, &skipped), BURST);
	UNIT_EQUAL(intended[0], BEGIN); /* the oldest are sent first */
	UNIT_EQUAL(pacer_take(&pacer, BEGIN + 100000, ALWAYS, intended, 5, &skipped), 5);
	UNIT_EQUAL(intended[0], BEGIN + 32 * 100);
	UNIT_EQUAL(skipped, 0);
}

static void too_late_is_skipped_and_counted(void)
{
	struct pacer pacer;
	uint64_t intended[BURST], skipped = 0;

	pacer_constant(&pacer, BEGIN, 1000, LATE_MAX);
	/* a gap of 1 ms at 2.6 slots/us: all but the last 100 us are given up */
	UNIT_EQUAL(pacer_take(&pacer, BEGIN + 2600000, ALWAYS, intended, BURST, &skipped), BURST);
	UNIT_EQUAL(skipped, (2600000 - LATE_MAX) / 1000);
	UNIT_EQUAL(intended[0], BEGIN + 2600000 - LATE_MAX); /* exactly as late as allowed */
}

static void stops_at_the_limit(void)
{
	struct pacer pacer;
	uint64_t intended[BURST], skipped = 0;

	pacer_constant(&pacer, BEGIN, 1000, LATE_MAX);
	UNIT_EQUAL(pacer_take(&pacer, BEGIN + 10000, BEGIN + 3000, intended, BURST, &skipped), 3);
	UNIT_EQUAL(pacer_take(&pacer, BEGIN + 10000, BEGIN + 3000, intended, BURST, &skipped), 0);
	UNIT_EQUAL(pacer_next(&pacer), BEGIN + 3000);
}

static void impossible_rate_is_counted_whole(void)
{
	struct pacer pacer;
	struct drained d;
	uint64_t rest;

	/* 26 M slots per second for a loop that runs 50 k times per second */
	pacer_constant(&pacer, BEGIN, 100, LATE_MAX);
	d = drain(&pacer, HZ, 52000);
	rest = pacer_skip_until(&pacer, BEGIN + HZ);
	UNIT_EQUAL(d.taken + d.skipped + rest, 26000000);
	UNIT_EQUAL(d.taken, 50000 * BURST - BURST +
	                            1); /* a full burst each time except the first, when one slot is due */
	UNIT_CHECK(d.skipped > 20000000);
}

/* Slots that must be drawn one by one; those of constant distances are given up all at once. */
static void a_turn_skips_a_bounded_number(void)
{
	struct pacer pacer;
	uint64_t intended[BURST], skipped = 0;

	pacer_poisson(&pacer, BEGIN, 2, LATE_MAX, 1);
	UNIT_EQUAL(pacer_take(&pacer, BEGIN + HZ, ALWAYS, intended, BURST, &skipped), 0);
	UNIT_EQUAL(skipped, PACING_SKIPS_PER_TURN);
	skipped = 0;
	pacer_constant(&pacer, BEGIN, 1, LATE_MAX);
	UNIT_EQUAL(pacer_take(&pacer, BEGIN + HZ, ALWAYS, intended, BURST, &skipped), BURST);
	UNIT_EQUAL(skipped, HZ - LATE_MAX);
}

/* Slot k of constant distances lies at floor(k x distance), whether taken or given up, in any portions. */
static void constant_slots_have_a_closed_form(void)
{
	struct pacer pacer;
	struct rng rng;

	rng_seed(&rng, 3);
	for (unsigned int round = 0; round < 300; round++) {
		const pacing_time step = ((pacing_time)(1 + rng_below(&rng, 100)) << 64) | rng_next(&rng);
		uint64_t k = 0, now = BEGIN;

		pacer_constant(&pacer, BEGIN, 1, LATE_MAX);
		pacer.step = step;
		for (unsigned int turn = 0; turn < 100; turn++) {
			const unsigned int max = (unsigned int)rng_below(&rng, BURST + 1);
			const uint64_t limit = now + rng_below(&rng, 3000);
			uint64_t intended[BURST], skipped = 0;
			unsigned int taken;

			now += rng_below(&rng, turn % 10 == 9 ? 3 * LATE_MAX : 3000);
			taken = pacer_take(&pacer, now, limit, intended, max, &skipped);
			k += skipped;
			/* the last skipped slot was too late, the first one that was kept is not */
			UNIT_CHECK(skipped == 0 || now - BEGIN - (uint64_t)((k - 1) * step >> 64) > LATE_MAX);
			UNIT_CHECK(taken == 0 || now - intended[0] <= LATE_MAX);
			for (unsigned int i = 0; i < taken; i++, k++)
				UNIT_EQUAL(intended[i], BEGIN + (uint64_t)(k * step >> 64));
			UNIT_EQUAL(pacer_next(&pacer), BEGIN + (uint64_t)(k * step >> 64));
			UNIT_CHECK(taken == max || pacer_next(&pacer) >= limit || pacer_next(&pacer) > now);
		}
	}
}

static void start_process(struct pacer *pacer, unsigned int process)
{
	static const uint32_t gaps_ns[] = {0, 400, 30, 0, 0, 1200, 1};

	if (process == 0)
		pacer_constant(pacer, BEGIN, 77.7L, HZ);
	else if (process == 1)
		pacer_poisson(pacer, BEGIN, 77.7, HZ, 9);
	else
		pacer_gaps(pacer, BEGIN, gaps_ns, 7, HZ / 1e9, HZ);
}

/* Slots do not depend on how a loop takes them. */
static void portions_do_not_change_the_schedule(void)
{
	struct pacer one, many;

	for (unsigned int process = 0; process < 3; process++) {
		start_process(&one, process);
		start_process(&many, process);
		for (uint64_t now = BEGIN; now < BEGIN + 3000000; now += 1000) {
			uint64_t intended[BURST], skipped = 0;
			const unsigned int n = pacer_take(&many, now, ALWAYS, intended,
			                                  1 + (unsigned int)(now / 1000 % BURST), &skipped);

			UNIT_EQUAL(skipped, 0);
			for (unsigned int i = 0; i < n; i++, pacer_advance(&one))
				UNIT_EQUAL(intended[i], pacer_next(&one));
		}
		UNIT_EQUAL(pacer_next(&one), pacer_next(&many));
		UNIT_EQUAL(pacer_skip_until(&many, BEGIN + 10000000),
		           pacer_skip(&one, BEGIN + 10000000, UINT64_MAX));
	}
}

/*
 * Of five slots the first of three senders has 0 and 3, the second 1, 2 and 4, the third none: together they have all, at the
 * same times.
 */
static void shares_make_up_the_schedule(void)
{
	static const uint32_t turns[2][3] = {{2, 3}, {2, 1, 2}};
	static const unsigned int owner[] = {0, 1, 1, 0, 1};

	for (unsigned int process = 0; process < 3; process++) {
		struct pacer whole, parts[3];
		uint64_t intended[1] = {0}, skipped = 0;

		start_process(&whole, process);
		for (unsigned int i = 0; i < 3; i++)
			start_process(&parts[i], process);
		pacer_share(&parts[0], 0, turns[0], 2);
		pacer_share(&parts[1], 1, turns[1], 3);
		pacer_share(&parts[2], 0, NULL, 0);
		for (unsigned int slot = 0; slot < 1000; slot++, pacer_advance(&whole)) {
			struct pacer *part = &parts[owner[slot % 5]];

			UNIT_EQUAL(pacer_take(part, pacer_next(&whole), ALWAYS, intended, 1, &skipped), 1);
			UNIT_EQUAL(intended[0], pacer_next(&whole));
		}
		UNIT_EQUAL(pacer_skip_until(&parts[0], BEGIN + HZ) + pacer_skip_until(&parts[1], BEGIN + HZ) +
		                   skipped,
		           pacer_skip_until(&whole, BEGIN + HZ));
		UNIT_EQUAL(pacer_skip_until(&parts[2], BEGIN + HZ), 0);
	}
}

/* Distances of a Poisson process taken in bursts: mean equals standard deviation, and 1 in e exceeds the mean. */
static void poisson_distances_are_exponential(void)
{
	const double mean = 26;
	uint64_t intended[BURST], last = BEGIN, n = 0, above = 0, skipped = 0;
	double sum = 0, squares = 0;
	struct pacer pacer;

	pacer_poisson(&pacer, BEGIN, mean, HZ, 11);
	for (uint64_t now = BEGIN; n < 1000000; now += 700) {
		const unsigned int taken = pacer_take(&pacer, now, ALWAYS, intended, BURST, &skipped);

		for (unsigned int i = 0; i < taken; last = intended[i++], n++) {
			const double gap = (double)(intended[i] - last);

			sum += gap;
			squares += gap * gap;
			above += gap > mean;
		}
	}
	UNIT_EQUAL(skipped, 0);
	UNIT_NEAR(sum / (double)n, mean, 5 * mean / 1000);
	/* whole cycles: a uniform rounding of 1/6 adds to the variance; that of a variance is 8 mean^4 / n */
	UNIT_NEAR(squares / (double)n - sum / (double)n * (sum / (double)n), mean * mean,
	          5 * mean * mean * 0.00283 + 0.2);
	UNIT_NEAR((double)above / (double)n, exp(-1), 0.012); /* rounding moves the limit by half a cycle */
}

static void poisson_counts_are_dispersed_like_poisson(void)
{
	double sum = 0, squares = 0;
	struct pacer pacer;

	pacer_poisson(&pacer, BEGIN, HZ / 1e6, LATE_MAX, 7);
	for (uint64_t i = 1; i <= 10000; i++) { /* counts of 100 us each: mean and variance 100 */
		const double n = (double)pacer_skip_until(&pacer, BEGIN + i * (HZ / 10000));

		sum += n;
		squares += n * n;
	}
	UNIT_NEAR(squares / 10000 - sum / 10000 * (sum / 10000), 100, 5 * 100 * sqrt(2.0 / 10000));
}

static void a_held_process_goes_on_with_another_mean(void)
{
	struct pacer pacer;
	uint64_t slots = 0;

	pacer_poisson(&pacer, BEGIN, 1e3, LATE_MAX, 4);
	pacer_hold(&pacer);
	UNIT_EQUAL(pacer_skip_until(&pacer, BEGIN + HZ), 0);
	pacer_set_mean(&pacer, BEGIN + HZ, 26000); /* 100 k/s */
	UNIT_CHECK(pacer_next(&pacer) >= BEGIN + HZ);
	slots = pacer_skip_until(&pacer, BEGIN + 2 * HZ);
	UNIT_NEAR(slots, 1e5, 5 * sqrt(1e5));
	/* as often as wanted: each time the wait begins again, which does not change a process without memory */
	for (unsigned int i = 0; i < 100000; i++) {
		const uint64_t now = BEGIN + 2 * HZ + i * (HZ / 100000);

		slots += pacer_skip_until(&pacer, now);
		pacer_set_mean(&pacer, now, 26000);
	}
	UNIT_NEAR(slots, 2e5, 5 * sqrt(2e5));
}

static const struct unit_case cases[] = {
        {"constant rate is exact", constant_rate_is_exact},
        {"recorded gaps come again and again", recorded_gaps_come_again_and_again},
        {"takes what is due and no more", takes_what_is_due_and_no_more},
        {"one burst at most per turn", one_burst_at_most_per_turn},
        {"too late is skipped and counted", too_late_is_skipped_and_counted},
        {"stops at the limit", stops_at_the_limit},
        {"impossible rate is counted whole", impossible_rate_is_counted_whole},
        {"a turn skips a bounded number", a_turn_skips_a_bounded_number},
        {"constant slots have a closed form", constant_slots_have_a_closed_form},
        {"portions do not change the schedule", portions_do_not_change_the_schedule},
        {"shares make up the schedule", shares_make_up_the_schedule},
        {"Poisson counts are dispersed", poisson_counts_are_dispersed_like_poisson},
        {"Poisson distances are exponential", poisson_distances_are_exponential},
        {"a stopped process continues with another mean", a_held_process_goes_on_with_another_mean},
        {NULL, NULL},
};

const struct unit_suite unit_pacing = {"pacing", cases};
