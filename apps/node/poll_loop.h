/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The poll loop, written once and specialised at compile time: every function here is inlined with a constant
 * struct loop_kind, so that a loop holds no branch on its accounting mode and no indirect call but the driver's, and loops
 * without delays have no trace of them. WORKLOAD_LOOPS() makes the loops of a workload, one for each source of packets,
 * with delays and without, and accounting mode.
 *
 * A new way to receive (an organisation) is a receive function, a new workload a process function, a new way to wait for
 * packets (a notification) is called where a sweep ends.
 */
#ifndef POLL_LOOP_H
#define POLL_LOOP_H

#include <rte_branch_prediction.h>
#include <rte_ethdev.h>

#include "poll_ends.h"
#include "poll_event.h"
#include "poll_wait.h"

/* Fill up to p->burst packets from `queue`. */
typedef uint16_t (*receive_fn)(struct poller *p, enum accounting accounting, uint16_t queue,
                               struct rte_mbuf **packets);

/* Work on n packets; those to be sent are moved to the front and counted in the return value, the rest are freed. */
typedef uint16_t (*process_fn)(struct poller *p, struct rte_mbuf **packets, uint16_t n);

/* Pass n packets of `bytes` in all on, or free them. */
typedef void (*send_fn)(struct poller *p, struct rte_mbuf **packets, uint16_t n, uint64_t bytes);

/* Visit the queues [from, to) without stamps. */
typedef void (*visits_fn)(struct poller *p, struct rte_mbuf **packets, uint32_t from, uint32_t to,
                          uint32_t sweep);

struct loop_kind {
	enum accounting accounting;
	enum poller_source source;
	bool delays;
	receive_fn receive;
	process_fn process;
	bool resizes; /* process changes the size of packets */
	send_fn send;
	visits_fn visits; /* not inlined: the dozen places that sample would each have the workload in them */
};

/* The clock of intervals: it stands still while this lcore waits. */
static __rte_always_inline uint64_t own_stamp(const struct poller *p, const struct loop_kind kind)
{
	const bool waits = kind.delays || kind.source == SOURCE_LOCKED;

	return cycles_stamp() - (waits ? p->aside_cycles : 0);
}

static __rte_always_inline uint16_t poll_receive(struct poller *p, const struct loop_kind kind,
                                                 uint32_t queue, struct rte_mbuf **packets)
{
	return kind.receive(p, kind.accounting, (uint16_t)queue, packets);
}

/* Returns how many of the n packets are to be sent; *bytes becomes their bytes. */
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
	if (kind.resizes || unlikely(kept != n))
		*bytes = packets_bytes(packets, kept);
	a->workload_dropped += n - kept;
	return kept;
}

static __rte_always_inline void poll_count(struct poller *p, const struct loop_kind kind, uint16_t n,
                                           uint32_t sweep)
{
	if (kind.accounting == ACCOUNTING_NONE)
		return;
	p->account->visits[n]++;
	p->account->busy_sweeps += p->busy_sweep != sweep;
	p->busy_sweep = sweep;
}

/* After packets_per_event packets the event comes at the end of this sweep. */
static __rte_always_inline void poll_hasten(struct poller *p, uint16_t n, uint32_t *sweeps_left)
{
	p->packets_left -= n;
	if (unlikely(p->packets_left <= 0)) {
		p->planned_sweeps -= *sweeps_left - 1;
		*sweeps_left = 1;
		p->packets_left = INT32_MAX;
		p->busy_sweep = 1;
	}
}

static __rte_always_inline void poll_forward(struct poller *p, const struct loop_kind kind,
                                             struct rte_mbuf **packets, uint16_t n)
{
	uint64_t bytes;
	const uint16_t kept = poll_process(p, kind, packets, n, &bytes);

	kind.send(p, packets, kept, bytes);
}

/* Mode transition: a stamp when polls turn from empty to non-empty or back. */
static __rte_always_inline void poll_transition(struct poller *p, const struct loop_kind kind, bool busy)
{
	if (kind.accounting == ACCOUNTING_TRANSITION && unlikely(p->open.busy != busy))
		account_transition(p->account, &p->open, busy, own_stamp(p, kind));
}

