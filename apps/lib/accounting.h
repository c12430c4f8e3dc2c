/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the cycles of a polling lcore go: what is recorded in the loop. What the classes are and how they are estimated
 * from these records stands in docs/validity.md; the estimate itself is made from the report, in pollscope/metrics/accounting.py.
 *
 * A poll is one call for packets; one that returned packets is a visit, one that another lcore kept from it is lost, any other is
 * an empty poll. A sweep (iteration) is one
 * pass over all queues of the lcore. A switch is a visit whose poll came right behind an empty one.
 *
 *   counted   sweeps, and visits by burst size n. Empty polls are the difference: nothing is counted on an empty poll.
 *   slices    at random moments a run of polls is timed from outside: a stamp, 1, 2, 4 ... polls as they come, a stamp.
 *             Inside nothing is stamped, so that what overlaps in the loop overlaps in the slice. Of each slice its empty
 *             polls, switches, visits and packets are known. Sums of products of these with the slice's cycles, in blocks
 *             of time, are what a regression needs, and its interval.
 *   timed     now and then one visit is timed by itself, between stamps, its parts too. That is its latency: neighbours
 *             overlap, so latencies do not add up to the time of the loop. The visit is the first one after a random
 *             poll, which favours visits after long runs of empty polls; each is weighted with the inverse of its chance.
 *   full      (mode) stamps round every poll and every part of a visit: latencies of all of them, and where time went in
 *             a loop that is several times slower. No classes.
 *
 * Time that a loop knows to be waiting is measured whole wherever it occurs, not sampled: waits that are added to packets on
 * purpose (waited_cycles) and waits for a lock (lock_cycles). The stamps of slices come from a clock that stands still
 * meanwhile.
 *
 *   counted, told  a loop that is told which queue is next (notification qwait) makes no sweeps. Its polls are counted one by one, its
 *             time with nothing to do is measured whole (idle_cycles), and of random turns it is timed what being told costs
 *             (notices[]), as a latency.
 *   counted, waits  a loop that polls all queues and waits when nothing comes (loop/quiet.h): its waits are measured whole (idle_cycles), all
 *             else is as in any other loop. Arming and looking once more before a wait are event_cycles.
 *
 * An interruption is an interval between two looks at the TSC that lasted ACCOUNT_INTERRUPTION_NS and one part in
 * ACCOUNT_INTERRUPTION_PART longer than its polls and packets explain, by their mean cost so far: the host or another thread
 * had the CPU. One rule in every mode and at every load. An interrupted slice or visit is left out and counted.
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

#define ACCOUNT_BURST_MAX            512
#define ACCOUNT_TIMED_INTERVAL_POLLS 512 /* polls of the longest slice */
#define ACCOUNT_BLOCKS                                                                                       \
	16 /* parts of the window with sums of their own: neighbouring slices are not independent */
#define ACCOUNT_VARIABLES         7 /* of a slice: 1, empty polls, switches, visits, packets, cycles, lost polls */
#define ACCOUNT_PRODUCTS          (ACCOUNT_VARIABLES * (ACCOUNT_VARIABLES + 1) / 2)
#define ACCOUNT_QUIET_PRODUCTS    6
#define ACCOUNT_TIMED_POLLS       16 /* polls that a visit to be timed is waited for */
#define ACCOUNT_INTERRUPTION_NS   10000
#define ACCOUNT_INTERRUPTION_PART 8
#define ACCOUNT_COUNTERS          7 /* hardware counters kept of timed visits, see pmu.h */

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
	uint64_t cycles; /* with one stamp, and less of what overlaps with what came before and after */
};

/*
 * Sums over the slices of a block. products[] is the upper triangle of the outer product of the variables, weighted with
 * account_timed_interval_weight(). quiet[]: the same of those without a visit and without a lost poll, of 1, polls and cycles: they give the cost of an empty
 * poll among empty polls.
 */
struct account_block {
	uint64_t timed_intervals;
	double products[ACCOUNT_PRODUCTS];
	uint64_t quiet_timed_intervals;
	double quiet[ACCOUNT_QUIET_PRODUCTS];
};

/* Timed visits with one burst size; sums weighted with the inverse of the chance of a visit to be timed. */
struct account_stratum {
	uint64_t samples;
	double weight;
	double receive_cycles; /* with one stamp per sample, as the two below */
	double process_cycles;
	double transmit_cycles;
	uint64_t counter_samples;
	uint64_t counters
	        [ACCOUNT_COUNTERS]; /* less the counters' own reading; ACCOUNT_COUNTERS of the same visits */
};

