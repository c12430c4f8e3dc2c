/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <sys/resource.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

#include "clock.h"
#include "event.h"
#include "quiet.h"

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
	edge->lost_polls = poller_lost_polls(p);
	edge->sleeps = p->waiter.sleeps;
	edge->stolen = p->stolen;
	edge->vain_wakes = p->vain_wakes;
	pmu_read(&p->pmu, &edge->pmu);
}

uint64_t poll_boundary(const struct poller *p)
{
	switch (p->stage) {
	case STAGE_WARMUP:
		return p->trial->start_tsc;
	case STAGE_WINDOW:
		return p->trial->end_tsc;
	default:
		return UINT64_MAX;
	}
}

/* Close the stage at `now` and open the next. The time that this takes belongs to neither. */
static void next_stage(struct poller *p, uint64_t now)
{
	const bool ends_window = p->stage == STAGE_WINDOW;

	if (ends_window)
		series_close(&p->series, p->account, now);
	p->account->last_tsc = now;
	read_edge(p, &p->edges[ends_window]);
	p->stage = ends_window ? STAGE_DRAIN : STAGE_WINDOW;
	p->account = &p->accounts[p->stage];
	if (ends_window && !p->no_drain)
		trial_wake(p->trial);
	p->last_stamp = p->account->first_tsc = cycles_stamp();
	p->block_cycles = (p->trial->end_tsc - p->account->first_tsc) / ACCOUNT_BLOCKS + 1;
	if (!ends_window)
		series_open(&p->series, p->account->first_tsc,
		            RTE_MAX(p->trial->end_tsc, p->account->first_tsc));
	for (uint16_t i = 0; p->busy_poll_stamps && i < p->queues; i++)
		p->busy_poll_stamps[i] = 0;
}

/*
 * A mean over about this many values. One value moves it by at most its own size, so that a host gap is not taken for
 * work.
 */
#define MEAN_OF 16
static void follow(double *mean, double value)
{
	*mean += (RTE_MIN(value, 2 * *mean + 1) - *mean) / MEAN_OF;
}

static double expected_cycles(const struct poller *p, uint64_t polls, uint64_t packets)
{
	return (double)polls * p->poll_cycles + (double)packets * p->packet_cycles;
}

uint64_t poll_interruption(const struct poller *p, uint64_t polls, uint64_t packets, uint64_t cycles)
{
	const double expected = expected_cycles(p, polls, packets), beyond = (double)cycles - expected;

	return beyond > expected / ACCOUNT_INTERRUPTION_PART + (double)p->interruption_cycles
	               ? (uint64_t)beyond
	               : 0;
}

static void book_interruption(struct poller *p, uint64_t polls, uint64_t packets, uint64_t elapsed)
{
	const uint64_t cycles = poll_interruption(p, polls, packets, elapsed);

	p->account->interruptions += cycles > 0;
	p->account->interrupted_cycles += cycles;
}

/* Learn the cost of polls and packets from the interval since the last event, and book an interruption. */
static void judge_interval(struct poller *p, uint64_t polls, uint64_t elapsed)
{
	const uint64_t packets = p->account->rx_packets - p->event_packets;

	book_interruption(p, polls, packets, elapsed);
	p->loaded = 2 * (double)packets * p->packet_cycles > (double)elapsed;
	if (packets)
		follow(&p->packet_cycles,
		       RTE_MAX((double)elapsed - (double)polls * p->poll_cycles, 0) / (double)packets);
	else
		follow(&p->poll_cycles, (double)elapsed / (double)polls);
}

#define TIMED_INTERVAL_CYCLES                                                                                \
	16384 /* the longest timed intervals: 6 us at 2.6 GHz, short against the distance of timer interrupts */
#define LEAD_CYCLES 4096

static void plan_timed_intervals(struct poller *p, uint64_t polls, uint64_t elapsed)
{
	const uint64_t in_timed_interval = TIMED_INTERVAL_CYCLES * polls / (elapsed + 1) / poll_unit(p) + 1;

	p->event_polls = (uint32_t)(EVENT_CYCLES * polls / (elapsed + 1) + 1);
	p->lead_polls = (uint32_t)(LEAD_CYCLES * polls / (elapsed + 1) + 1);
	/* at least two lengths: otherwise the fixed cost of a timed interval could not be separated from its polls */
	p->timed_interval_lengths =
	        1 + (uint32_t)rte_log2_u64(RTE_MIN(RTE_MAX(in_timed_interval, 2ul),
	                                           ACCOUNT_TIMED_INTERVAL_POLLS / poll_unit(p)));
}

/* Adapt the number of sweeps that take about EVENT_CYCLES, by doubling and halving. */
static void adapt(struct poller *p, uint32_t sweeps, uint64_t elapsed)
{
	if (elapsed > EVENT_CYCLES && p->steady_sweeps > 1)
		p->steady_sweeps /= 2;
	else if (elapsed < EVENT_CYCLES / 2 && sweeps >= p->steady_sweeps &&
	         p->steady_sweeps < EVENT_SWEEPS_MAX)
		p->steady_sweeps *= 2;
}

