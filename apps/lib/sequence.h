/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss, duplication and reordering of numbered packets, counted as they arrive.
 *
 * Numbers of one trial start at 0 and leave no holes on the sending side. A packet is reordered when its
 * number is lower than one that arrived before it (RFC 4737 section 3), seen over all packets and within its
 * own flow. A number that arrived before is a duplicate and nothing else. Duplicates are told apart by a
 * bitmap of the latest SEQUENCE_WINDOW numbers; what arrives later than that counts as reordered and in
 * `too_old`.
 */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include <stdint.h>

#define SEQUENCE_WINDOW                                                                                      \
	(1u << 20) /* 128 KiB of bitmap, of which only the part about the newest number is hot */

struct sequence {
	uint64_t next; /* highest number seen, plus 1 */
	uint64_t unique;
	uint64_t duplicated;
	uint64_t reordered;         /* over all packets */
	uint64_t reordered_in_flow; /* within a flow */
	uint64_t too_old;
	uint32_t flows;
	uint64_t *flow_next; /* highest number of each flow, plus 1 */
	uint64_t seen[SEQUENCE_WINDOW / 64];
};

/* Make a tracker for flows 0..flows-1. Returns NULL when out of memory. */
struct sequence *sequence_new(uint32_t flows);

/* Forget all packets. */
void sequence_reset(struct sequence *s);

void sequence_free(struct sequence *s);

/* Forget the numbers that the window moves over: from s->next up to and without `next`. */
void sequence_clear_ahead(struct sequence *s, uint64_t next);

/* Count the arrival of packet `number` of flow `flow` (< flows). */
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
		return;
	} else {
		s->reordered++;
	}
	*word |= bit;
	s->unique++;
	if (number < s->flow_next[flow])
		s->reordered_in_flow++;
	else
		s->flow_next[flow] = number + 1;
}

#endif
