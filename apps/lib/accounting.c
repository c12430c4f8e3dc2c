/* SPDX-License-Identifier: BSD-3-Clause */
#include "accounting.h"

#include <errno.h>

/* 2^40 cycles are minutes: no gap is ever out of range. Three digits: 0.1 %. */
#define HISTOGRAM_HIGHEST_CYCLES (UINT64_C(1) << 40)
#define HISTOGRAM_DIGITS         3

#define GAP_BASE_NS       5000
#define GAP_POLL_FACTOR   4
#define MIN_NEAR_RECEIVES 50
#define NEAR_RUNS         6 /* lengths 1 ... 32 */
_Static_assert(1 << (NEAR_RUNS - 1) == ACCOUNT_NEAR, "");
#define MIN_QUIET_STRETCHES 32
#define MIN_RUNS_FOR_SLOPE  16 /* runs of a length below which its mean has no say in the slope */

const char *const accounting_names[ACCOUNTING_MODES + 1] = {"none",       "count", "sampled",
                                                            "transition", "full",  NULL};

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

void account_reset(struct account *a, const struct account_known *known)
{
	const struct histogram iteration_cycles = a->iteration_cycles, visit_gap_cycles = a->visit_gap_cycles;

	memset(a, 0, sizeof(*a));
	a->iteration_cycles = iteration_cycles;
	a->visit_gap_cycles = visit_gap_cycles;
	histogram_reset(&a->iteration_cycles);
	histogram_reset(&a->visit_gap_cycles);
	longest_reset(&a->longest, known->longest);
	a->gap_base_cycles = cycles_of_ns(GAP_BASE_NS, known->tsc_hz);
	a->gap_poll_cycles = (uint64_t)(GAP_POLL_FACTOR * known->empty_poll_cycles);
}

uint64_t account_busy_visits(const struct account *a)
{
	uint64_t visits = 0;

	for (int n = 1; n <= ACCOUNT_BURST_MAX; n++)
		visits += a->visits[n];
	return visits;
}

uint64_t account_empty_polls(const struct account *a, uint32_t queues)
{
	const uint64_t polls = a->sweeps * queues, busy = account_busy_visits(a);

	return polls > busy ? polls - busy : 0;
}

struct line_sums {
	double weight;
	double x;
	double y;
	double xx;
	double xy;
};

/* Weighted least squares of cycles per run over polls per run. 0 when fewer than two lengths have runs enough. */
static double slope_over_lengths(const struct account_runs runs[], int n)
{
	struct line_sums s = {0};

	for (int i = 0; i < n; i++) {
		if (runs[i].runs < MIN_RUNS_FOR_SLOPE)
			continue;
		const double weight = (double)runs[i].runs, x = (double)runs[i].polls / weight,
		             y = (double)runs[i].cycles / weight;

		s.weight += weight;
		s.x += weight * x;
		s.y += weight * y;
		s.xx += weight * x * x;
		s.xy += weight * x * y;
	}
	const double variance = s.weight * s.xx - s.x * s.x;

	/* lengths that differ by less than a tenth of their mean tell the slope badly */
	return variance > 0.01 * s.x * s.x ? (s.weight * s.xy - s.x * s.y) / variance : 0;
}

static double mean_less_stamp(const struct account_runs runs[], int n, double stamp_cycles)
{
	double cycles = 0, polls = 0;

	for (int i = 0; i < n; i++) {
		cycles += (double)runs[i].cycles - (double)runs[i].runs * stamp_cycles;
		polls += (double)runs[i].polls;
	}
	return polls > 0 && cycles > 0 ? cycles / polls : 0;
}

static double poll_cost(const struct account_runs runs[], int n, double stamp_cycles)
{
	const double slope = slope_over_lengths(runs, n);

	return slope > 0 ? slope : mean_less_stamp(runs, n, stamp_cycles);
}

/* From the lengths up to ACCOUNT_NEAR: they serve the receives with as many empty polls in front, and few are interrupted. */
double account_sampled_poll_cost(const struct account *a, double stamp_cycles)
{
	return poll_cost(a->runs, NEAR_RUNS, stamp_cycles);
}

static uint64_t quiet_stretches(const struct account *a)
{
	uint64_t stretches = 0;

	for (int i = 0; i < ACCOUNT_QUIET; i++)
		stretches += a->quiet[i].runs;
	return stretches;
}

