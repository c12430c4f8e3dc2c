/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The poll loop, written once and specialised at compile time.
 * Every function here is inlined with a constant struct loop_kind. A loop therefore has no branch on its accounting
 * mode, no indirect call except those of the driver and of called_loops, and no code for delays if it has none.
 * WORKLOAD_LOOPS() makes the loops of a workload.
 *
 * A new way to receive (an organisation) is a receive function; a new workload is a process function. Sweeping loops
 * take the next queue from queue_after(), notified loops from next_turn() (notified.h). Sweeping loops that wait when
 * nothing comes (quiet.h) do so between sweeps.
 */
#ifndef LOOP_H
#define LOOP_H

#include <rte_branch_prediction.h>
#include <rte_ethdev.h>

#include "receive_send.h"
#include "event.h"
#include "notified.h"
#include "quiet.h"
#include "wait.h"

/* Receive up to p->burst packets from `queue`. */
typedef uint16_t (*receive_fn)(struct poller *p, uint16_t queue, struct rte_mbuf **packets);

/* Send n packets of `bytes` together, or free them. */
typedef void (*send_fn)(struct poller *p, struct rte_mbuf **packets, uint16_t n, uint64_t bytes);

/* Poll the queues [from, to) in sweep number `sweep`; sweep numbers count down. */
typedef void (*range_fn)(struct poller *p, struct rte_mbuf **packets, uint32_t from, uint32_t to,
                         uint32_t sweep);

/*
 * Run whole sweeps from number `sweep` on, until the next one would be `last` or packets_left is used up. Returns the
 * number of the sweep that would have come next.
 */
typedef uint32_t (*sweeps_fn)(struct poller *p, struct rte_mbuf **packets, uint32_t sweep, uint32_t last);

struct loop_kind {
	enum accounting accounting;
	enum poller_source source;
	bool delays;
	receive_fn receive;
	process_fn process;
	bool resizes; /* process may change the size of packets (poller.resizes) */
	send_fn send;
	/* mode sampled: not inlined, so that timed and untimed polls run the same code */
	range_fn range;
	sweeps_fn sweeps;
};

/* The clock of timed intervals; it stands still while this lcore waits. */
static __rte_always_inline uint64_t own_stamp(const struct poller *p, const struct loop_kind kind)
{
	const bool waits = kind.delays || kind.source == SOURCE_LOCKED;

	return cycles_stamp() - (waits ? p->aside_cycles : 0);
}

static __rte_always_inline uint16_t poll_receive(struct poller *p, const struct loop_kind kind,
                                                 uint32_t queue, struct rte_mbuf **packets)
{
	return kind.receive(p, (uint16_t)queue, packets);
}

/* Process the packets; return how many remain to be sent, and their bytes in *bytes. */
static __rte_always_inline uint16_t poll_process(struct poller *p, const struct loop_kind kind,
                                                 struct rte_mbuf **packets, uint16_t n, uint64_t *bytes)
{
	struct account *a = p->account;

	*bytes = packets_bytes(packets, n);
	a->rx_packets += n;
	a->rx_bytes += *bytes;
	const uint16_t kept = kind.process(p, packets, n);

	if (kind.delays)
		wait_for_packets(p, n);
	if ((kind.resizes && p->resizes) || unlikely(kept != n))
		*bytes = packets_bytes(packets, kept);
	a->workload_dropped += n - kept;
	return kept;
}

/* The next queue of a sweep. */
static __rte_always_inline uint32_t queue_after(const struct poller *p, uint32_t queue)
{
	return queue + p->queue_step;
}

/*
 * Poll numbers ascend from one sweep to the next. A busy poll whose number does not follow that of the last busy poll
 * came after an empty poll.
 */
static __rte_always_inline void poll_count(struct poller *p, const struct loop_kind kind, uint16_t n,
                                           uint32_t queue, uint32_t sweep)
{
	struct account *a = p->account;
	const uint32_t number = queue - sweep * p->sweep_span;

	if (kind.accounting == ACCOUNTING_NONE)
		return;
	a->busy_polls[n]++;
	a->busy_sweeps += p->busy_sweep != sweep;
	p->busy_sweep = sweep;
	if (kind.accounting != ACCOUNTING_SAMPLED)
		return;
	a->transitions += number != p->next_number;
	p->next_number = number + p->queue_step;
}