/* Modes none, count, sampled, transition. */
static __rte_always_inline void plain_sweep(struct poller *p, const struct loop_kind kind,
                                            struct rte_mbuf **packets, uint32_t *sweeps_left)
{
	for (uint32_t q = p->first_queue; q < p->end_queue; q += p->queue_step) {
		const uint16_t n = poll_receive(p, kind, q, packets);

		poll_transition(p, kind, n != 0);
		if (n == 0)
			continue;
		poll_forward(p, kind, packets, n);
		poll_count(p, kind, n, *sweeps_left);
		poll_hasten(p, n, sweeps_left);
	}
}

/* Mode full: book an interval that holds one stamp, unless the host interrupted it. */
static __rte_always_inline void full_interval(struct poller *p, uint16_t n, uint64_t cycles, uint64_t *sum,
                                              uint64_t *intervals)
{
	if (account_is_gap(p->account, cycles, n, 1))
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

/* Returns the number of packets met. Bookkeeping lies outside the intervals: it is loop overhead of this mode. */
static __rte_always_inline uint16_t full_visit(struct poller *p, const struct loop_kind kind,
                                               struct rte_mbuf **packets, uint16_t queue, uint16_t index)
{
	struct account *a = p->account;
	const uint64_t begin = own_stamp(p, kind);
	const uint16_t n = poll_receive(p, kind, queue, packets);
	const uint64_t end = own_stamp(p, kind);

	a->stamps += 2;
	full_interval(p, n, end - begin, n ? &a->receive_cycles : &a->empty_cycles,
	              n ? &a->receive_intervals : &a->empty_intervals);
	if (p->visit_stamps[index])
		histogram_record(&a->visit_gap_cycles, begin - p->visit_stamps[index]);
	p->visit_stamps[index] = begin;
	if (n)
		full_forward(p, kind, packets, n);
	return n;
}

static __rte_always_inline void full_sweep(struct poller *p, const struct loop_kind kind,
                                           struct rte_mbuf **packets, uint32_t *sweeps_left)
{
	const uint64_t now = cycles_stamp();
	uint16_t index = 0;

	histogram_record(&p->account->iteration_cycles, now - p->last_stamp);
	p->account->stamps++;
	p->last_stamp = now;
	for (uint32_t q = p->first_queue; q < p->end_queue; q += p->queue_step, index++) {
		const uint16_t n = full_visit(p, kind, packets, (uint16_t)q, index);

		if (n == 0)
			continue;
		poll_count(p, kind, n, *sweeps_left);
		poll_hasten(p, n, sweeps_left);
	}
}

/* Unstamped visits of the queues [from, to) inside a sampled sweep. */
static __rte_always_inline void plain_visits(struct poller *p, const struct loop_kind kind,
                                             struct rte_mbuf **packets, uint32_t from, uint32_t to,
                                             uint32_t sweep)
{
	for (uint32_t q = from; q < to; q += p->queue_step) {
		const uint16_t n = poll_receive(p, kind, q, packets);

		if (n == 0)
			continue;
		poll_forward(p, kind, packets, n);
		poll_count(p, kind, n, sweep);
	}
}

/* A stamped visit whose packets are already received. */
static __rte_always_inline void sampled_visit(struct poller *p, const struct loop_kind kind,
                                              struct rte_mbuf **packets, uint16_t n, uint32_t empty_before,
                                              uint64_t start, uint32_t sweep)
{
	uint64_t stamp[4] = {start, own_stamp(p, kind)}, bytes;
	const uint16_t kept = poll_process(p, kind, packets, n, &bytes);

	stamp[2] = own_stamp(p, kind);
	kind.send(p, packets, kept, bytes);
	stamp[3] = own_stamp(p, kind);
	account_visit(p->account, n, empty_before, stamp);
	poll_count(p, kind, n, sweep);
}

/* First queue of a random run of `polls` polls that fits into a sweep. */
static inline uint32_t random_queue(struct poller *p, uint32_t polls)
{
	return p->first_queue + (uint32_t)rng_below(&p->rng, p->queues - polls + 1u) * p->queue_step;
}

/*
 * Time a run of 2^run_log2 polls: inside one sweep, or over whole sweeps when the lcore has fewer queues. The timed loop
 * is as lean as plain_sweep(): what it adds would be multiplied.
 */
static __rte_always_inline uint32_t sample_run(struct poller *p, const struct loop_kind kind,
                                               struct rte_mbuf **packets, unsigned int run_log2)
{
	const uint32_t polls = 1u << run_log2;
	const bool inside = polls <= p->queues;
	const uint32_t from = inside ? random_queue(p, polls) : p->first_queue;
	const uint32_t to = inside ? from + polls * p->queue_step : p->end_queue;
	const uint32_t sweeps = inside ? 1 : polls / p->queues;
	uint32_t sweep = 0, q;
	uint16_t n = 0;

	kind.visits(p, packets, p->first_queue, from, UINT32_MAX - 1);
	const uint64_t start = own_stamp(p, kind);

	for (;;) {
		for (q = from; q < to; q += p->queue_step) {
			n = poll_receive(p, kind, q, packets);
			if (n)
				goto met_packets;
		}
		if (++sweep == sweeps)
			break;
	}
	account_empty_run(p->account, run_log2, inside ? polls : sweeps * p->queues,
	                  own_stamp(p, kind) - start);
	if (inside)
		kind.visits(p, packets, to, p->end_queue, UINT32_MAX - 1);
	return sweeps;

met_packets:
	sampled_visit(p, kind, packets, n, sweep * p->queues + (q - from) / p->queue_step, start,
	              UINT32_MAX - 1);
	kind.visits(p, packets, q + p->queue_step, p->end_queue, UINT32_MAX - 1);
	return sweep + 1;
}

/* One sweep from begin to end. */
static __rte_always_inline uint32_t sample_iteration(struct poller *p, const struct loop_kind kind,
                                                     struct rte_mbuf **packets)
{
	const uint64_t start = cycles_stamp();

	kind.visits(p, packets, p->first_queue, p->end_queue, UINT32_MAX - 1);
	histogram_record(&p->account->iteration_cycles, cycles_stamp() - start);
	p->account->stamps += 2;
	return 1;
}

/* From one visit of a random queue to the next. */
static __rte_always_inline uint32_t sample_visit_gap(struct poller *p, const struct loop_kind kind,
                                                     struct rte_mbuf **packets)
{
	const uint32_t queue = random_queue(p, 1);

	kind.visits(p, packets, p->first_queue, queue, UINT32_MAX - 1);
	const uint64_t start = cycles_stamp();

	kind.visits(p, packets, queue, p->end_queue, UINT32_MAX - 1);
	kind.visits(p, packets, p->first_queue, queue, UINT32_MAX - 2);
	histogram_record(&p->account->visit_gap_cycles, cycles_stamp() - start);
	p->account->stamps += 2;
	kind.visits(p, packets, queue, p->end_queue, UINT32_MAX - 2);
	return 2;
}

/* Hardware counters of one visit of a random queue; kept when the visit met packets. */
static __rte_always_inline uint32_t sample_counters(struct poller *p, const struct loop_kind kind,
                                                    struct rte_mbuf **packets)
{
	const uint32_t queue = random_queue(p, 1);
	uint64_t before[PMU_COUNTERS] = {0}, after[PMU_COUNTERS] = {0};
	struct account *a = p->account;

	kind.visits(p, packets, p->first_queue, queue, UINT32_MAX - 1);
	const bool begun = pmu_read_all_user(&p->pmu, before);
	const uint16_t n = poll_receive(p, kind, queue, packets);

	if (n) {
		poll_forward(p, kind, packets, n);
		if (pmu_read_all_user(&p->pmu, after) && begun) {
			a->strata[n].counter_samples++;
			for (int i = 0; i < PMU_COUNTERS; i++)
				a->strata[n].counters[i] += after[i] - before[i];
		}
		poll_count(p, kind, n, UINT32_MAX - 1);
	}
	kind.visits(p, packets, queue + p->queue_step, p->end_queue, UINT32_MAX - 1);
	return 1;
}

/* Of 8 sampled sweeps one gives an iteration, one a visit gap, two (where counters can be read) hardware counters; the rest runs. */
static __rte_always_inline void sampled_sweep(struct poller *p, const struct loop_kind kind,
                                              struct rte_mbuf **packets)
{
	const uint64_t draw = rng_next(&p->rng);
	const unsigned int what = draw & 7;
	uint32_t sweeps;

	if (what == 0)
		sweeps = sample_iteration(p, kind, packets);
	else if (what == 1)
		sweeps = sample_visit_gap(p, kind, packets);
	else if (what <= 3 && p->pmu.user_readable)
		sweeps = sample_counters(p, kind, packets);
	else
		sweeps = sample_run(p, kind, packets, (unsigned int)((draw >> 32) % ACCOUNT_RUNS));
	poll_sampled(p, sweeps, cycles_stamp());
}

static __rte_always_inline void poll_loop(struct poller *p, const struct loop_kind kind)
{
	struct rte_mbuf *packets[ACCOUNT_BURST_MAX];
	uint32_t sweeps_left = poll_begin(p);

	for (;;) {
		if (kind.accounting == ACCOUNTING_FULL)
			full_sweep(p, kind, packets, &sweeps_left);
		else
			plain_sweep(p, kind, packets, &sweeps_left);
		if (likely(--sweeps_left != 0))
			continue;
		sweeps_left = poll_event(p);
		if (unlikely(sweeps_left == 0))
			return;
		if (kind.accounting == ACCOUNTING_SAMPLED && p->sample_due)
			sampled_sweep(p, kind, packets);
	}
}

#define POLL_LOOP(name, ...)                                                                                 \
	static __rte_noinline void name##_visits(struct poller *p, struct rte_mbuf **packets, uint32_t from, \
	                                         uint32_t to, uint32_t sweep)                                \
	{                                                                                                    \
		const struct loop_kind kind = {__VA_ARGS__, NULL};                                           \
                                                                                                             \
		plain_visits(p, kind, packets, from, to, sweep);                                             \
	}                                                                                                    \
                                                                                                             \
	static __rte_noinline void name(struct poller *p)                                                    \
	{                                                                                                    \
		const struct loop_kind kind = {__VA_ARGS__, name##_visits};                                  \
                                                                                                             \
		poll_loop(p, kind);                                                                          \
	}

/* Defines the loops and the table `name`, indexed by enum accounting. Arguments: struct loop_kind from `source` on. */
#define POLL_LOOPS(name, ...)                                                                                \
	POLL_LOOP(name##_none, ACCOUNTING_NONE, __VA_ARGS__)                                                 \
	POLL_LOOP(name##_count, ACCOUNTING_COUNT, __VA_ARGS__)                                               \
	POLL_LOOP(name##_sampled, ACCOUNTING_SAMPLED, __VA_ARGS__)                                           \
	POLL_LOOP(name##_transition, ACCOUNTING_TRANSITION, __VA_ARGS__)                                     \
	POLL_LOOP(name##_full, ACCOUNTING_FULL, __VA_ARGS__)                                                 \
	static const poll_loop_fn name[ACCOUNTING_MODES] = {                                                 \
	        [ACCOUNTING_NONE] = name##_none,       [ACCOUNTING_COUNT] = name##_count,                    \
	        [ACCOUNTING_SAMPLED] = name##_sampled, [ACCOUNTING_TRANSITION] = name##_transition,          \
	        [ACCOUNTING_FULL] = name##_full,                                                             \
	}

/* A workload's loops for one source: plain and with delays. Further arguments: struct loop_kind from `receive` on. */
#define SOURCE_LOOPS(name, source, ...)                                                                      \
	POLL_LOOPS(name##_plain, source, false, __VA_ARGS__);                                                \
	POLL_LOOPS(name##_delays, source, true, __VA_ARGS__)

#define SOURCE_TABLE(name) {name##_plain, name##_delays}

/* Defines the loops of a workload that receives, and the table `name` of them. */
#define WORKLOAD_LOOPS(name, process, resizes)                                                               \
	SOURCE_LOOPS(name##_alone, SOURCE_RX_QUEUES, receive_alone, process, resizes, send_port);            \
	SOURCE_LOOPS(name##_locked, SOURCE_LOCKED, receive_locked, process, resizes, send_port);             \
	SOURCE_LOOPS(name##_ring, SOURCE_RING, receive_ring, process, resizes, send_port);                   \
	static const poll_loop_fn *const name[POLLER_SOURCES][2] = {                                         \
	        [SOURCE_RX_QUEUES] = SOURCE_TABLE(name##_alone),                                             \
	        [SOURCE_LOCKED] = SOURCE_TABLE(name##_locked),                                               \
	        [SOURCE_RING] = SOURCE_TABLE(name##_ring),                                                   \
	}

#endif
