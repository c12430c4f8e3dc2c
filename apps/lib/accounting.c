/* SPDX-License-Identifier: BSD-3-Clause */
#include "accounting.h"

#include <errno.h>

/* 2^40 cycles are minutes: no gap is ever out of range. Three digits: 0.1 %. */
#define HISTOGRAM_HIGHEST_CYCLES (UINT64_C(1) << 40)
#define HISTOGRAM_DIGITS         3

const char *const accounting_names[ACCOUNTING_MODES + 1] = {"none", "count", "sampled", "full", NULL};

int account_init(struct account *a)
{
	if (histogram_init(&a->iteration_cycles, 1, HISTOGRAM_HIGHEST_CYCLES, HISTOGRAM_DIGITS) < 0 ||
	    histogram_init(&a->visit_gap_cycles, 1, HISTOGRAM_HIGHEST_CYCLES, HISTOGRAM_DIGITS) < 0) {
		account_free(a);
		return -ENOMEM;
	}
	return 0;
}

void account_free(struct account *a)
{
	histogram_free(&a->iteration_cycles);
	histogram_free(&a->visit_gap_cycles);
}

void account_reset(struct account *a, uint32_t longest)
{
	struct account_slice *const slices = a->slices;
	const uint32_t slices_max = a->slices_max;
	const struct histogram iteration_cycles = a->iteration_cycles, visit_gap_cycles = a->visit_gap_cycles;

	memset(a, 0, sizeof(*a));
	a->iteration_cycles = iteration_cycles;
	a->visit_gap_cycles = visit_gap_cycles;
	histogram_reset(&a->iteration_cycles);
	histogram_reset(&a->visit_gap_cycles);
	longest_reset(&a->longest, longest);
	a->slices = slices;
	a->slices_max = slices_max;
}

uint64_t account_busy_visits(const struct account *a)
{
	return account_visits_up_to(a, ACCOUNT_BURST_MAX);
}

uint64_t account_empty_polls(const struct account *a, uint32_t queues)
{
	const uint64_t polls = a->polls + a->sweeps * queues, busy = account_busy_visits(a);

	return polls > busy ? polls - busy : 0;
}

static void add_products(double sums[], const double x[], int n, double weight)
{
	for (int i = 0; i < n; i++)
		for (int j = i; j < n; j++)
			*sums++ += weight * x[i] * x[j];
}

void account_add_slice(struct account *a, unsigned int block, const struct account_slice *slice)
{
	const double x[ACCOUNT_VARIABLES] = {1,
	                                     slice->polls - slice->visits - slice->lost,
	                                     slice->switches,
	                                     slice->visits,
	                                     slice->packets,
	                                     (double)slice->cycles,
	                                     slice->lost};
	const double quiet[] = {1, slice->polls, (double)slice->cycles};
	const double weight = account_slice_weight(slice);
	struct account_block *b = &a->blocks[block];

	b->slices++;
	a->sampled_cycles += slice->cycles;
	add_products(b->products, x, ACCOUNT_VARIABLES, weight);
	if (slice->visits == 0 && slice->lost == 0) {
		b->quiet_slices++;
		add_products(b->quiet, quiet, 3, weight);
	}
	if (a->slices_count < a->slices_max)
		a->slices[a->slices_count++] = *slice;
}

void account_add_visit(struct account *a, uint16_t n, uint32_t gap, const uint64_t stamp[4])
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

void account_add_notice(struct account *a, bool visit, double cycles)
{
	struct account_notice *notice = &a->notices[visit];

	notice->samples++;
	notice->cycles += cycles;
	notice->squared_cycles += cycles * cycles;
}

/* Mean at size n between the nearest sampled sizes below (0: none) and above (0: none). */
static double between(const double mean[], int below, int above, int n)
{
	if (below && above)
		return mean[below] + (mean[above] - mean[below]) * (n - below) / (above - below);
	return below ? mean[below] * n / below : mean[above] * n / above;
}

double account_scale_up(const uint64_t visits[], const double weight[], const double mean[])
{
	int above[ACCOUNT_BURST_MAX + 2];
	double sum = 0;

	above[ACCOUNT_BURST_MAX + 1] = 0;
	for (int n = ACCOUNT_BURST_MAX; n >= 1; n--)
		above[n] = weight[n] > 0 ? n : above[n + 1];
	for (int n = 1, below = 0; n <= ACCOUNT_BURST_MAX; n++) {
		below = weight[n] > 0 ? n : below;
		if (visits[n] && (below || above[n]))
			sum += (double)visits[n] * (below == n ? mean[n] : between(mean, below, above[n], n));
	}
	return sum;
}