double account_empty_poll_cost(const struct account *a, double stamp_cycles)
{
	if (quiet_stretches(a) >= MIN_QUIET_STRETCHES)
		return poll_cost(a->quiet, ACCOUNT_QUIET, stamp_cycles);
	return account_sampled_poll_cost(a, stamp_cycles);
}

/* Mean at size n between the nearest sampled sizes below (0: none) and above (0: none). */
static double between(const double mean[], int below, int above, int n)
{
	if (below && above)
		return mean[below] + (mean[above] - mean[below]) * (n - below) / (above - below);
	return below ? mean[below] * n / below : mean[above] * n / above;
}

double account_scale_up(const uint64_t visits[], const uint64_t weight[], const double mean[])
{
	int above[ACCOUNT_BURST_MAX + 2];
	double sum = 0;

	above[ACCOUNT_BURST_MAX + 1] = 0;
	for (int n = ACCOUNT_BURST_MAX; n >= 1; n--)
		above[n] = weight[n] ? n : above[n + 1];
	for (int n = 1, below = 0; n <= ACCOUNT_BURST_MAX; n++) {
		below = weight[n] ? n : below;
		if (visits[n] && (below || above[n]))
			sum += (double)visits[n] * (below == n ? mean[n] : between(mean, below, above[n], n));
	}
	return sum;
}

static double positive(double value)
{
	return value > 0 ? value : 0;
}

struct visit_means {
	uint64_t weight[ACCOUNT_BURST_MAX + 1];
	uint64_t receive_weight[ACCOUNT_BURST_MAX + 1];
	double receive[ACCOUNT_BURST_MAX + 1];
	double process[ACCOUNT_BURST_MAX + 1];
	double transmit[ACCOUNT_BURST_MAX + 1];
};

/* Receives far behind empty polls count only where the near ones are too few. */
static bool near_suffices(const struct account *a)
{
	uint64_t near = 0;

	for (int n = 1; n <= ACCOUNT_BURST_MAX; n++)
		near += a->strata[n].near.samples;
	return near >= MIN_NEAR_RECEIVES;
}

static void mean_receive(const struct account_stratum *s, bool near_only, double empty_cost,
                         double stamp_cycles, uint64_t *weight, double *mean)
{
	const double far = near_only ? 0 : 1,
	             samples = (double)s->near.samples + far * (double)s->far.samples;
	const double cycles = (double)s->near.cycles + far * (double)s->far.cycles;
	const double empty = (double)s->near.empty_before + far * (double)s->far.empty_before;

	*weight = (uint64_t)samples;
	if (samples > 0)
		*mean = positive((cycles - empty * empty_cost) / samples - stamp_cycles);
}

static uint64_t mean_visits(const struct account *a, double stamp_cycles, struct visit_means *m)
{
	const bool near_only = near_suffices(a);
	const double empty_cost = account_sampled_poll_cost(a, stamp_cycles);
	uint64_t samples = 0;

	memset(m, 0, sizeof(*m));
	for (int n = 1; n <= ACCOUNT_BURST_MAX; n++) {
		const struct account_stratum *s = &a->strata[n];
		const double count = (double)s->samples;

		if (!s->samples)
			continue;
		m->weight[n] = s->samples;
		mean_receive(s, near_only, empty_cost, stamp_cycles, &m->receive_weight[n], &m->receive[n]);
		m->process[n] = positive((double)s->process_cycles / count - stamp_cycles);
		m->transmit[n] = positive((double)s->transmit_cycles / count - stamp_cycles);
		samples += s->samples;
	}
	return samples;
}

/* The parts are estimates of their own: where they exceed the total they are cut to it, and the excess is told. */
static void fit_to_total(struct account_cycles *c)
{
	const double excess = positive(c->useful + c->empty_poll + c->instrumentation - c->total);

	c->excess = excess;
	c->empty_poll = positive(c->empty_poll - excess);
	const double sum = c->useful + c->empty_poll + c->instrumentation;

	c->loop = positive(c->total - sum);
	if (sum <= c->total)
		return;
	const double scale = c->total / sum;

	c->receive *= scale;
	c->process *= scale;
	c->transmit *= scale;
	c->useful *= scale;
	c->instrumentation *= scale;
}

