/* SPDX-License-Identifier: BSD-3-Clause */
/* The estimators of accounting.h against loops whose costs are known because they are made up here. */
#include "unit.h"

#include <stdlib.h>

#include "accounting.h"

#define TSC_HZ 1000000000 /* 5 us of gap base are 5000 cycles */
#define STAMP  20.0

static const struct account_known known = {.tsc_hz = TSC_HZ, .empty_poll_cycles = 10, .longest = 16};

static struct account *new_account(void)
{
	struct account *a = calloc(1, sizeof(*a));

	if (!a || account_init(a) < 0)
		abort();
	account_reset(a, &known);
	return a;
}

static void drop(struct account *a)
{
	account_free(a);
	free(a);
}

static double sum_of(const struct account_cycles *c)
{
	return c->useful + c->empty_poll + c->loop + c->instrumentation;
}

/* A made-up loop: an empty poll takes 10 cycles, receiving n packets 30 + 2n, processing 40n, sending 50 + 3n. */
static void sample_visit(struct account *a, uint16_t n, uint32_t empty_before)
{
	const uint64_t start = 1000000, received = start + 20 + empty_before * 10 + 30 + 2 * n,
	               processed = received + 20 + 40 * n, sent = processed + 20 + 50 + 3 * n;
	const uint64_t stamps[4] = {start, received, processed, sent};

	account_visit(a, n, empty_before, stamps);
}

static void sample_empty_runs(struct account *a, int runs)
{
	for (int i = 0; i < runs; i++)
		for (unsigned int log2 = 0; log2 < ACCOUNT_RUNS; log2++)
			account_empty_run(a, log2, 1u << log2, 37 + (10u << log2));
}

/* 1000 visits of 4 and 500 of 8 packets on 1 queue, 20000 empty polls; 5000 cycles of host gap. */
static struct account *loaded_account(void)
{
	struct account *a = new_account();

	sample_empty_runs(a, 100);
	for (int i = 0; i < 20; i++) {
		sample_visit(a, 4, 3);
		sample_visit(a, 8, 0);
	}
	a->visits[4] = 1000;
	a->visits[8] = 500;
	a->rx_packets = 8000;
	a->sweeps = 21500;
	a->busy_sweeps = 1500;
	a->stamps = 100;
	a->last_tsc = a->first_tsc + 1000 * (38 + 160 + 62) + 500 * (46 + 320 + 74) + 200000 + 2000 + 5000;
	return a;
}

static void sampled_classes_are_the_known_ones(void)
{
	struct account *a = loaded_account();
	struct account_cycles c;

	UNIT_CHECK(account_classify(a, ACCOUNTING_SAMPLED, 1, STAMP, &c) == NULL);
	UNIT_NEAR(c.receive, 1000 * 38 + 500 * 46, 1e-6);
	UNIT_NEAR(c.process, 1000 * 160 + 500 * 320, 1e-6);
	UNIT_NEAR(c.transmit, 1000 * 62 + 500 * 74, 1e-6);
	UNIT_NEAR(c.empty_poll, 200000, 1e-6);
	UNIT_NEAR(c.instrumentation, 2000, 1e-6);
	UNIT_NEAR(c.loop, 5000, 1e-6);
	UNIT_NEAR(c.idle_iteration, 200000, 1e-6);
	UNIT_NEAR(sum_of(&c), c.total, 1e-6);
	drop(a);
}

static void host_gap_in_a_sample_is_not_scaled(void)
{
	struct account *a = loaded_account();
	const uint64_t interrupted[4] = {0, 58, 30000000, 30000100};
	struct account_cycles before, after;

	account_classify(a, ACCOUNTING_SAMPLED, 1, STAMP, &before);
	account_visit(a, 4, 0, interrupted);
	account_empty_run(a, 2, 4, 20000000);
	a->stamps = 100;
	a->last_tsc += 50000100;
	account_classify(a, ACCOUNTING_SAMPLED, 1, STAMP, &after);
	UNIT_EQUAL(a->host_gaps, 2);
	UNIT_EQUAL(a->host_gap_cycles, 50000100);
	UNIT_NEAR(after.useful, before.useful, 1e-6);
	UNIT_NEAR(after.empty_poll, before.empty_poll, 1e-6);
	UNIT_NEAR(after.loop, before.loop + 50000100, 1e-6);
	drop(a);
}