/*
 * Sweeps to the next sampled one, random so that sampling does not beat with the traffic. With short sweeps about
 * every second event of an idle loop is sampled, and every eighth of a loaded loop: a sampled sweep costs about 400
 * cycles and disturbs the polls after it, and that must stay below half a per cent of the rate.
 */
#define SAMPLE_EVENTS_IDLE   2
#define SAMPLE_EVENTS_LOADED 8
/* A loop that waits has one event per wait, and a sampled sweep keeps it awake. */
#define SAMPLE_EVENTS_WAITING 32
static uint64_t mean_sample_distance(const struct poller *p)
{
	const uint64_t idle = p->source == SOURCE_WAITING ? SAMPLE_EVENTS_WAITING : SAMPLE_EVENTS_IDLE;
	const uint64_t events = p->loaded ? SAMPLE_EVENTS_LOADED : idle;

	return RTE_MAX((uint64_t)p->sample_every, events * p->steady_sweeps);
}

/* The time since the last event without waits. */
static uint64_t own_cycles(const struct poller *p, uint64_t now)
{
	return now - p->event_tsc - (p->aside_cycles - p->event_aside);
}

/* Waiting because nothing comes does not make an iteration long. */
static void offer(struct poller *p, uint64_t now, uint32_t sweeps)
{
	const bool waits = p->source == SOURCE_NOTIFIED || p->source == SOURCE_WAITING;

	longest_offer(&p->account->longest, now, waits ? own_cycles(p, now) : now - p->event_tsc, sweeps);
}

static bool samples(const struct poller *p)
{
	return p->accounting == ACCOUNTING_SAMPLED;
}

static void plan_sampling(struct poller *p, uint32_t sweeps)
{
	if (!samples(p))
		return;
	/* a notified loop has nothing to sample until a queue is ready, so the sample stays due */
	p->sample_due |= p->sample_countdown <= sweeps;
	p->sample_countdown -= RTE_MIN(p->sample_countdown, (uint64_t)sweeps);
	/*
	 * a distance that was drawn while sweeps were shorter is drawn again instead of being waited for through long
	 * ones
	 */
	if (p->sample_due || p->sample_countdown > 2 * mean_sample_distance(p))
		p->sample_countdown = 1 + rng_below(&p->rng, 2 * mean_sample_distance(p));
}

/* Plan the sweeps until the next event; fewer if the edge of the window is nearer. */
static void plan(struct poller *p, uint32_t sweeps, uint64_t elapsed, uint64_t now)
{
	const uint64_t boundary = poll_boundary(p);
	uint64_t next = p->steady_sweeps;

	if (samples(p))
		next = RTE_MIN(next, p->sample_countdown);
	if (boundary - now < 2 * elapsed)
		next = RTE_MIN(next, (boundary - now) * sweeps / (2 * elapsed));
	p->planned_sweeps = (uint32_t)RTE_MAX(next, 1u);
	p->packets_left = p->packets_per_event;
	p->busy_sweep = UINT32_MAX;
}

/* For the first intervals; the means settle long before the window begins. */
#define POLL_CYCLES_GUESS   20
#define PACKET_CYCLES_GUESS 500

uint32_t poll_begin(struct poller *p)
{
	const uint64_t now = cycles_stamp();

	p->stage = STAGE_WARMUP;
	p->account = &p->accounts[STAGE_WARMUP];
	p->aside_cycles = p->event_aside = 0;
	p->owed_cycles = 0;
	p->event_tsc = p->last_stamp = p->account->first_tsc = now;
	p->sample_due = false;
	p->sweep_span = (uint32_t)(p->end_queue - p->first_queue);
	p->interruption_cycles = cycles_of_ns(ACCOUNT_INTERRUPTION_NS, p->trial->tsc_hz);
	p->poll_cycles = p->empty_poll_cycles > 0 ? p->empty_poll_cycles : POLL_CYCLES_GUESS;
	p->packet_cycles = PACKET_CYCLES_GUESS;
	p->event_polls = p->lead_polls = 1;
	p->timed_interval_lengths = 2;
	p->event_packets = 0;
	p->steady_sweeps = 1;
	p->planned_sweeps = 1;
	p->sample_countdown = p->sample_every;
	p->packets_left = p->packets_per_event;
	p->busy_sweep = UINT32_MAX;
	p->quiet_sweeps = 0;
	quiet_plan(p, !p->no_drain);
	return 1;
}

static void note_event(struct poller *p)
{
	p->event_packets = p->account->rx_packets;
	p->event_aside = p->aside_cycles;
	p->event_tsc = cycles_stamp();
}