static __rte_always_inline void poll_forward(struct poller *p, const struct loop_kind kind,
                                             struct rte_mbuf **packets, uint16_t n)
{
	uint64_t bytes;
	const uint16_t kept = poll_process(p, kind, packets, n, &bytes);

	kind.send(p, packets, kept, bytes);
}

/* Poll the queues [from, to) in the modes none, count and sampled. */
static __rte_always_inline void plain_range(struct poller *p, const struct loop_kind kind,
                                            struct rte_mbuf **packets, uint32_t from, uint32_t to,
                                            uint32_t sweep)
{
	for (uint32_t q = from; q < to; q = queue_after(p, q)) {
		const uint16_t n = poll_receive(p, kind, q, packets);

		if (n == 0)
			continue;
		poll_forward(p, kind, packets, n);
		poll_count(p, kind, n, q, sweep);
		p->packets_left -= n;
	}
}

/* Mode full: add an interval that contains one stamp to its sum, unless the host interrupted it. */
static __rte_always_inline void full_interval(struct poller *p, uint16_t n, uint64_t cycles, uint64_t *sum,
                                              uint64_t *intervals)
{
	if (poll_interruption(p, 1, n, cycles))
		return;
	*sum += cycles;
	(*intervals)++;
}

static __rte_always_inline void full_forward(struct poller *p, const struct loop_kind kind,
                                             struct rte_mbuf **packets, uint16_t n)
{
	struct account *a = p->account;
	uint64_t bytes;

	const uint64_t begin = own_stamp(p, kind);
	const uint16_t kept = poll_process(p, kind, packets, n, &bytes);
	const uint64_t processed = own_stamp(p, kind);

	kind.send(p, packets, kept, bytes);
	const uint64_t end = own_stamp(p, kind);

	a->stamps += 3;
	full_interval(p, n, processed - begin, &a->process_cycles, &a->process_intervals);
	full_interval(p, n, end - processed, &a->transmit_cycles, &a->transmit_intervals);
}

/* Return the number of packets. Bookkeeping is outside the timed intervals and counts as loop overhead of this mode. */
static __rte_always_inline uint16_t full_busy_poll(struct poller *p, const struct loop_kind kind,
                                                   struct rte_mbuf **packets, uint16_t queue, uint16_t index)
{
	struct account *a = p->account;
	const uint64_t begin = own_stamp(p, kind);
	const uint16_t n = poll_receive(p, kind, queue, packets);
	const uint64_t end = own_stamp(p, kind);

	a->stamps += 2;
	full_interval(p, n, end - begin, n ? &a->receive_cycles : &a->empty_cycles,
	              n ? &a->receive_intervals : &a->empty_intervals);
	if (p->busy_poll_stamps[index])
		histogram_record(&a->poll_gap_cycles, begin - p->busy_poll_stamps[index]);
	p->busy_poll_stamps[index] = begin;
	if (n)
		full_forward(p, kind, packets, n);
	return n;
}

static __rte_always_inline void full_sweep(struct poller *p, const struct loop_kind kind,
                                           struct rte_mbuf **packets, uint32_t sweep)
{
	const uint64_t now = cycles_stamp();
	uint16_t index = 0;

	histogram_record(&p->account->iteration_cycles, now - p->last_stamp);
	p->account->stamps++;
	p->last_stamp = now;
	for (uint32_t q = p->first_queue; q < p->end_queue; q = queue_after(p, q), index++) {
		const uint16_t n = full_busy_poll(p, kind, packets, (uint16_t)q, index);

		if (n == 0)
			continue;
		poll_count(p, kind, n, q, sweep);
		p->packets_left -= n;
	}
}

static __rte_always_inline uint32_t plain_sweeps(struct poller *p, const struct loop_kind kind,
                                                 struct rte_mbuf **packets, uint32_t sweep, uint32_t last)
{
	const struct account *a = p->account;
	uint64_t received = 0;

	do {
		if (kind.source == SOURCE_WAITING)
			received = a->rx_packets;
		if (kind.accounting == ACCOUNTING_FULL)
			full_sweep(p, kind, packets, sweep);
		else
			plain_range(p, kind, packets, p->first_queue, p->end_queue, sweep);
	} while (likely(--sweep != last && p->packets_left > 0) &&
	         !(kind.source == SOURCE_WAITING && quiet_enough(p, a->rx_packets - received)));
	return sweep;
}