/* Known waits come whole and from nowhere else: those for packets are work, those for a lock are tax. */
static void waits_are_not_estimated(void)
{
	static const enum accounting modes[] = {ACCOUNTING_SAMPLED, ACCOUNTING_TRANSITION, ACCOUNTING_FULL};

	for (unsigned int i = 0; i < 3; i++) {
		struct account *a = loaded_account();
		struct account_cycles before, after;

		account_classify(a, modes[i], 1, STAMP, &before);
		a->waited_cycles = 700000;
		a->lock_cycles = 90000;
		a->last_tsc += 790000;
		account_classify(a, modes[i], 1, STAMP, &after);
		UNIT_NEAR(after.useful, before.useful + 700000, 1e-6);
		UNIT_NEAR(after.process, before.process + 700000, 1e-6);
		UNIT_NEAR(after.loop, before.loop + 90000, 1e-6);
		UNIT_NEAR(after.empty_poll, before.empty_poll, 1e-6);
		UNIT_NEAR(after.instrumentation, before.instrumentation, 1e-6);
		UNIT_NEAR(sum_of(&after), after.total, 1e-6);
		drop(a);
	}
}

static void gap_threshold_grows_with_packets_and_polls(void)
{
	struct account *a = new_account();

	UNIT_EQUAL(gap_threshold(a, 0, 0), 5000);
	UNIT_EQUAL(gap_threshold(a, 32, 512), 5000 + 32 * 2000 + 512 * 40);
	drop(a);
}

static void quiet_stretches_go_before_sampled_runs(void)
{
	struct account *a = new_account();

	UNIT_NEAR(account_empty_poll_cost(a, STAMP), 0, 0);
	sample_empty_runs(a, 50);
	UNIT_NEAR(account_empty_poll_cost(a, STAMP), 10, 1e-9);
	for (int i = 0; i < 20; i++) {
		account_quiet(a, 64, 500 + 64 * 9);
		account_quiet(a, 4096, 500 + 4096 * 9);
	}
	UNIT_NEAR(account_empty_poll_cost(a, STAMP), 9, 1e-9);
	UNIT_NEAR(account_sampled_poll_cost(a, STAMP), 10, 1e-9);
	drop(a);
}

static void one_length_of_run_is_corrected_by_the_stamp(void)
{
	struct account *a = new_account();

	for (int i = 0; i < 100; i++)
		account_empty_run(a, 3, 8, 100);
	UNIT_NEAR(account_empty_poll_cost(a, STAMP), 10, 1e-9);
	drop(a);
}

static void unsampled_burst_sizes_are_interpolated(void)
{
	uint64_t visits[ACCOUNT_BURST_MAX + 1] = {0}, weight[ACCOUNT_BURST_MAX + 1] = {0};
	double mean[ACCOUNT_BURST_MAX + 1] = {0};

	visits[3] = 10;
	UNIT_NEAR(account_scale_up(visits, weight, mean), 0, 0);
	weight[2] = weight[6] = 1;
	mean[2] = 100;
	mean[6] = 180;
	UNIT_NEAR(account_scale_up(visits, weight, mean), 10 * 120, 1e-9);
	visits[3] = 0;
	visits[1] = visits[12] = 1;
	UNIT_NEAR(account_scale_up(visits, weight, mean), 50 + 360, 1e-9);
	visits[2] = 2;
	UNIT_NEAR(account_scale_up(visits, weight, mean), 50 + 360 + 200, 1e-9);
}

static void excess_is_cut_from_empty_polls_first(void)
{
	struct account *a = loaded_account();
	struct account_cycles c;

	a->last_tsc -= 5000 + 30000;
	account_classify(a, ACCOUNTING_SAMPLED, 1, STAMP, &c);
	UNIT_NEAR(c.excess, 30000, 1e-6);
	UNIT_NEAR(c.empty_poll, 170000, 1e-6);
	UNIT_NEAR(c.useful, 1000 * 260 + 500 * 440, 1e-6);
	UNIT_NEAR(c.loop, 0, 1e-6);
	UNIT_NEAR(sum_of(&c), c.total, 1e-6);
	a->last_tsc = a->first_tsc + 241000; /* half of useful and instrumentation */
	account_classify(a, ACCOUNTING_SAMPLED, 1, STAMP, &c);
	UNIT_NEAR(c.useful, 240000, 1e-6);
	UNIT_NEAR(c.receive + c.process + c.transmit, c.useful, 1e-6);
	UNIT_NEAR(sum_of(&c), c.total, 1e-6);
	drop(a);
}

static void unmeasurable_stretches_say_why(void)
{
	struct account *a = new_account();
	struct account_cycles c;

	a->last_tsc = 1000000;
	a->sweeps = 1000;
	a->visits[1] = a->rx_packets = 3;
	UNIT_CHECK(account_classify(a, ACCOUNTING_SAMPLED, 1, STAMP, &c) != NULL);
	UNIT_CHECK(account_classify(a, ACCOUNTING_NONE, 1, STAMP, &c) != NULL);
	UNIT_CHECK(account_classify(a, ACCOUNTING_COUNT, 1, STAMP, &c) != NULL);
	a->rx_packets = a->visits[1] = 0;
	UNIT_CHECK(account_classify(a, ACCOUNTING_SAMPLED, 8, STAMP, &c) != NULL);
	drop(a);
}