uint32_t poll_event(struct poller *p)
{
	const uint32_t sweeps = p->planned_sweeps;
	const uint64_t now = cycles_stamp();
	const uint64_t elapsed = now - p->event_tsc, own = own_cycles(p, now);
	const enum trial_phase phase = trial_phase(p->trial);

	p->account->sweeps += sweeps;
	offer(p, now, sweeps);
	judge_interval(p, (uint64_t)sweeps * poller_polls_at_once(p), own);
	adapt(p, sweeps, own);
	if (unlikely(now >= p->series.next_tsc))
		series_mark(&p->series, p->account, now);
	if (now >= poll_boundary(p) || (phase != TRIAL_RUN && p->stage != STAGE_DRAIN))
		next_stage(p, now);
	if (p->stage == STAGE_DRAIN && (phase == TRIAL_OVER || p->no_drain)) {
		p->account->last_tsc = now;
		return 0;
	}
	plan_sampling(p, sweeps);
	if (p->sample_due)
		plan_timed_intervals(p, (uint64_t)sweeps * poller_polls_at_once(p), own);
	plan(p, sweeps, elapsed, now);
	/* neither a sampled sweep nor a calibrated loop ends in a wait */
	if (p->source == SOURCE_WAITING)
		quiet_plan(p, !p->sample_due && !p->no_drain);
	note_event(p);
	p->account->event_cycles += p->event_tsc - now;
	return p->planned_sweeps;
}

void poll_sampled(struct poller *p, uint32_t sweeps, uint64_t now)
{
	struct account *a = p->account;

	book_interruption(p, (uint64_t)sweeps * poller_polls_at_once(p), a->rx_packets - p->event_packets,
	                  own_cycles(p, now));
	a->sweeps += sweeps;
	a->sampled_sweeps += sweeps;
	offer(p, now, sweeps);
	p->sample_due = false;
	p->packets_left = p->packets_per_event;
	if (p->source == SOURCE_WAITING)
		quiet_plan(p, !p->no_drain);
	note_event(p);
}

/* Return the block of the window in which `now` lies. */
static unsigned int block_of(const struct poller *p, uint64_t now)
{
	return (unsigned int)RTE_MIN((now - p->account->first_tsc) / p->block_cycles,
	                             (uint64_t)ACCOUNT_BLOCKS - 1);
}

/* Return true, and book it, if a timed interval was interrupted. */
static bool left_out(struct poller *p, uint64_t polls, uint64_t packets, uint64_t cycles)
{
	if (poll_interruption(p, polls, packets, cycles) == 0)
		return false;
	p->account->left_out++;
	p->account->left_out_cycles += cycles;
	return true;
}

void poll_timed_interval(struct poller *p, const struct account_timed_interval *timed_interval)
{
	const uint64_t now = cycles_stamp();

	p->account->stamps += 4;
	if (p->account == &p->accounts[STAGE_WINDOW] &&
	    !left_out(p, timed_interval->polls, timed_interval->packets, timed_interval->cycles))
		account_add_timed_interval(p->account, block_of(p, now), timed_interval);
	p->account->sampling_cycles += cycles_stamp() - now;
}

void poll_timed_busy_poll(struct poller *p, uint16_t n, uint32_t number, const uint64_t stamp[4])
{
	p->account->stamps += 3;
	if (!left_out(p, 1, n, stamp[3] - stamp[0]))
		account_add_busy_poll(p->account, n, (number - p->next_number) / p->queue_step, stamp);
}

void poll_timed_turn(struct poller *p, uint16_t n, const uint64_t stamp[6])
{
	const uint64_t now = cycles_stamp();
	struct account *a = p->account;
	/* a busy poll has two notification intervals around its parts */
	const uint64_t notice = n ? stamp[1] - stamp[0] + stamp[5] - stamp[4] : stamp[5] - stamp[0];
	const double stamps = n ? 2 : 1;

	a->stamps += n ? 6 : 4;
	if (!left_out(p, 1, n, stamp[5] - stamp[0])) {
		if (n)
			account_add_busy_poll(a, n, 0, stamp + 1);
		account_add_notice(a, n != 0, RTE_MAX((double)notice - stamps * p->stamp_cycles, 0));
	}
	a->sampling_cycles += cycles_stamp() - now;
}

void poll_reset(struct poller *p, const struct trial *trial)
{
	p->trial = trial;
	if (p->delays.config)
		delay_streams_begin(&p->delays, p->delays.config, p->lcore);
	for (int s = 0; s < STAGES; s++)
		account_reset(&p->accounts[s], p->longest);
	p->account = &p->accounts[STAGE_WARMUP];
	p->stage = STAGE_WARMUP;
	series_reset(&p->series);
	memset(p->edges, 0, sizeof(p->edges));
	memset(p->busy_poll_stamps, 0, RTE_MAX_QUEUES_PER_PORT * sizeof(*p->busy_poll_stamps));
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
	return &p->accounts[STAGE_WINDOW];
}