/* Sweep until the queues have been empty long enough, then wait. */
static __rte_always_inline uint32_t sweeps_or_wait(struct poller *p, const struct loop_kind kind,
                                                   struct rte_mbuf **packets, uint32_t sweep, uint32_t last)
{
	bool quiet = false;

	if (poller_by_range(p)) {
		do {
			const uint64_t received = p->account->rx_packets;

			kind.range(p, packets, p->first_queue, p->end_queue, sweep);
			quiet = quiet_enough(p, p->account->rx_packets - received);
		} while (--sweep != last && p->packets_left > 0 && !quiet);
	} else {
		sweep = kind.sweeps(p, packets, sweep, last);
		quiet = p->quiet_sweeps >= p->quiet_limit;
	}
	if (quiet)
		quiet_wait(p);
	return sweep;
}

static __rte_always_inline uint32_t sweeps_to(struct poller *p, const struct loop_kind kind,
                                              struct rte_mbuf **packets, uint32_t sweep, uint32_t last)
{
	if (kind.accounting != ACCOUNTING_SAMPLED)
		return plain_sweeps(p, kind, packets, sweep, last);
	if (kind.source == SOURCE_WAITING)
		return sweeps_or_wait(p, kind, packets, sweep, last);
	if (!poller_by_range(p))
		return kind.sweeps(p, packets, sweep, last);
	do
		kind.range(p, packets, p->first_queue, p->end_queue, sweep);
	while (--sweep != last && p->packets_left > 0);
	return sweep;
}

/* The position within a sampled sweep, which may extend over several sweeps. */
struct sweep_place {
	uint32_t queue;
	uint32_t sweep; /* counts down from SAMPLED_SWEEP */
};

/* Move to the next queue, possibly in the next sweep. */
static __rte_always_inline void place_after(const struct poller *p, struct sweep_place *at)
{
	at->queue = queue_after(p, at->queue);
	if (at->queue == p->end_queue) {
		at->queue = p->first_queue;
		at->sweep--;
	}
}

/* Make at least `polls` polls from `at` on, in whole sweeps if sweeps are short. Returns how many. */
static __rte_always_inline uint32_t poll_on(struct poller *p, const struct loop_kind kind,
                                            struct rte_mbuf **packets, struct sweep_place *at, uint32_t polls)
{
	if (!poller_by_range(p)) {
		const uint32_t sweeps = (polls + p->queues - 1) / p->queues, from = at->sweep;

		p->packets_left = INT32_MAX;
		at->sweep = kind.sweeps(p, packets, from, from - sweeps);
		return sweeps * p->queues;
	}
	for (uint32_t left = polls; left > 0;) {
		const uint32_t here = RTE_MIN(left, (p->end_queue - at->queue) / p->queue_step);
		const uint32_t to = at->queue + here * p->queue_step;

		kind.range(p, packets, at->queue, to, at->sweep);
		left -= here;
		at->queue = to == p->end_queue ? p->first_queue : to;
		at->sweep -= to == p->end_queue;
	}
	return polls;
}

/* Poll to the end of the sweep. */
static __rte_always_inline void poll_to_end(struct poller *p, const struct loop_kind kind,
                                            struct rte_mbuf **packets, struct sweep_place *at)
{
	if (at->queue == p->first_queue)
		return;
	kind.range(p, packets, at->queue, p->end_queue, at->sweep--);
	at->queue = p->first_queue;
}

/*
 * Polls before a timed interval, so that the pipeline is in the same state at its begin and end. A random number is
 * added.
 */
#define LEAD_POLLS 64
static __rte_always_inline void poll_lead(struct poller *p, const struct loop_kind kind,
                                          struct rte_mbuf **packets, struct sweep_place *at, uint32_t spread)
{
	poll_on(p, kind, packets, at,
	        RTE_MIN(LEAD_POLLS, p->lead_polls) + (uint32_t)rng_below(&p->rng, spread));
}

