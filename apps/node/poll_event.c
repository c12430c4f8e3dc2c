/* SPDX-License-Identifier: BSD-3-Clause */
#include "poll_event.h"

#include <string.h>
#include <sys/resource.h>

#define WARMUP_SHARE 8 /* poll_window() warms up for 1/8 of its window */

static void read_edge(struct poller *p, struct poller_edge *edge)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	edge->voluntary_switches = usage.ru_nvcsw;
	edge->involuntary_switches = usage.ru_nivcsw;
	edge->minor_faults = usage.ru_minflt;
	edge->refill_failures = 0;
	for (uint16_t i = 0; p->refill_counted && i < p->queues; i++)
		edge->refill_failures += *p->refill_counters[i];
	pmu_read(&p->pmu, &edge->pmu);
}

/* Where the stretch that is open in the modes transition and full belongs. */
static void book_open_interval(struct poller *p, uint64_t now)
{
	struct account *a = p->account;

	if (p->accounting == ACCOUNTING_TRANSITION) {
		*(p->in_busy ? &a->busy_cycles : &a->empty_cycles) += now - p->last_stamp;
		*(p->in_busy ? &a->busy_intervals : &a->empty_intervals) += 1;
		a->stamps++;
	}
}

static uint64_t boundary_of(const struct poller *p)
{
	switch (p->stretch) {
	case STRETCH_WARMUP:
		return p->trial->start_tsc;
	case STRETCH_WINDOW:
		return p->trial->end_tsc;
	default:
		return UINT64_MAX;
	}
}

/* Close the stretch at `now` and open the next; what that costs belongs to neither. */
static void next_stretch(struct poller *p, uint64_t now)
{
	const bool ends_window = p->stretch == STRETCH_WINDOW;

	book_open_interval(p, now);
	p->account->last_tsc = now;
	read_edge(p, &p->edges[ends_window]);
	p->stretch++;
	p->account = &p->accounts[p->stretch];
	if (ends_window && !p->no_drain)
		trial_wake(p->trial);
	p->event_tsc = p->last_stamp = p->account->first_tsc = cycles_stamp();
	for (uint16_t i = 0; p->visit_stamps && i < p->queues; i++)
		p->visit_stamps[i] = 0;
}

/* Sweeps that take about EVENT_CYCLES, by doubling and halving. */
static void adapt(struct poller *p, uint32_t sweeps, uint64_t elapsed)
{
	if (elapsed > EVENT_CYCLES && p->steady_sweeps > 1)
		p->steady_sweeps /= 2;
	else if (elapsed < EVENT_CYCLES / 2 && sweeps >= p->steady_sweeps && p->steady_sweeps < EVENT_SWEEPS_MAX)
		p->steady_sweeps *= 2;
}

/* Random, so that sampled sweeps do not beat with the traffic; at most every EVENT_CYCLES when sweeps are short. */
static uint64_t draw_sample_distance(struct poller *p)
{
	const uint64_t mean = RTE_MAX(p->sample_every, p->steady_sweeps);

	return 1 + rng_below(&p->rng, 2 * mean);
}

static void plan_sampling(struct poller *p, uint32_t sweeps)
{
	if (p->accounting != ACCOUNTING_SAMPLED)
		return;
	p->sample_due = p->sample_countdown <= sweeps;
	p->sample_countdown = p->sample_due ? draw_sample_distance(p) : p->sample_countdown - sweeps;
	/* drawn while sweeps were shorter: do not wait for it through long ones */
	const uint64_t most = 2 * (uint64_t)RTE_MAX(p->sample_every, p->steady_sweeps);

	if (p->sample_countdown > most)
		p->sample_countdown = 1 + rng_below(&p->rng, most);
}

/* Sweeps until the next event; fewer when the window's edge is nearer than that. */
static uint32_t plan(struct poller *p, uint32_t sweeps, uint64_t elapsed, uint64_t now)
{
	const uint64_t boundary = boundary_of(p);
	uint64_t next = p->steady_sweeps;

	if (p->accounting == ACCOUNTING_SAMPLED)
		next = RTE_MIN(next, p->sample_countdown);
	if (boundary - now < 2 * elapsed)
		next = RTE_MIN(next, (boundary - now) * sweeps / (2 * elapsed));
	p->planned_sweeps = (uint32_t)RTE_MAX(next, 1u);
	p->packets_left = p->packets_per_event;
	p->busy_sweep = UINT32_MAX;
	return p->planned_sweeps;
}

uint32_t poll_begin(struct poller *p)
{
	const uint64_t now = cycles_stamp();

	p->stretch = STRETCH_WARMUP;
	p->account = &p->accounts[STRETCH_WARMUP];
	p->event_tsc = p->last_stamp = p->account->first_tsc = now;
	p->in_busy = false;
	p->sample_due = false;
	p->steady_sweeps = 1;
	p->planned_sweeps = 1;
	p->sample_countdown = p->sample_every;
	p->packets_left = p->packets_per_event;
	p->busy_sweep = UINT32_MAX;
	return 1;
}

uint32_t poll_event(struct poller *p)
{
	const uint32_t sweeps = p->planned_sweeps;
	const uint64_t now = cycles_stamp();
	const uint64_t elapsed = now - p->event_tsc;
	const enum trial_phase phase = trial_phase(p->trial);

	p->account->sweeps += sweeps;
	longest_offer(&p->account->longest, now, elapsed, sweeps);
	p->event_tsc = now;
	adapt(p, sweeps, elapsed);
	if (now >= boundary_of(p) || (phase != TRIAL_RUN && p->stretch != STRETCH_DRAIN))
		next_stretch(p, now);
	if (p->stretch == STRETCH_DRAIN && (phase == TRIAL_OVER || p->no_drain)) {
		p->account->last_tsc = now;
		return 0;
	}
	plan_sampling(p, sweeps);
	return plan(p, sweeps, elapsed, p->event_tsc);
}

void poll_sampled(struct poller *p, uint32_t sweeps, uint64_t now)
{
	struct account *a = p->account;

	a->sweeps += sweeps;
	a->sampled_sweeps += sweeps;
	longest_offer(&a->longest, now, now - p->event_tsc, sweeps);
	p->event_tsc = now;
	p->sample_due = false;
}

void poll_reset(struct poller *p, const struct trial *trial)
{
	p->trial = trial;
	for (int s = 0; s < STRETCHES; s++)
		account_reset(&p->accounts[s], p->longest, trial->tsc_hz, p->extra_cycles);
	p->account = &p->accounts[STRETCH_WARMUP];
	p->stretch = STRETCH_WARMUP;
	memset(p->edges, 0, sizeof(p->edges));
	memset(p->visit_stamps, 0, RTE_MAX_QUEUES_PER_PORT * sizeof(*p->visit_stamps));
}

const struct account *poll_window(struct poller *p, poll_loop_fn loop, uint64_t cycles)
{
	struct trial trial = {.tsc_hz = rte_get_tsc_hz(), .wake_fd = -1};

	poll_reset(p, &trial);
	trial.start_tsc = cycles_stamp() + cycles / WARMUP_SHARE;
	trial.end_tsc = trial.start_tsc + cycles;
	p->no_drain = true;
	loop(p);
	p->no_drain = false;
	p->trial = NULL;
	return &p->accounts[STRETCH_WINDOW];
}
