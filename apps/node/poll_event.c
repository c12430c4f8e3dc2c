/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <sys/resource.h>

#include <rte_branch_prediction.h>

#include "clock.h"
#include "poll_event.h"

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

/* Mode transition: book the interval that is open, so that none is long and a host gap can be told from work. */
static void book_open_interval(struct poller *p)
{
	if (p->accounting == ACCOUNTING_TRANSITION)
		account_transition(p->account, &p->open, p->open.busy, cycles_stamp() - p->aside_cycles);
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

	if (ends_window)
		series_close(&p->series, p->account, now);
	p->account->last_tsc = now;
	read_edge(p, &p->edges[ends_window]);
	p->stretch = ends_window ? STRETCH_DRAIN : STRETCH_WINDOW;
	p->account = &p->accounts[p->stretch];
	if (ends_window && !p->no_drain)
		trial_wake(p->trial);
	p->last_stamp = p->account->first_tsc = cycles_stamp();
	p->open.since = p->account->first_tsc - p->aside_cycles;
	p->open.packets = 0;
	if (!ends_window)
		series_open(&p->series, p->account->first_tsc,
		            RTE_MAX(p->trial->end_tsc, p->account->first_tsc));
	for (uint16_t i = 0; p->visit_stamps && i < p->queues; i++)
		p->visit_stamps[i] = 0;
}

#define INTERRUPT_CYCLES 2000 /* a timer interrupt takes longer */

/*
 * A stretch without packets tells the cost of empty polls; one that an interrupt or the host lengthened is left out. A stretch far
 * longer than its sweeps and packets explain was interrupted by the host or another thread.
 */
static void judge_stretch(struct poller *p, uint32_t sweeps, uint64_t elapsed)
{
	struct account *a = p->account;
	const uint64_t usual = (uint64_t)EVENT_CYCLES * sweeps / p->steady_sweeps;
	const uint64_t packets = a->rx_packets - p->event_packets;

	if (packets == 0 && elapsed < INTERRUPT_CYCLES + 2 * usual)
		account_quiet(a, (uint64_t)sweeps * p->queues, elapsed);
	if (elapsed > gap_threshold(a, packets, 0) + 2 * usual) {
		a->interruptions++;
		a->interrupted_cycles += elapsed - usual;
	}
}

/* Sweeps that take about EVENT_CYCLES, by doubling and halving. */
static void adapt(struct poller *p, uint32_t sweeps, uint64_t elapsed)
{
	if (elapsed > EVENT_CYCLES && p->steady_sweeps > 1)
		p->steady_sweeps /= 2;
	else if (elapsed < EVENT_CYCLES / 2 && sweeps >= p->steady_sweeps &&
	         p->steady_sweeps < EVENT_SWEEPS_MAX)
		p->steady_sweeps *= 2;
}

/* Random, so that sampled sweeps do not beat with the traffic; at most every EVENT_CYCLES when sweeps are short. */
static uint64_t draw_sample_distance(struct poller *p)
{
	const uint64_t mean = RTE_MAX(p->sample_every, p->steady_sweeps);

	return 1 + rng_below(&p->rng, 2 * mean);
}

/* Which modes take samples, and which of those take sampled sweeps and not only short stretches. */
static bool samples(const struct poller *p)
{
	return p->accounting == ACCOUNTING_SAMPLED || p->accounting == ACCOUNTING_TRANSITION;
}

static void plan_sampling(struct poller *p, uint32_t sweeps)
{
	p->short_stretch = false;
	if (!samples(p))
		return;
	const bool due = p->sample_countdown <= sweeps;
	/* of 8 samples two are short stretches */
	p->short_stretch = due && (p->accounting == ACCOUNTING_TRANSITION || (rng_next(&p->rng) & 3) == 0);
	p->sample_due = due && !p->short_stretch;
	p->sample_countdown = due ? draw_sample_distance(p) : p->sample_countdown - sweeps;
	/* drawn while sweeps were shorter: do not wait for it through long ones */
	const uint64_t most = 2 * (uint64_t)RTE_MAX(p->sample_every, p->steady_sweeps);

	if (p->sample_countdown > most)
		p->sample_countdown = 1 + rng_below(&p->rng, most);
}