/* Poll to a random queue of the sweep. */
static __rte_always_inline void poll_to_random(struct poller *p, const struct loop_kind kind,
                                               struct rte_mbuf **packets, struct sweep_place *at)
{
	poll_lead(p, kind, packets, at, 1);
	poll_to_end(p, kind, packets, at);
	at->queue += (uint32_t)rng_below(&p->rng, p->queues) * p->queue_step;
	kind.range(p, packets, p->first_queue, at->queue, at->sweep);
}

static __rte_always_inline void sample_timed_interval(struct poller *p, const struct loop_kind kind,
                                                      struct rte_mbuf **packets, struct sweep_place *at)
{
	const struct account *a = p->account;
	const uint32_t polls = poll_unit(p) << rng_below(&p->rng, p->timed_interval_lengths);
	const bool loses = source_loses_polls(kind.source);
	struct account_timed_interval timed_interval;
	const uint64_t lost = loses ? poller_lost_polls(p) : 0;
	const uint64_t busy_polls = account_busy_polls_up_to(a, p->burst), transitions = a->transitions,
	               received = a->rx_packets;
	const uint64_t start = own_stamp(p, kind);

	timed_interval.polls = poll_on(p, kind, packets, at, polls);
	timed_interval.cycles = own_stamp(p, kind) - start;
	timed_interval.busy_polls = (uint32_t)(account_busy_polls_up_to(a, p->burst) - busy_polls);
	timed_interval.transitions = (uint32_t)(a->transitions - transitions);
	timed_interval.packets = (uint32_t)(a->rx_packets - received);
	timed_interval.lost = loses ? (uint32_t)(poller_lost_polls(p) - lost) : 0;
	if (likely(a == p->account))
		poll_timed_interval(p, &timed_interval);
}

/* A long sweep has room for several timed intervals. */
static __rte_always_inline void sample_timed_intervals(struct poller *p, const struct loop_kind kind,
                                                       struct rte_mbuf **packets, struct sweep_place *at)
{
	const uint32_t sweep = at->sweep;

	do {
		poll_lead(p, kind, packets, at, RTE_MIN(p->queues, 2 * p->event_polls));
		sample_timed_interval(p, kind, packets, at);
	} while (at->sweep == sweep && p->queues > p->event_polls);
}

/* Time the first busy poll within ACCOUNT_TIMED_POLLS polls, alone and with its parts. */
static __rte_always_inline void sample_busy_poll(struct poller *p, const struct loop_kind kind,
                                                 struct rte_mbuf **packets, struct sweep_place *at)
{
	poll_to_random(p, kind, packets, at);
	for (uint32_t polls = 0; polls < ACCOUNT_TIMED_POLLS; polls++) {
		uint64_t stamp[4] = {own_stamp(p, kind)}, bytes;
		const uint32_t q = at->queue, sweep = at->sweep;
		const uint16_t n = poll_receive(p, kind, q, packets);

		place_after(p, at);
		p->account->stamps++;
		if (n == 0)
			continue;
		stamp[1] = own_stamp(p, kind);
		const uint16_t kept = poll_process(p, kind, packets, n, &bytes);

		stamp[2] = own_stamp(p, kind);
		kind.send(p, packets, kept, bytes);
		stamp[3] = own_stamp(p, kind);
		poll_timed_busy_poll(p, n, q - sweep * p->sweep_span, stamp);
		poll_count(p, kind, n, q, sweep);
		return;
	}
}

/* Time one sweep from begin to end. */
static __rte_always_inline void sample_iteration(struct poller *p, const struct loop_kind kind,
                                                 struct rte_mbuf **packets, struct sweep_place *at)
{
	const uint64_t start = cycles_stamp();

	poll_on(p, kind, packets, at, p->queues);
	histogram_record(&p->account->iteration_cycles, cycles_stamp() - start);
	p->account->stamps += 2;
}

/* Time the gap from one poll of a random queue to the next. */
static __rte_always_inline void sample_poll_gap(struct poller *p, const struct loop_kind kind,
                                                struct rte_mbuf **packets, struct sweep_place *at)
{
	poll_to_random(p, kind, packets, at);
	const uint32_t queue = at->queue;
	const uint64_t start = cycles_stamp();

	poll_to_end(p, kind, packets, at);
	kind.range(p, packets, p->first_queue, queue, at->sweep);
	at->queue = queue;
	histogram_record(&p->account->poll_gap_cycles, cycles_stamp() - start);
	p->account->stamps += 2;
}

