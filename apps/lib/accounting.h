/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Record in the loop where the cycles of a polling lcore go. docs/validity.md defines the classes and their estimate, which
 * pollscope/metrics/accounting.py makes from the report.
 *
 * A poll is one call for packets. A busy poll returned packets, a lost poll returned none because another lcore was there,
 * every other poll is empty. A sweep (iteration) is one pass over all queues of the lcore. An empty-to-busy transition is a
 * busy poll right after an empty one.
 *
 *   counted   sweeps, and busy polls by burst size n. Empty polls are the difference: an empty poll counts nothing.
 *   timed intervals
 *             at random moments a run of polls is timed from outside: a stamp, 1, 2, 4 ... polls as they come, a stamp. There
 *             is no stamp inside, so polls overlap as they do in the loop. The empty polls, transitions, busy polls and packets
 *             of the interval are known. A regression needs only the sums of products of these with the cycles, in blocks of
 *             time, for its result and its interval.
 *   timed     from time to time one busy poll is timed alone, with its parts. This is a latency: neighbouring polls overlap, so
 *             latencies do not add up to the time of the loop. It is the first busy poll after a random poll, which favours
 *             those after many empty polls; each is weighted with the inverse of its probability.
 *   full      (mode) stamps around every poll and every part of a busy poll: latencies of all of them, in a loop that is several
 *             times slower. No classes.
 *
 * Time that a loop knows to be waiting is measured completely, not sampled: waits added to packets on purpose (waited_cycles)
 * and waits for a lock (lock_cycles). The clock of timed intervals stands still meanwhile.
 *
 *   notified loops (notification qwait)
 *             make no sweeps. Their polls are counted one by one, the time with nothing to do is measured completely
 *             (idle_cycles), and the cost of notification is timed in random iterations (notices[]), as a latency.
 *   loops that wait when nothing comes (loop/quiet.h)
 *             measure their waits completely (idle_cycles); all else is as in other loops. Arming and looking once more before
 *             a wait are event_cycles.
 *
 * An interruption is an interval between two reads of the TSC that exceeds the mean cost of its polls and packets by
 * ACCOUNT_INTERRUPTION_NS and one part in ACCOUNT_INTERRUPTION_PART: the host or another thread had the CPU. This is one rule
 * for every mode and load. An interrupted timed interval or busy poll is left out and counted.
 *
 * One lcore writes; others may read counters while it runs and see each counter whole.
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

#define ACCOUNT_BURST_MAX            512
#define ACCOUNT_TIMED_INTERVAL_POLLS 512 /* polls of the longest timed interval */
#define ACCOUNT_BLOCKS                                                                                       \
	16 /* parts of the window with separate sums, because neighbouring timed intervals are not independent */
#define ACCOUNT_VARIABLES                                                                                    \
	7 /* of a timed interval: 1, empty polls, transitions, busy polls, packets, cycles, lost polls */
#define ACCOUNT_PRODUCTS          (ACCOUNT_VARIABLES * (ACCOUNT_VARIABLES + 1) / 2)
#define ACCOUNT_QUIET_PRODUCTS    6
#define ACCOUNT_TIMED_POLLS       16 /* polls within which a busy poll must come to be timed */
#define ACCOUNT_INTERRUPTION_NS   10000
#define ACCOUNT_INTERRUPTION_PART 8
#define ACCOUNT_COUNTERS          7 /* hardware counters of timed busy polls, see pmu.h */

enum accounting {
	ACCOUNTING_NONE, /* traffic counters only */
	ACCOUNTING_COUNT,
	ACCOUNTING_SAMPLED,
	ACCOUNTING_FULL,
	ACCOUNTING_MODES
};

extern const char *const accounting_names[ACCOUNTING_MODES + 1]; /* NULL-terminated */

/* A run of polls, timed from outside. */
struct account_timed_interval {
	uint32_t polls;
	uint32_t busy_polls;
	uint32_t transitions;
	uint32_t packets;
	uint32_t lost;   /* polls */
	uint64_t cycles; /* includes one stamp, and excludes what overlaps with polls before and after */
};

/*
 * Sums over the timed intervals of a block. products[] is the upper triangle of the outer product of the variables, weighted
 * with account_timed_interval_weight(). quiet[] is the same for intervals without busy and lost polls, of 1, polls and cycles:
 * it gives the cost of an empty poll among empty polls.
 */
struct account_block {
	uint64_t timed_intervals;
	double products[ACCOUNT_PRODUCTS];
	uint64_t quiet_timed_intervals;
	double quiet[ACCOUNT_QUIET_PRODUCTS];
};

