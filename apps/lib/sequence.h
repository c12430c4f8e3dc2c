/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss, duplication and reordering of numbered packets, counted as they arrive.
 *
 * Numbers of one trial start at 0 and leave no holes on the sending side. A number that arrived before is a
 * duplicate and nothing else: only first copies are looked at further (RFC 4737 section 3). A packet is
 * reordered when its number is lower than one that arrived before it, seen over all packets and
 * within its own flow. Of a packet reordered within its flow, arrival number i of that flow, also:
 *
 *   extent    i - j, where j is the earliest arrival of the flow with a higher number (section 4.2)
 *   distance  how many packets of the flow with a higher number arrived before it: it is late by so many positions
 *   degree    the largest n for which it is n-reordered: so many arrivals of the flow directly before it all have
 *             higher numbers (section 5); TCP takes a packet for lost from n = 3 on
 *
 * Of every packet the displacement (RFC 5236 section 4) is its place among the arrivals of its flow less its place in the order of
 * sending: late ones have positive displacements, those they were overtaken by negative ones. Numbers that never arrived are in neither
 * order; the RFC skips them in one, and so gives a packet that comes late behind a lost one another displacement.
 *
 * Memory is bounded. Duplicates are told apart by a bitmap of the latest SEQUENCE_WINDOW numbers; what arrives
 * later than that counts as reordered and in `too_old`. Extent, distance and degree look at the latest `window`
 * arrivals of the flow: an extent up to `window` is exact, and so is the distance then; beyond, the packet counts in
 * `refused` of both histograms. A degree below `window` is exact, whatever the extent. A packet in order costs the same whatever the window; a
 * reordered one a binary search and a walk over as many arrivals as its extent.
 */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include <stdint.h>

#include "histogram.h"

#define SEQUENCE_WINDOW                                                                                      \
	(1u << 20) /* 128 KiB of bitmap, of which only the part about the newest number is hot */

/* The rings of all flows together have about so many entries of 8 bytes: few flows get long ones, and many stay in L2. */
#define SEQUENCE_ARRIVALS_LOG2 16
#define SEQUENCE_ARRIVALS_MIN  16
#define SEQUENCE_ARRIVALS_MAX  4096
#define SEQUENCE_NUMBER_BITS   40 /* those of the stamp in packets.h */
#define SEQUENCE_LAG_BITS      (64 - SEQUENCE_NUMBER_BITS)

/* Displacements that are counted one by one; those beyond count at the ends. */
#define SEQUENCE_DISPLACEMENT_MAX 256

/* Of an arrival whose displacement is not 0, or was not. */
struct sequence_displaced {
	uint64_t arrival; /* its number in the flow, plus 1: what is there of an older one does not count */
	int64_t by;
};

/* What every packet of a flow changes; small, because it is read for each packet. */
struct sequence_flow {
	uint64_t next;     /* highest number seen, plus 1 (NextExp of RFC 4737) */
	uint64_t arrivals; /* first copies */
};

/* What only late and doubled packets of a flow change. */
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
	        *displacements; /* beside the arrivals; written for reordered packets alone */
	uint64_t seen[SEQUENCE_WINDOW / 64];
};

/* Make a tracker for flows 0..flows-1 (flows >= 1). Returns NULL when out of memory. */
struct sequence *sequence_new(uint32_t flows);

/* Forget all packets. */
void sequence_reset(struct sequence *s);

/*
 * Add the counts of packets that another tracker saw of the same numbers and flows. Each flow arrives at one of them, so what is
 * counted within flows is exact. The sum is for reading: nothing is recorded in it any more.
 */
void sequence_add(struct sequence *s, const struct sequence *more);

void sequence_free(struct sequence *s);

/* The arrivals of a flow that are looked back at: extents below it are exact. */
static inline uint32_t sequence_window(const struct sequence *s)
{
	return 1u << s->window_log2;
}

/* Forget the numbers that the window moves over: from s->next up to and without `next`. */
void sequence_clear_ahead(struct sequence *s, uint64_t next);

/* Count a packet whose number is below the highest of its flow; before it is noted in the flow's ring. */
void sequence_record_reordered(struct sequence *s, uint64_t number, uint32_t flow);

/*
 * Entry of a flow's ring: an arrival's number, and by how much the highest number of the flow was above it
 * then (0: it was the highest). Number and lag are thus the running maximum, in which the earliest arrival
 * with a higher number is found by bisection. A lag that does not fit is cut, which makes the number too high:
 * no packet is compared with it that is not itself too late for its extent to be known.
 */
static inline uint64_t sequence_arrival(uint64_t number, uint64_t highest)
{
	const uint64_t lag_max = (1ull << SEQUENCE_LAG_BITS) - 1;
	const uint64_t lag = highest - number < lag_max ? highest - number : lag_max;

	return (highest - lag) << SEQUENCE_LAG_BITS | lag;
}

/*
 * Where arrival number `arrival` of a flow is noted. Each flow begins at another cache line of its ring: all
 * at the same place, a power of two apart, would fall into the same few sets of the caches.
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
		bit = 0; /* its place in the bitmap belongs to a newer number by now */
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