/*
 * Count the hardware events of one poll of a random queue, minus those of reading the counters; keep busy polls only.
 */
static __rte_always_inline void sample_counters(struct poller *p, const struct loop_kind kind,
                                                struct rte_mbuf **packets, struct sweep_place *at)
{
	uint64_t empty[PMU_COUNTERS] = {0}, before[PMU_COUNTERS] = {0}, after[PMU_COUNTERS] = {0};
	struct account *a = p->account;

	poll_to_random(p, kind, packets, at);
	const uint32_t queue = at->queue;
	const bool begun = pmu_read_all_user(&p->pmu, empty) && pmu_read_all_user(&p->pmu, before);
	const uint16_t n = poll_receive(p, kind, queue, packets);

	if (n) {
		poll_forward(p, kind, packets, n);
		if (pmu_read_all_user(&p->pmu, after) && begun) {
			a->strata[n].counter_samples++;
			for (int i = 0; i < PMU_COUNTERS; i++)
				a->strata[n].counters[i] +=
				        RTE_MAX(after[i] - before[i], before[i] - empty[i]) -
				        (before[i] - empty[i]);
		}
		poll_count(p, kind, n, queue, at->sweep);
	}
	place_after(p, at);
}

/*
 * On average, of 32 sampled sweeps two time a busy poll, one times an iteration, one a gap between polls, and four read
 * hardware counters (if possible). The others are timed intervals. Ends at the end of a sweep and returns the number of
 * the next one.
 */
#define SAMPLED_SWEEP (UINT32_MAX - 1)
static __rte_always_inline uint32_t sampled_sweep(struct poller *p, const struct loop_kind kind,
                                                  struct rte_mbuf **packets)
{
	const unsigned int what = rng_next(&p->rng) & 31;
	struct sweep_place at = {p->first_queue, SAMPLED_SWEEP};

	if (what < 2)
		sample_busy_poll(p, kind, packets, &at);
	else if (what == 2)
		sample_iteration(p, kind, packets, &at);
	else if (what == 3)
		sample_poll_gap(p, kind, packets, &at);
	else if (what < 8 && p->pmu.user_readable)
		sample_counters(p, kind, packets, &at);
	else
		sample_timed_intervals(p, kind, packets, &at);
	poll_to_end(p, kind, packets, &at);
	poll_sampled(p, SAMPLED_SWEEP - at.sweep, cycles_stamp());
	return at.sweep;
}

/* Renumber the sweeps without forgetting whether the last poll was busy. */
static __rte_always_inline void renumber(struct poller *p, uint32_t sweep, uint32_t to)
{
	const bool follows = p->next_number == p->first_queue - sweep * p->sweep_span;

	p->next_number = p->first_queue - to * p->sweep_span - !follows;
}

static __rte_always_inline void poll_loop(struct poller *p, const struct loop_kind kind)
{
	struct rte_mbuf *packets[ACCOUNT_BURST_MAX];
	uint32_t sweeps = poll_begin(p);

	while (sweeps) {
		const uint32_t left = sweeps_to(p, kind, packets, sweeps, 0);

		p->planned_sweeps = sweeps - left;
		sweeps = poll_event(p);
		if (kind.accounting != ACCOUNTING_SAMPLED)
			continue;
		if (sweeps && p->sample_due) {
			renumber(p, left, SAMPLED_SWEEP);
			renumber(p, sampled_sweep(p, kind, packets), sweeps);
		} else {
			renumber(p, left, sweeps);
		}
	}
}

/* Count a poll of a notified loop, whose polls have no ascending order. */
static __rte_always_inline void turn_count(struct poller *p, uint16_t n)
{
	struct account *a = p->account;

	a->polls++;
	if (n == 0)
		return;
	a->busy_polls[n]++;
	a->busy_sweeps++;
	p->packets_left -= n;
}

/* Run up to `turns` iterations, fewer if packets_left is used up or nothing was ready. Returns how many are left. */
static __rte_always_inline uint32_t take_turns(struct poller *p, const struct loop_kind kind,
                                               struct rte_mbuf **packets, uint32_t turns)
{
	struct turn turn;