/* Timed busy polls of one burst size; sums weighted with the inverse of the probability to be timed. */
struct account_stratum {
	uint64_t samples;
	double weight;
	double receive_cycles; /* includes one stamp per sample, like the two below */
	double process_cycles;
	double transmit_cycles;
	uint64_t counter_samples;
	uint64_t counters[ACCOUNT_COUNTERS]; /* without the cost of reading the counters */
};

/* Timed iterations of a notified loop: being notified, and arming again. */
struct account_notice {
	uint64_t samples;
	double cycles;         /* sum, without stamps */
	double squared_cycles; /* sum of squares */
};

/* Records of one lcore in one stage of a trial (warm-up, window, drain). */
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
	uint64_t no_mbuf;          /* polls without a free buffer */
	struct delay_counts delays;
	uint64_t waited_cycles; /* waits for delays */
	uint64_t lock_waits;    /* locks that another lcore held */
	uint64_t lock_cycles;
	uint64_t sweeps;
	uint64_t busy_sweeps; /* sweeps with at least one packet; counted in all modes except none */
	uint64_t transitions; /* mode sampled */
	uint64_t stamps;
	uint64_t interruptions;
	uint64_t interrupted_cycles;
	uint64_t event_cycles;    /* of events: reads of the TSC, and the decisions made there */
	uint64_t sampling_cycles; /* of booking samples; the stamps are extra */
	uint64_t sampled_sweeps;
	uint64_t sampled_cycles; /* of the timed intervals and timed busy polls that were kept */
	uint64_t left_out;       /* timed intervals and timed busy polls with an interruption */
	uint64_t left_out_cycles;
	struct account_block blocks[ACCOUNT_BLOCKS];
	struct account_timed_interval
	        *timed_intervals; /* the first timed_intervals_max of them; NULL: only sums are kept */
	uint32_t timed_intervals_count;
	uint32_t timed_intervals_max;
	/* mode full: sums, with one stamp per interval */
	uint64_t receive_cycles, receive_intervals;
	uint64_t process_cycles, process_intervals;
	uint64_t transmit_cycles, transmit_intervals;
	uint64_t empty_cycles, empty_intervals;
	uint64_t busy_polls[ACCOUNT_BURST_MAX + 1]; /* by burst size; [0] is not counted */
	struct account_stratum strata[ACCOUNT_BURST_MAX + 1];
	struct longest longest;
	struct histogram iteration_cycles;
	struct histogram poll_gap_cycles;
	/* of notified loops; 0 in sweeping ones */
	uint64_t polls;
	uint64_t idle_waits; /* with nothing to do */
	uint64_t idle_cycles;
	struct account_notice
	        notices[2]; /* [0]: of empty polls, including the poll; [1]: of busy polls, without it */
};

/* Allocate the histograms of `a` (zeroed before). Returns 0 or -ENOMEM. */
int account_init(struct account *a);
void account_free(struct account *a);

/* Clear everything; histograms stay allocated. */
void account_reset(struct account *a, uint32_t longest);

/* Return the weight of a timed interval in the sums, about the inverse of its variance (stamps, polls, busy polls). */
static inline double account_timed_interval_weight(const struct account_timed_interval *s)
{
	return 1 / (1 + (double)s->polls / 256 + 8 * (double)s->busy_polls);
}

/* Book a timed interval in block `block` of the window. */
void account_add_timed_interval(struct account *a, unsigned int block,
                                const struct account_timed_interval *timed_interval);

/*
 * Book a timed busy poll with n packets, stamped before and after receiving, after processing and after sending. Of the busy
 * polls after `gap` empty polls, a random poll meets one in `ACCOUNT_TIMED_POLLS / min(gap + 1, ACCOUNT_TIMED_POLLS)`.
 */
void account_add_busy_poll(struct account *a, uint16_t n, uint32_t gap, const uint64_t stamp[4]);

/*
 * Return the polls of the stage that returned nothing, empty and lost ones. `queues`: of a sweep; 0 if polls are counted one by
 * one.
 */
uint64_t account_empty_polls(const struct account *a, uint32_t queues);

/* Book a timed iteration of a notified loop. */
void account_add_notice(struct account *a, bool busy_poll, double cycles);

uint64_t account_busy_busy_polls(const struct account *a);

/* Return the busy polls if no burst is larger than `burst`. */
static inline uint64_t account_busy_polls_up_to(const struct account *a, uint16_t burst)
{
	uint64_t busy_polls = 0;

	for (uint16_t n = 1; n <= burst; n++)
		busy_polls += a->busy_polls[n];
	return busy_polls;
}

/*
 * Return the sum over burst sizes of busy_polls[n] x mean[n], where mean[n] comes from a sample of weight[n] > 0. Sizes without
 * a sample are interpolated linearly; beyond the sampled range the mean is in proportion to n. Without any sample: 0.
 */
double account_scale_up(const uint64_t busy_polls[], const double weight[], const double mean[]);

#endif