/* Timed turns of a loop that is told which queue is next: being told, and asking to be told again. */
struct account_notice {
	uint64_t samples;
	double cycles;         /* sum, with stamps taken off */
	double squared_cycles; /* sum of squares */
};

/* What one lcore records in one stage of a trial (warm-up, window, drain). */
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
	uint64_t waited_cycles; /* waits that the delays made */
	uint64_t lock_waits;    /* locks that another lcore held */
	uint64_t lock_cycles;
	uint64_t sweeps;
	uint64_t busy_sweeps; /* with at least one packet; counted in all modes but none */
	uint64_t transitions; /* mode sampled */
	uint64_t stamps;
	uint64_t interruptions;
	uint64_t interrupted_cycles;
	uint64_t event_cycles;    /* of events: looks at the TSC, and what the loop decides there */
	uint64_t sampling_cycles; /* of booking what was sampled; the stamps come on top */
	uint64_t sampled_sweeps;
	uint64_t sampled_cycles; /* of the slices and timed visits that were kept */
	uint64_t left_out;       /* slices and timed visits with an interruption */
	uint64_t left_out_cycles;
	struct account_block blocks[ACCOUNT_BLOCKS];
	struct account_timed_interval
	        *timed_intervals; /* the first timed_intervals_max of them; NULL: not kept one by one */
	uint32_t timed_intervals_count;
	uint32_t timed_intervals_max;
	/* mode full: sums with one stamp per interval */
	uint64_t receive_cycles, receive_intervals;
	uint64_t process_cycles, process_intervals;
	uint64_t transmit_cycles, transmit_intervals;
	uint64_t empty_cycles, empty_intervals;
	uint64_t busy_polls[ACCOUNT_BURST_MAX + 1]; /* by burst size; [0] is not counted */
	struct account_stratum strata[ACCOUNT_BURST_MAX + 1];
	struct longest longest;
	struct histogram iteration_cycles;
	struct histogram poll_gap_cycles;
	/* of loops that are told which queue is next; 0 in those that sweep */
	uint64_t polls;
	uint64_t idle_waits; /* with nothing to do */
	uint64_t idle_cycles;
	struct account_notice
	        notices[2]; /* [0]: of polls that found nothing, with that poll; [1]: of visits, without it */
};

/* Allocate the histograms of `a` (zeroed before). Returns 0 or -ENOMEM. */
int account_init(struct account *a);
void account_free(struct account *a);

/* Clear everything; histograms stay allocated. */
void account_reset(struct account *a, uint32_t longest);

/* Weight of a slice in the sums, about the inverse of its variance: the stamps', that of polls, that of visits. */
static inline double account_timed_interval_weight(const struct account_timed_interval *s)
{
	return 1 / (1 + (double)s->polls / 256 + 8 * (double)s->busy_polls);
}

/* Book a slice in block `block` of the window. */
void account_add_timed_interval(struct account *a, unsigned int block,
                                const struct account_timed_interval *timed_interval);

/*
 * A timed visit with n packets, stamped before and after receiving, after processing and after sending. Of the visits that
 * follow `gap` empty polls one in `ACCOUNT_TIMED_POLLS / min(gap + 1, ACCOUNT_TIMED_POLLS)` is met by a random poll.
 */
void account_add_busy_poll(struct account *a, uint16_t n, uint32_t gap, const uint64_t stamp[4]);

/* Polls of the stage that returned nothing: empty and lost ones. `queues`: of a sweep; 0 where polls are counted one by one. */
uint64_t account_empty_polls(const struct account *a, uint32_t queues);

/* A timed turn. */
void account_add_notice(struct account *a, bool busy_poll, double cycles);

uint64_t account_busy_busy_polls(const struct account *a);

/* The same where no burst is larger than `burst`. */
static inline uint64_t account_busy_polls_up_to(const struct account *a, uint16_t burst)
{
	uint64_t busy_polls = 0;

	for (uint16_t n = 1; n <= burst; n++)
		busy_polls += a->busy_polls[n];
	return busy_polls;
}

/*
 * sum over burst sizes of visits(n) x mean[n], where mean[n] comes from a sample of weight[n] > 0. Sizes without a sample:
 * linear between neighbours; beyond the sampled range in proportion to n. No sample at all: 0.
 */
double account_scale_up(const uint64_t busy_polls[], const double weight[], const double mean[]);

#endif