	do {
		if (unlikely(!next_turn(p, &turn))) {
			if (!wait_for_ring(p))
				return turns - 1;
			if (!next_turn(p, &turn)) {
				p->vain_wakes++;
				continue;
			}
		}
		const uint16_t n = poll_receive(p, kind, turn.queue, packets);

		if (likely(n))
			poll_forward(p, kind, packets, n);
		arm_or_activate(p, &turn, n);
		turn_count(p, n);
	} while (--turns > 0 && p->packets_left > 0);
	return turns;
}

/* Run one iteration with stamps in between once a queue is ready; a wait before it is not timed. */
static __rte_always_inline void sample_turn(struct poller *p, const struct loop_kind kind,
                                            struct rte_mbuf **packets)
{
	uint64_t stamp[6] = {own_stamp(p, kind)}, bytes;
	struct turn turn;

	while (!next_turn(p, &turn)) {
		if (!wait_for_ring(p))
			return;
		stamp[0] = own_stamp(p, kind);
	}
	stamp[1] = own_stamp(p, kind);
	const uint16_t n = poll_receive(p, kind, turn.queue, packets);

	if (n) {
		stamp[2] = own_stamp(p, kind);
		const uint16_t kept = poll_process(p, kind, packets, n, &bytes);

		stamp[3] = own_stamp(p, kind);
		kind.send(p, packets, kept, bytes);
		stamp[4] = own_stamp(p, kind);
	}
	arm_or_activate(p, &turn, n);
	stamp[5] = own_stamp(p, kind);
	turn_count(p, n);
	poll_timed_turn(p, n, stamp);
	poll_sampled(p, 1, cycles_stamp());
}

static __rte_always_inline void notified_loop(struct poller *p, const struct loop_kind kind)
{
	struct rte_mbuf *packets[ACCOUNT_BURST_MAX];
	uint32_t turns = poll_begin(p);

	while (turns) {
		p->planned_sweeps = turns - take_turns(p, kind, packets, turns);
		turns = poll_event(p);
		if (turns && p->sample_due)
			sample_turn(p, kind, packets);
	}
}

#define NOTIFIED_LOOP(name, delays, ...)                                                                     \
	static __rte_noinline void name##_sampled(struct poller *p)                                          \
	{                                                                                                    \
		const struct loop_kind kind = {                                                              \
		        ACCOUNTING_SAMPLED, SOURCE_NOTIFIED, delays, __VA_ARGS__, NULL, NULL};               \
                                                                                                             \
		notified_loop(p, kind);                                                                      \
	}