/* Sweeps until the next event; fewer when the window's edge is nearer than that. */
static void plan(struct poller *p, uint32_t sweeps, uint64_t elapsed, uint64_t now)
{
	const uint64_t boundary = boundary_of(p);
	uint64_t next = p->steady_sweeps;

	if (samples(p))
		next = RTE_MIN(next, p->sample_countdown);
	if (p->short_stretch)
		next = UINT64_C(1) << (rng_next(&p->rng) & 7);
	if (boundary - now < 2 * elapsed)
		next = RTE_MIN(next, (boundary - now) * sweeps / (2 * elapsed));
	p->planned_sweeps = (uint32_t)RTE_MAX(next, 1u);
	p->packets_left = p->packets_per_event;
	p->busy_sweep = UINT32_MAX;
}

uint32_t poll_begin(struct poller *p)
{
	const uint64_t now = cycles_stamp();

	p->stretch = STRETCH_WARMUP;
	p->account = &p->accounts[STRETCH_WARMUP];
	p->aside_cycles = p->event_aside = 0;
	p->owed_cycles = 0;
	p->event_tsc = p->last_stamp = p->open.since = p->account->first_tsc = now;
	p->open.busy = false;
	p->open.packets = 0;
	p->sample_due = false;
	p->event_packets = 0;
	p->steady_sweeps = 1;
	p->planned_sweeps = 1;
	p->sample_countdown = p->sample_every;
	p->packets_left = p->packets_per_event;
	p->busy_sweep = UINT32_MAX;
	return 1;
}

static void note_event(struct poller *p)
{
	p->event_packets = p->account->rx_packets;
	p->event_aside = p->aside_cycles;
	p->event_tsc = cycles_stamp();
}

/* Own time is the time since the last event without waits: what the loop itself took. */
uint32_t poll_event(struct poller *p)
{
	const uint32_t sweeps = p->planned_sweeps;
	const uint64_t now = cycles_stamp();
	const uint64_t elapsed = now - p->event_tsc, own = elapsed - (p->aside_cycles - p->event_aside);
	const enum trial_phase phase = trial_phase(p->trial);

	p->account->sweeps += sweeps;
	longest_offer(&p->account->longest, now, elapsed, sweeps);
	judge_stretch(p, sweeps, own);
	book_open_interval(p);
	adapt(p, sweeps, own);
	if (unlikely(now >= p->series.next_tsc))
		series_mark(&p->series, p->account, now);
	if (now >= boundary_of(p) || (phase != TRIAL_RUN && p->stretch != STRETCH_DRAIN))
		next_stretch(p, now);
	if (p->stretch == STRETCH_DRAIN && (phase == TRIAL_OVER || p->no_drain)) {
		p->account->last_tsc = now;
		return 0;
	}
	plan_sampling(p, sweeps);
	plan(p, sweeps, elapsed, now);
	note_event(p);
	return p->planned_sweeps;
}

void poll_sampled(struct poller *p, uint32_t sweeps, uint64_t now)
{
	struct account *a = p->account;

	a->sweeps += sweeps;
	a->sampled_sweeps += sweeps;
	longest_offer(&a->longest, now, now - p->event_tsc, sweeps);
	p->sample_due = false;
	note_event(p);
}

void poll_reset(struct poller *p, const struct trial *trial)
{
	const struct account_known known = {
	        .tsc_hz = trial->tsc_hz,
	        .empty_poll_cycles = p->empty_poll_cycles,
	        .longest = p->longest,
	};

	p->trial = trial;
	if (p->delays.config)
		delay_streams_begin(&p->delays, p->delays.config, p->lcore);
	for (int s = 0; s < STRETCHES; s++)
		account_reset(&p->accounts[s], &known);
	p->account = &p->accounts[STRETCH_WARMUP];
	p->stretch = STRETCH_WARMUP;
	series_reset(&p->series);
	memset(p->edges, 0, sizeof(p->edges));
	memset(p->visit_stamps, 0, RTE_MAX_QUEUES_PER_PORT * sizeof(*p->visit_stamps));
}

const struct account *poll_window(struct poller *p, poll_loop_fn loop, uint64_t cycles)
{
	struct trial trial = {.tsc_hz = clock_tsc_hz(), .wake_fd = -1};

	poll_reset(p, &trial);
	trial.start_tsc = cycles_stamp() + cycles / WARMUP_SHARE;
	trial.end_tsc = trial.start_tsc + cycles;
	p->no_drain = true;
	loop(p);
	p->no_drain = false;
	p->trial = NULL;
	return &p->accounts[STRETCH_WINDOW];
}
