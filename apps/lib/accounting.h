/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the cycles of a polling lcore go: what is recorded in the loop, and how the classes are made from it.
 *
 * Classes (SoCC'19 section 4.1): cycles of reading packets from a non-empty RX queue (receive), of the workload (process) and
 * of sending (transmit) are useful. All other cycles are polling tax: polls of empty queues (empty_poll) and the loop's own
 * branches and bookkeeping (loop). What the measuring itself costs is shown apart (instrumentation); it belongs to the tax.
 * A sweep (iteration) is one turn over all queues of the lcore.
 *
 * Time that a loop knows to be waiting is measured whole wherever it occurs, not sampled: waits that are added to packets on
 * purpose (waited_cycles: process) and waits for a lock (lock_cycles: loop). The stamps that the estimators get come from a
 * clock that stands still meanwhile, so that neither a rare long wait nor a lock that is busy at the moment is multiplied.
 *
 * Two stamps round every poll cost several times the empty poll itself, and stamps at changes between empty and
 * non-empty polls distort the middle of the load range. So `sampled` counts always and stamps seldom:
 *
 *   counted   sweeps, and visits that returned packets by burst size n. Empty polls are the difference: nothing is counted
 *             on an empty poll.
 *   sampled   at random sweeps a run of polls is timed: stamp, poll until packets come or L polls were empty, stamp. L is
 *             drawn from 1, 2, 4 ... 512 ahead of the run. A run that stayed empty gives the cost of an empty poll; one that
 *             ended in a burst of n gives, less its empty polls, the cost of receiving n, and two more stamps give processing
 *             and sending.
 *   quiet     stretches between two looks at the TSC in which no packet came are whole sweeps of empty polls in the
 *             unsampled loop: the best measure of an empty poll, where there are any.
 *   estimate  receive, process, transmit = sum over n of visits(n) x mean cost of a visit with n packets (between
 *             neighbouring sizes where none was sampled); empty_poll = empty polls x cost of an empty poll with its share
 *             of the loop's control, the slope over the length of quiet stretches or (none: loaded) sampled runs, so that
 *             stamps and lost overlap fall out; instrumentation = stamps x cost of a stamp; loop = the rest of the window,
 *             which therefore also holds what hit the loop outside its polls: interrupts, host gaps. Should the estimates
 *             exceed the window, empty polls, the least certain of them, are cut first.
 *
 * A gap (the hypervisor took the CPU away) inside a timed run must not be multiplied by 64: a run longer than
 * gap_threshold() is booked once, unscaled, in host_gaps, and gives no cost. It stays in `loop`.
 *
 * `full` stamps before and after every poll, after processing and after sending. What lies between is bookkeeping and loop
 * control, not to be told apart: instrumentation. `loop` holds the host gaps.
 *
 * `transition` stamps every change between empty and non-empty polls. A poll's outcome is known only afterwards, so the
 * first receive after an empty stretch lies in that stretch and the first empty poll after a busy one in the busy one. Both are
 * put right with the cost of an empty poll: what empty stretches took beyond their empty polls was receiving. Useful cannot be
 * split.
 *
 * One lcore writes; others may read counters while it runs and see each whole.
 */
#ifndef ACCOUNTING_H
#define ACCOUNTING_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cycles.h"
#include "delays.h"
#include "histogram.h"
#include "longest.h"

#define ACCOUNT_BURST_MAX 512
#define ACCOUNT_RUNS      10 /* run lengths 1, 2, 4 ... 512 polls */
#define ACCOUNT_QUIET     28 /* quiet stretches by log2 of their polls: 2^16 sweeps of 1024 queues at most */
#define ACCOUNT_COUNTERS  7  /* hardware counters kept per class, see pmu.h */

enum accounting {
	ACCOUNTING_NONE, /* traffic counters only */
	ACCOUNTING_COUNT,
	ACCOUNTING_SAMPLED,
	ACCOUNTING_TRANSITION,
	ACCOUNTING_FULL,
	ACCOUNTING_MODES
};

extern const char *const accounting_names[ACCOUNTING_MODES + 1]; /* NULL-terminated */

/* Timed receives that had `empty_before` empty polls (all together) in front of them. */
struct account_receives {
	uint64_t samples;
	uint64_t empty_before;
	uint64_t cycles; /* with the empty polls, and one stamp per sample */
};

/*
 * Sampled visits with one burst size. Receives with few empty polls in front (at most ACCOUNT_NEAR) are kept apart: the
 * more empty polls have to be taken off, the worse the receive is known.
 */
#define ACCOUNT_NEAR 32
struct account_stratum {
	uint64_t samples;
	uint64_t process_cycles; /* with one stamp per sample */
	uint64_t transmit_cycles;
	struct account_receives near;
	struct account_receives far;
	uint64_t counter_samples;
	uint64_t counters[ACCOUNT_COUNTERS];
};

/* Mode transition: the interval that is open. */
struct account_interval {
	bool busy;
	uint64_t since;
	uint64_t packets; /* received before it */
};

/* Runs of empty polls of about the same length. */
struct account_runs {
	uint64_t runs;
	uint64_t polls;
	uint64_t cycles; /* with the same constant cost per run: a stamp, lost overlap */
};

/* What one lcore records in one stretch of a trial (warm-up, window, drain). */
struct account {
	uint64_t first_tsc;
	uint64_t last_tsc; /* 0 while it is being written */
	uint64_t rx_packets;
	uint64_t rx_bytes;
	uint64_t tx_packets;
	uint64_t tx_bytes;
	uint64_t tx_dropped;       /* not taken by the TX queue, freed */
	uint64_t workload_dropped; /* decided by the workload: no route, TTL, `drop` */
	uint64_t handed_packets;   /* put into a ring for another lcore */
	uint64_t ring_full;        /* not taken by the ring, freed */
	uint64_t no_mbuf;          /* turns without a free buffer */
	struct delay_counts delays;
	uint64_t waited_cycles; /* waits that the delays made */
	uint64_t lock_waits;    /* locks that another lcore held */
	uint64_t lock_cycles;
	uint64_t sweeps;
	uint64_t busy_sweeps; /* with at least one packet; counted in all modes but none */
	uint64_t stamps;
	uint64_t gap_base_cycles; /* see gap_threshold() */
	uint64_t gap_poll_cycles;
	uint64_t host_gaps;
	uint64_t host_gap_cycles;
	uint64_t interruptions; /* stretches far longer than their sweeps and packets explain */
	uint64_t interrupted_cycles;
	uint64_t sampled_sweeps;
	uint64_t sampled_cycles;
	/* modes full and transition: sums with one stamp per interval */
	uint64_t receive_cycles, receive_intervals;
	uint64_t process_cycles, process_intervals;
	uint64_t transmit_cycles, transmit_intervals;
	uint64_t empty_cycles, empty_intervals;
	uint64_t busy_cycles, busy_intervals; /* transition: stretches of non-empty polls */
	uint64_t transitions;                 /* from empty to non-empty */
	uint64_t returns;                     /* from non-empty to empty */
	struct account_runs runs[ACCOUNT_RUNS];
	struct account_runs quiet[ACCOUNT_QUIET];
	uint64_t visits[ACCOUNT_BURST_MAX + 1]; /* by burst size; [0] is not counted */
	struct account_stratum strata[ACCOUNT_BURST_MAX + 1];
	struct longest longest;
	struct histogram iteration_cycles;
	struct histogram visit_gap_cycles;
};

/* Allocate the histograms of `a` (zeroed before). Returns 0 or -ENOMEM. */
int account_init(struct account *a);
void account_free(struct account *a);

/* What is known before a stretch begins. */
struct account_known {
	uint64_t tsc_hz;
	double empty_poll_cycles; /* calibrated; 0: not */
	uint32_t longest;
};

/* Clear everything; histograms stay allocated. */
void account_reset(struct account *a, const struct account_known *known);

/*
 * A run of `polls` empty polls that met `packets` packets and lasted longer than this was interrupted by the host: 5 us (a
 * timer interrupt of a guest may stay below, and is part of the loop's life), for each packet 2000 cycles (no workload here
 * comes near; waits are not in it), for each poll four times its calibrated cost.
 */
#define GAP_CYCLES_PER_PACKET 2000
static inline uint64_t gap_threshold(const struct account *a, uint64_t packets, uint64_t polls)
{
	return a->gap_base_cycles + packets * GAP_CYCLES_PER_PACKET + polls * a->gap_poll_cycles;
}

/* True, and booked, when `cycles` are a host gap. */
static inline bool account_is_gap(struct account *a, uint64_t cycles, uint64_t packets, uint64_t polls)
{
	if (__builtin_expect(cycles <= gap_threshold(a, packets, polls), 1))
		return false;
	a->host_gaps++;
	a->host_gap_cycles += cycles;
	return true;
}

/* A run of 2^run_log2 polls stayed empty. */
static inline void account_empty_run(struct account *a, unsigned int run_log2, uint32_t polls,
                                     uint64_t cycles)
{
	struct account_runs *runs = &a->runs[run_log2];

	a->stamps += 2;
	if (account_is_gap(a, cycles, 0, polls))
		return;
	runs->runs++;
	runs->polls += polls;
	runs->cycles += cycles;
	a->sampled_cycles += cycles;
}

/* No packet came in a stretch of `polls` (>= 1) between two looks at the TSC. */
static inline void account_quiet(struct account *a, uint64_t polls, uint64_t cycles)
{
	const unsigned int log2 = 63 - (unsigned int)__builtin_clzll(polls);
	struct account_runs *quiet = &a->quiet[log2 < ACCOUNT_QUIET ? log2 : ACCOUNT_QUIET - 1];

	quiet->runs++;
	quiet->polls += polls;
	quiet->cycles += cycles;
}

/* A sampled visit with n packets: stamps before the run, after receiving, after processing, after sending. */
static inline void account_visit(struct account *a, uint16_t n, uint32_t empty_before,
                                 const uint64_t stamp[4])
{
	struct account_stratum *s = &a->strata[n];

	a->stamps += 4;
	if (account_is_gap(a, stamp[3] - stamp[0], n, empty_before))
		return;
	struct account_receives *receives = empty_before <= ACCOUNT_NEAR ? &s->near : &s->far;

	receives->samples++;
	receives->empty_before += empty_before;
	receives->cycles += stamp[1] - stamp[0];
	s->samples++;
	s->process_cycles += stamp[2] - stamp[1];
	s->transmit_cycles += stamp[3] - stamp[2];
	a->sampled_cycles += stamp[3] - stamp[0];
}

/*
 * Mode transition: the open interval ends at `now` and one that is `busy` or not begins. Loops cut long intervals at least
 * every IDLE_INTERVAL_CYCLES, so that an idle one that lasts much longer is a host gap.
 */
#define IDLE_INTERVAL_CYCLES 131072
static inline void account_transition(struct account *a, struct account_interval *open, bool busy,
                                      uint64_t now)
{
	const uint64_t cycles = now - open->since;

	a->stamps++;
	a->transitions += busy && !open->busy;
	a->returns += !busy && open->busy;
	if (!account_is_gap(a, cycles - (open->busy ? 0 : RTE_MIN(cycles, (uint64_t)IDLE_INTERVAL_CYCLES)),
	                    a->rx_packets - open->packets, 0)) {
		*(open->busy ? &a->busy_cycles : &a->empty_cycles) += cycles;
		*(open->busy ? &a->busy_intervals : &a->empty_intervals) += 1;
	}
	*open = (struct account_interval){busy, now, a->rx_packets};
}

/* The classes of one stretch. */
struct account_cycles {
	double total;
	double useful;
	double receive; /* these three only when `split` */
	double process;
	double transmit;
	double empty_poll;
	double loop;
	double instrumentation;
	double idle_iteration; /* cycles of sweeps without a packet (the definition of OVS pmd-perf-show) */
	double excess; /* by how much the estimates exceeded the total before they were scaled to fit; 0 as a rule */
	bool split;
};

/* Empty polls of the stretch: all polls less the visits that returned packets. */
uint64_t account_empty_polls(const struct account *a, uint32_t queues);

/* Visits that returned packets. */
uint64_t account_busy_visits(const struct account *a);

/*
 * Cycles of one empty poll in the sampled loop and (with its share of the loop's control) in the unsampled one: the
 * least-squares slope over lengths, or (only one length) the mean less a stamp. 0 when nothing stayed empty; the second
 * falls back on the first.
 */
double account_sampled_poll_cost(const struct account *a, double stamp_cycles);
double account_empty_poll_cost(const struct account *a, double stamp_cycles);

/*
 * Make the classes. stamp_cycles: measured cost of a stamp inside the loop. Parts are never negative and sum to total.
 * Returns NULL, or the reason why this stretch has no classes.
 */
const char *account_classify(const struct account *a, enum accounting mode, uint32_t queues,
                             double stamp_cycles, struct account_cycles *cycles);

/*
 * sum over burst sizes of visits(n) x per_visit(n), where per_visit(n) is a sampled mean: mean[n] with weight[n] samples.
 * Sizes without samples: linear between neighbours; beyond the sampled range in proportion to n. No sample at all: 0.
 */
double account_scale_up(const uint64_t visits[], const uint64_t weight[], const double mean[]);

#endif