#define NOTIFIED_LOOPS(name, ...)                                                                            \
	NOTIFIED_LOOP(name, false, __VA_ARGS__)                                                              \
	NOTIFIED_LOOP(name##_delays, true, __VA_ARGS__)

#define POLL_LOOP(name, ...)                                                                                 \
	static __rte_noinline void name(struct poller *p)                                                    \
	{                                                                                                    \
		const struct loop_kind kind = {__VA_ARGS__, NULL, NULL};                                     \
                                                                                                             \
		poll_loop(p, kind);                                                                          \
	}

/* The sampling loop and the pieces of it that are timed. Arguments: struct loop_kind from `source` on. */
#define SAMPLED_LOOP(name, ...)                                                                              \
	static __rte_noinline void name##_range(struct poller *p, struct rte_mbuf **packets, uint32_t from,  \
	                                        uint32_t to, uint32_t sweep)                                 \
	{                                                                                                    \
		const struct loop_kind kind = {ACCOUNTING_SAMPLED, __VA_ARGS__, NULL, NULL};                 \
                                                                                                             \
		plain_range(p, kind, packets, from, to, sweep);                                              \
	}                                                                                                    \
                                                                                                             \
	static __rte_noinline uint32_t name##_sweeps(struct poller *p, struct rte_mbuf **packets,            \
	                                             uint32_t sweep, uint32_t last)                          \
	{                                                                                                    \
		const struct loop_kind kind = {ACCOUNTING_SAMPLED, __VA_ARGS__, NULL, NULL};                 \
                                                                                                             \
		return plain_sweeps(p, kind, packets, sweep, last);                                          \
	}                                                                                                    \
                                                                                                             \
	static __rte_noinline void name(struct poller *p)                                                    \
	{                                                                                                    \
		const struct loop_kind kind = {ACCOUNTING_SAMPLED, __VA_ARGS__, name##_range,                \
		                               name##_sweeps};                                               \
                                                                                                             \
		poll_loop(p, kind);                                                                          \
	}

/* One loop per accounting mode. Arguments: struct loop_kind from `source` on. */
#define LOOPS_OF_MODES(name, ...)                                                                            \
	POLL_LOOP(name##_none, ACCOUNTING_NONE, __VA_ARGS__)                                                 \
	POLL_LOOP(name##_count, ACCOUNTING_COUNT, __VA_ARGS__)                                               \
	SAMPLED_LOOP(name##_sampled, __VA_ARGS__)                                                            \
	POLL_LOOP(name##_full, ACCOUNTING_FULL, __VA_ARGS__)

/*
 * Mode sampled, on which all claims rest, exists for every source (SAMPLED_LOOPS). The other modes serve to check the
 * accounting, or when counting is enough. They exist only without delays, and for packets that no other lcore touches
 * (ALL_LOOPS). Arguments: struct loop_kind from `receive` on.
 */
#define SAMPLED_LOOPS(name, source, ...)                                                                     \
	SAMPLED_LOOP(name##_sampled, source, false, __VA_ARGS__)                                             \
	SAMPLED_LOOP(name##_delays_sampled, source, true, __VA_ARGS__)

#define ALL_LOOPS(name, source, ...)                                                                         \
	LOOPS_OF_MODES(name, source, false, __VA_ARGS__)                                                     \
	SAMPLED_LOOP(name##_delays_sampled, source, true, __VA_ARGS__)

/* clang-format off */
/* Parts of initialisers with these loops: of an array by enum accounting, and of a loop_table. */
#define BY_MODE(name)                                                                                        \
	[ACCOUNTING_NONE] = name##_none, [ACCOUNTING_COUNT] = name##_count,                                  \
	[ACCOUNTING_SAMPLED] = name##_sampled, [ACCOUNTING_FULL] = name##_full
#define SAMPLED_OF(name, source)                                                                             \
	[source][false][ACCOUNTING_SAMPLED] = name##_sampled,                                                \
	[source][true][ACCOUNTING_SAMPLED] = name##_delays_sampled
#define ALL_OF(name, source)                                                                                 \
	[source][false] = {BY_MODE(name)}, [source][true][ACCOUNTING_SAMPLED] = name##_delays_sampled
/* clang-format on */

/* clang-format off */
/* Define the loops of a workload that receives, and the loop_table `name` of them. */
#define WORKLOAD_LOOPS(name, process, resizes)                                                               \
	ALL_LOOPS(name##_alone, SOURCE_RX_QUEUES, receive_alone, process, resizes, send_port)                \
	SAMPLED_LOOPS(name##_locked, SOURCE_LOCKED, receive_locked, process, resizes, send_port)             \
	SAMPLED_LOOPS(name##_trylock, SOURCE_TRYLOCK, receive_trylock, process, resizes, send_port)          \
	SAMPLED_LOOPS(name##_corec, SOURCE_COREC, receive_corec, process, resizes, send_port)                \
	NOTIFIED_LOOPS(name##_notified, receive_alone, process, resizes, send_port)                          \
	SAMPLED_LOOPS(name##_waiting, SOURCE_WAITING, receive_alone, process, resizes, send_port)            \
	SAMPLED_LOOPS(name##_counted, SOURCE_COUNTED, receive_counted, process, resizes, send_port)          \
	SAMPLED_LOOPS(name##_ring, SOURCE_RING, receive_ring, process, resizes, send_port)                   \
	static const loop_table name = {                                                                     \
		ALL_OF(name##_alone, SOURCE_RX_QUEUES), SAMPLED_OF(name##_locked, SOURCE_LOCKED),            \
		SAMPLED_OF(name##_trylock, SOURCE_TRYLOCK), SAMPLED_OF(name##_corec, SOURCE_COREC),          \
		SAMPLED_OF(name##_notified, SOURCE_NOTIFIED), SAMPLED_OF(name##_waiting, SOURCE_WAITING),    \
		SAMPLED_OF(name##_counted, SOURCE_COUNTED), SAMPLED_OF(name##_ring, SOURCE_RING)}
/* clang-format on */

#endif