static const char *classify_sampled(const struct account *a, uint32_t queues, double stamp_cycles,
                                    struct account_cycles *c)
{
	const uint64_t empty_polls = account_empty_polls(a, queues);
	const double empty_cost = account_empty_poll_cost(a, stamp_cycles);
	struct visit_means m;
	const uint64_t samples = mean_visits(a, stamp_cycles, &m);

	if (a->rx_packets && !samples)
		return "no sampled run met a packet: the window is too short or the load too low";
	if (empty_polls > a->sweeps && empty_cost == 0)
		return "no sampled run stayed empty: the window is too short";
	c->receive = account_scale_up(a->visits, m.receive_weight, m.receive);
	c->process = account_scale_up(a->visits, m.weight, m.process);
	c->transmit = account_scale_up(a->visits, m.weight, m.transmit);
	c->useful = c->receive + c->process + c->transmit;
	c->empty_poll = (double)empty_polls * empty_cost;
	c->instrumentation = (double)a->stamps * stamp_cycles;
	c->idle_iteration = (double)(a->sweeps - a->busy_sweeps) * queues * empty_cost;
	c->split = true;
	return NULL;
}

static double less_stamps(uint64_t cycles, uint64_t intervals, double stamp_cycles)
{
	return positive((double)cycles - (double)intervals * stamp_cycles);
}

static void classify_full(const struct account *a, uint32_t queues, double stamp_cycles,
                          struct account_cycles *c)
{
	const double empty_polls = (double)account_empty_polls(a, queues);

	c->receive = less_stamps(a->receive_cycles, a->receive_intervals, stamp_cycles);
	c->process = less_stamps(a->process_cycles, a->process_intervals, stamp_cycles);
	c->transmit = less_stamps(a->transmit_cycles, a->transmit_intervals, stamp_cycles);
	c->useful = c->receive + c->process + c->transmit;
	c->empty_poll = less_stamps(a->empty_cycles, a->empty_intervals, stamp_cycles);
	c->instrumentation = positive(c->total - c->useful - c->empty_poll - (double)a->host_gap_cycles -
	                              (double)a->waited_cycles - (double)a->lock_cycles);
	if (empty_polls > 0)
		c->idle_iteration =
		        (double)(a->sweeps - a->busy_sweeps) * queues * c->empty_poll / empty_polls;
	c->split = true;
}

static void classify_transition(const struct account *a, uint32_t queues, double stamp_cycles,
                                struct account_cycles *c)
{
	const double empty_polls = (double)account_empty_polls(a, queues), returns = (double)a->returns;
	const double empty_cost = account_empty_poll_cost(a, stamp_cycles);
	const double busy = less_stamps(a->busy_cycles, a->busy_intervals, stamp_cycles);
	const double idle = less_stamps(a->empty_cycles, a->empty_intervals, stamp_cycles);
	double first_receives = 0;

	if (empty_cost > 0 && a->transitions)
		first_receives = positive(idle - positive(empty_polls - returns) * empty_cost);
	c->useful = positive(busy - returns * empty_cost) + first_receives;
	c->empty_poll = positive(busy + idle - c->useful);
	c->instrumentation = (double)a->stamps * stamp_cycles;
	if (empty_polls > 0)
		c->idle_iteration =
		        (double)(a->sweeps - a->busy_sweeps) * queues * c->empty_poll / empty_polls;
}

const char *account_classify(const struct account *a, enum accounting mode, uint32_t queues,
                             double stamp_cycles, struct account_cycles *cycles)
{
	const char *reason = NULL;

	memset(cycles, 0, sizeof(*cycles));
	cycles->total = (double)(a->last_tsc - a->first_tsc);
	switch (mode) {
	case ACCOUNTING_SAMPLED:
		reason = classify_sampled(a, queues, stamp_cycles, cycles);
		break;
	case ACCOUNTING_FULL:
		classify_full(a, queues, stamp_cycles, cycles);
		break;
	case ACCOUNTING_TRANSITION:
		classify_transition(a, queues, stamp_cycles, cycles);
		break;
	default:
		return "the accounting mode does not classify cycles";
	}
	cycles->process += (double)a->waited_cycles;
	cycles->useful += (double)a->waited_cycles;
	fit_to_total(cycles);
	return reason;
}