static void full_takes_one_stamp_from_each_interval(void)
{
	struct account *a = new_account();
	struct account_cycles c;

	a->receive_cycles = 10 * 70, a->receive_intervals = 10;
	a->process_cycles = 10 * 520, a->process_intervals = 10;
	a->transmit_cycles = 10 * 60, a->transmit_intervals = 10;
	a->empty_cycles = 100 * 30, a->empty_intervals = 100;
	a->visits[1] = 10;
	a->sweeps = 110;
	a->busy_sweeps = 10;
	a->host_gap_cycles = 700;
	a->last_tsc = 30000;
	UNIT_CHECK(account_classify(a, ACCOUNTING_FULL, 1, STAMP, &c) == NULL);
	UNIT_NEAR(c.receive, 500, 1e-6);
	UNIT_NEAR(c.process, 5000, 1e-6);
	UNIT_NEAR(c.transmit, 400, 1e-6);
	UNIT_NEAR(c.empty_poll, 1000, 1e-6);
	UNIT_NEAR(c.loop, 700, 1e-6);
	UNIT_NEAR(c.idle_iteration, 1000, 1e-6);
	UNIT_NEAR(sum_of(&c), c.total, 1e-6);
	drop(a);
}

/*
 * 50 turns of: 100 empty polls of 10 cycles and a receive of 40 (stamped when it returned), a busy stretch of 500 cycles that
 * ends with an empty poll.
 */
static void transition_puts_first_receive_and_last_poll_right(void)
{
	struct account *a = new_account();
	struct account_interval open = {false, 0, 0};
	struct account_cycles c;
	uint64_t now = 0;

	for (int i = 0; i < 50; i++) {
		now += (i ? 99 : 100) * 10 + 40 + 20;
		account_transition(a, &open, true, now);
		a->rx_packets++;
		now += 500 + 10 + 20;
		account_transition(a, &open, false, now);
	}
	for (int i = 0; i < 20; i++) {
		account_quiet(a, 8, 30 + 80);
		account_quiet(a, 16, 30 + 160);
	}
	a->visits[1] = 50;
	a->sweeps = 50 * 101 + 1;
	a->last_tsc = now;
	UNIT_EQUAL(a->transitions, 50);
	UNIT_EQUAL(a->returns, 50);
	UNIT_CHECK(account_classify(a, ACCOUNTING_TRANSITION, 1, STAMP, &c) == NULL);
	UNIT_NEAR(c.useful, 50 * 540, 50);
	UNIT_NEAR(c.empty_poll, 50 * 1000, 50);
	UNIT_CHECK(!c.split);
	UNIT_NEAR(sum_of(&c), c.total, 1e-6);
	drop(a);
}

static void transition_leaves_host_gaps_out(void)
{
	struct account *a = new_account();
	struct account_interval open = {false, 0, 0};

	account_transition(a, &open, true, 500);
	a->rx_packets = 2;
	account_transition(a, &open, false, 500 + 50000000);
	account_transition(a, &open, false, 500 + 50000000 + IDLE_INTERVAL_CYCLES);
	UNIT_EQUAL(a->busy_intervals, 0);
	UNIT_EQUAL(a->empty_intervals, 2);
	UNIT_EQUAL(a->host_gaps, 1);
	drop(a);
}

static void empty_polls_are_polls_less_visits(void)
{
	struct account *a = new_account();

	a->sweeps = 100;
	a->visits[1] = 30;
	a->visits[ACCOUNT_BURST_MAX] = 5;
	UNIT_EQUAL(account_empty_polls(a, 4), 365);
	UNIT_EQUAL(account_busy_visits(a), 35);
	drop(a);
}

static const struct unit_case cases[] = {
        {"sampled classes are the known ones", sampled_classes_are_the_known_ones},
        {"host gap in a sample is not scaled", host_gap_in_a_sample_is_not_scaled},
        {"waits are not estimated", waits_are_not_estimated},
        {"gap threshold grows with packets and polls", gap_threshold_grows_with_packets_and_polls},
        {"quiet stretches go before sampled runs", quiet_stretches_go_before_sampled_runs},
        {"one length of run is corrected by the stamp", one_length_of_run_is_corrected_by_the_stamp},
        {"unsampled burst sizes are interpolated", unsampled_burst_sizes_are_interpolated},
        {"excess is cut from empty polls first", excess_is_cut_from_empty_polls_first},
        {"unmeasurable stretches say why", unmeasurable_stretches_say_why},
        {"full takes one stamp from each interval", full_takes_one_stamp_from_each_interval},
        {"transition puts first receive and last poll right",
         transition_puts_first_receive_and_last_poll_right},
        {"transition leaves host gaps out", transition_leaves_host_gaps_out},
        {"empty polls are polls less visits", empty_polls_are_polls_less_visits},
        {NULL, NULL},
};

const struct unit_suite unit_accounting = {"accounting", cases};
