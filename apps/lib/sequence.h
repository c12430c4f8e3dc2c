/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss, duplication and reordering of numbered packets, counted as they arrive.
 *
 * Numbers of one trial start at 0, without gaps on the sending side. A number that arrived before is a duplicate and nothing
 * else: only first copies are examined further (RFC 4737 section 3). A packet is reordered if its number is lower than one that
 * arrived before it, over all packets and within its own flow. For a packet reordered within its flow, arrival number i of that
 * flow, also:
 *
 *   extent    i - j, where j is the earliest arrival of the flow with a higher number (section 4.2)
 *   distance  how many packets of the flow with a higher number arrived before it: it is late by so many positions
 *   degree    the largest n for which it is n-reordered: so many arrivals of the flow directly before it all have
 *             higher numbers (section 5); TCP takes a packet for lost from n = 3 on
 *
 * The displacement of every packet (RFC 5236 section 4) is its place among the arrivals of its flow less its place in sending
 * order: late packets have positive displacements, overtaken ones negative. Numbers that never arrived are in neither order.
 * The RFC skips them in one order, and so gives another displacement to a packet that comes late behind a lost one.
 *
 * Memory is bounded. A bitmap of the latest SEQUENCE_WINDOW numbers finds duplicates; what arrives later than that counts as
 * reordered and in `too_old`. Extent, distance and degree look at the latest `window` arrivals of the flow: extent and distance
 * are exact up to `window`; beyond, the packet counts in `refused` of both histograms. A degree below `window` is exact,
 * whatever the extent. A packet in order costs the same whatever the window; a reordered one costs a binary search and a walk
 * over as many arrivals as its extent.
 */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include <stdint.h>

#include "histogram.h"

#define SEQUENCE_WINDOW                                                                                      \
	(1u << 20) /* 128 KiB of bitmap, of which only the part near the newest number is hot */

/* The rings of all flows together have about this many entries of 8 bytes: few flows get long rings, and many stay in L2. */
#define SEQUENCE_ARRIVALS_LOG2 16
#define SEQUENCE_ARRIVALS_MIN  16
#define SEQUENCE_ARRIVALS_MAX  4096
#define SEQUENCE_NUMBER_BITS   40 /* those of the stamp in packets.h */
#define SEQUENCE_LAG_BITS      (64 - SEQUENCE_NUMBER_BITS)

/* Displacements counted one by one; those beyond count at the ends. */
#define SEQUENCE_DISPLACEMENT_MAX 256

/* An arrival whose displacement is, or was, not 0. */
struct sequence_displaced {
	uint64_t arrival; /* its number in the flow, plus 1; an older entry at this place does not count */
	int64_t by;
};

/* The state that every packet of a flow changes; small, because it is read for each packet. */
struct sequence_flow {
	uint64_t next;     /* highest number seen, plus 1 (NextExp of RFC 4737) */
	uint64_t arrivals; /* first copies */
};

/* The state that only late and duplicate packets of a flow change. */
struct sequence_faults {
	uint64_t duplicated;
	uint64_t reordered;
};

struct sequence {
	uint64_t next; /* highest number seen, plus 1 */
	uint64_t unique;
	uint64_t duplicated;
	uint64_t reordered;         /* over all packets */
	uint64_t reordered_in_flow; /* within a flow */
	uint64_t too_old;
	struct histogram extent; /* of packets reordered within their flow */
	struct histogram distance;
	struct histogram degree;
	uint64_t displaced[2 * SEQUENCE_DISPLACEMENT_MAX + 1]; /* packets by displacement, 0 left out */
	uint32_t flows;
	unsigned int window_log2;
	struct sequence_flow *flow;
	struct sequence_faults *faults; /* of each flow */
	uint64_t *arrivals;             /* a ring of 2^window_log2 per flow, see sequence_arrival() */
	struct sequence_displaced
	        *displacements; /* parallel to the arrivals; written only for reordered packets */
	uint64_t seen[SEQUENCE_WINDOW / 64];
};

/* Make a tracker for flows 0..flows-1 (flows >= 1). Returns NULL when out of memory. */
struct sequence *sequence_new(uint32_t flows);

/* Forget all packets. */
void sequence_reset(struct sequence *s);

/*
 * Add the counts of packets that another tracker saw, of the same numbers and flows. Each flow arrives at one of them, so
 * counts within flows are exact. The sum is for reading: nothing is recorded in it any more.
 */
void sequence_add(struct sequence *s, const struct sequence *more);

void sequence_free(struct sequence *s);

/* Return how many arrivals of a flow are looked back at: smaller extents are exact. */
static inline uint32_t sequence_window(const struct sequence *s)
{
	return 1u << s->window_log2;
}

/* Forget the numbers that the window moves over: from s->next up to, but not including, `next`. */
void sequence_clear_ahead(struct sequence *s, uint64_t next);

/* Count a packet whose number is below the highest of its flow, before it is noted in the flow's ring. */
void sequence_record_reordered(struct sequence *s, uint64_t number, uint32_t flow);

/*
 * Return an entry of a flow's ring: an arrival's number, and by how much the highest number of the flow exceeded it then (0: it
 * was the highest). Number plus lag is the running maximum, in which bisection finds the earliest arrival with a higher number.
 * A lag that does not fit is cut, which makes the stored number too high; no packet is compared with it that is not itself too late for
 * its extent to be known.
 */
static inline uint64_t sequence_arrival(uint64_t number, uint64_t highest)
{
	const uint64_t lag_max = (1ull << SEQUENCE_LAG_BITS) - 1;
	const uint64_t lag = highest - number < lag_max ? highest - number : lag_max;

	return (highest - lag) << SEQUENCE_LAG_BITS | lag;
}

/*
 * Return the place of arrival number `arrival` of a flow. Each flow begins at another cache line of its ring: if all began at
 * the same place, a power of two apart, they would fall into the same few sets of the caches.
 */
static inline uint64_t *sequence_slot(const struct sequence *s, uint32_t flow, uint64_t arrival)
{
	const uint64_t line = 64 / sizeof(*s->arrivals);
	const uint64_t place = (arrival + flow * line) & (sequence_window(s) - 1);

	return &s->arrivals[((uint64_t)flow << s->window_log2) + place];
}

/* Note the first copy of packet `number`, in order or not, in its flow. */
static inline void sequence_note(struct sequence *s, uint64_t number, uint32_t flow)
{
	struct sequence_flow *f = &s->flow[flow];

	if (__builtin_expect(number < f->next, 0))
		sequence_record_reordered(s, number, flow);
	else
		f->next = number + 1;
	*sequence_slot(s, flow, f->arrivals++) = sequence_arrival(number, f->next - 1);
}

/* Count the arrival of packet `number` (below 2^40) of flow `flow` (< flows). */
static inline void sequence_record(struct sequence *s, uint64_t number, uint32_t flow)
{
	uint64_t *word = &s->seen[number / 64 % (SEQUENCE_WINDOW / 64)];
	uint64_t bit = 1ull << (number % 64);

	if (number >= s->next) {
		if (number > s->next || number % 64 == 0)
			sequence_clear_ahead(s, number + 1);
		s->next = number + 1;
	} else if (s->next - number > SEQUENCE_WINDOW - 64) {
		s->too_old++;
		s->reordered++;
		bit = 0; /* its place in the bitmap now belongs to a newer number */
	} else if (*word & bit) {
		s->duplicated++;
		s->faults[flow].duplicated++;
		return;
	} else {
		s->reordered++;
	}
	*word |= bit;
	s->unique++;
	sequence_note(s, number, flow);
}

#endif
