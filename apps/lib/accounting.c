/* SPDX-License-Identifier: BSD-3-Clause */
#include "accounting.h"

#include <errno.h>

/* 2^40 cycles are minutes, so no gap is out of range. Three digits: 0.1 %. */
#define HISTOGRAM_HIGHEST_CYCLES (UINT64_C(1) << 40)
#define HISTOGRAM_DIGITS         3

const char *const accounting_names[ACCOUNTING_MODES + 1] = {"none", "count", "sampled", "full", NULL};

int account_init(struct account *a)
{
	if (histogram_init(&a->iteration_cycles, 1, HISTOGRAM_HIGHEST_CYCLES, HISTOGRAM_DIGITS) < 0 ||
	    histogram_init(&a->poll_gap_cycles, 1, HISTOGRAM_HIGHEST_CYCLES, HISTOGRAM_DIGITS) < 0) {
		account_free(a);
		return -ENOMEM;
	}
	return 0;
}

void account_free(struct account *a)
{
	histogram_free(&a->iteration_cycles);
	histogram_free(&a->poll_gap_cycles);
}

void account_reset(struct account *a, uint32_t longest)
{
	struct account_timed_interval *const timed_intervals = a->timed_intervals;
	const uint32_t timed_intervals_max = a->timed_intervals_max;
	const struct histogram iteration_cycles = a->iteration_cycles, poll_gap_cycles = a->poll_gap_cycles;

	memset(a, 0, sizeof(*a));
	a->iteration_cycles = iteration_cycles;
	a->poll_gap_cycles = poll_gap_cycles;
	histogram_reset(&a->iteration_cycles);
	histogram_reset(&a->poll_gap_cycles);
	longest_reset(&a->longest, longest);
	a->timed_intervals = timed_intervals;
	a->timed_intervals_max = timed_intervals_max;
}

uint64_t account_busy_busy_polls(const struct account *a)
{
	return account_busy_polls_up_to(a, ACCOUNT_BURST_MAX);
}

uint64_t account_empty_polls(const struct account *a, uint32_t queues)
{
	const uint64_t polls = a->polls + a->sweeps * queues, busy = account_busy_busy_polls(a);

	return polls > busy ? polls - busy : 0;
}

static void add_products(double sums[], const double x[], int n, double weight)
{
	for (int i = 0; i < n; i++)
		for (int j = i; j < n; j++)
			*sums++ += weight * x[i] * x[j];
}

void account_add_timed_interval(struct account *a, unsigned int block,
                                const struct account_timed_interval *timed_interval)
{
	const double x[ACCOUNT_VARIABLES] = {1,
	                                     timed_interval->polls - timed_interval->busy_polls -
	                                             timed_interval->lost,
	                                     timed_interval->transitions,
	                                     timed_interval->busy_polls,
	                                     timed_interval->packets,
	                                     (double)timed_interval->cycles,
	                                     timed_interval->lost};
	const double quiet[] = {1, timed_interval->polls, (double)timed_interval->cycles};
	const double weight = account_timed_interval_weight(timed_interval);
	struct account_block *b = &a->blocks[block];

	b->timed_intervals++;
	a->sampled_cycles += timed_interval->cycles;
	add_products(b->products, x, ACCOUNT_VARIABLES, weight);
	if (timed_interval->busy_polls == 0 && timed_interval->lost == 0) {
		b->quiet_timed_intervals++;
		add_products(b->quiet, quiet, 3, weight);
	}
	if (a->timed_intervals_count < a->timed_intervals_max)
		a->timed_intervals[a->timed_intervals_count++] = *timed_interval;
}

void account_add_busy_poll(struct account *a, uint16_t n, uint32_t gap, const uint64_t stamp[4])
{
	struct account_stratum *s = &a->strata[n];
	const uint32_t chances = gap + 1 < ACCOUNT_TIMED_POLLS ? gap + 1 : ACCOUNT_TIMED_POLLS;
	const double weight = 1.0 / chances;

	s->samples++;
	s->weight += weight;
	s->receive_cycles += weight * (double)(stamp[1] - stamp[0]);
	s->process_cycles += weight * (double)(stamp[2] - stamp[1]);
	s->transmit_cycles += weight * (double)(stamp[3] - stamp[2]);
	a->sampled_cycles += stamp[3] - stamp[0];
}

void account_add_notice(struct account *a, bool busy_poll, double cycles)
{
	struct account_notice *notice = &a->notices[busy_poll];

	notice->samples++;
	notice->cycles += cycles;
	notice->squared_cycles += cycles * cycles;
}

/* Return the mean at size n between the nearest sampled sizes below (0: none) and above (0: none). */
static double between(const double mean[], int below, int above, int n)
{
	if (below && above)
		return mean[below] + (mean[above] - mean[below]) * (n - below) / (above - below);
	return below ? mean[below] * n / below : mean[above] * n / above;
}

double account_scale_up(const uint64_t busy_polls[], const double weight[], const double mean[])
{
	int above[ACCOUNT_BURST_MAX + 2];
	double sum = 0;

	above[ACCOUNT_BURST_MAX + 1] = 0;
	for (int n = ACCOUNT_BURST_MAX; n >= 1; n--)
		above[n] = weight[n] > 0 ? n : above[n + 1];
	for (int n = 1, below = 0; n <= ACCOUNT_BURST_MAX; n++) {
		below = weight[n] > 0 ? n : below;
		if (busy_polls[n] && (below || above[n]))
			sum += (double)busy_polls[n] *
			       (below == n ? mean[n] : between(mean, below, above[n], n));
	}
	return sum;
}
