/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests-sequence: read sequences of arrivals from standard input and write the counts of struct sequence for each, for
 * comparison with other implementations. All numbers are little-endian.
 *
 * In, per sequence: uint32 packets, uint32 flows (the same in all), then per packet uint64 number | flow << 40.
 * Out, per sequence: uint64 first copies, duplicates, reordered in total, reordered within a flow, too old, and then
 * for extent, distance and degree: uint64 entries, and as many pairs (uint64 lowest value of the index, count); then
 * uint64 refused by extent, by degree; displacements: uint64 entries, and as many pairs (int64 displacement, uint64 count).
 */
#include <stdio.h>
#include <stdlib.h>

#include "sequence.h"

static void put(uint64_t value)
{
	fwrite(&value, sizeof(value), 1, stdout);
}

static void put_histogram(const struct histogram *h)
{
	const uint32_t end = h->total == 0 ? 0 : histogram_index(h, h->max) + 1;
	uint64_t entries = 0;

	for (uint32_t i = 0; i < end; i++)
		entries += h->counts[i] > 0;
	put(entries);
	for (uint32_t i = 0; i < end; i++) {
		if (h->counts[i] == 0)
			continue;
		put(histogram_lowest_at(h, i));
		put(h->counts[i]);
	}
}

static void put_displaced(const struct sequence *s)
{
	uint64_t entries = 0;

	for (int i = 0; i <= 2 * SEQUENCE_DISPLACEMENT_MAX; i++)
		entries += s->displaced[i] > 0;
	put(entries);
	for (int i = 0; i <= 2 * SEQUENCE_DISPLACEMENT_MAX; i++) {
		if (s->displaced[i] == 0)
			continue;
		put((uint64_t)(int64_t)(i - SEQUENCE_DISPLACEMENT_MAX));
		put(s->displaced[i]);
	}
}

static void put_sequence(const struct sequence *s)
{
	put(s->unique);
	put(s->duplicated);
	put(s->reordered);
	put(s->reordered_in_flow);
	put(s->too_old);
	put_histogram(&s->extent);
	put_histogram(&s->distance);
	put_histogram(&s->degree);
	put(s->extent.refused);
	put(s->degree.refused);
	put_displaced(s);
}

int main(void)
{
	const uint64_t number_mask = (1ull << SEQUENCE_NUMBER_BITS) - 1;
	struct sequence *s = NULL;
	uint32_t head[2];
	uint64_t packet;

	while (fread(head, sizeof(head), 1, stdin) == 1) {
		if (s == NULL)
			s = sequence_new(head[1]);
		if (s == NULL || s->flows != head[1]) {
			fputs("tests-sequence: no memory, or sequences of different numbers of flows\n",
			      stderr);
			return 1;
		}
		sequence_reset(s);
		for (uint32_t i = 0; i < head[0] && fread(&packet, sizeof(packet), 1, stdin) == 1; i++) {
			const uint32_t flow = (uint32_t)(packet >> SEQUENCE_NUMBER_BITS);

			if (flow >= s->flows) {
				fputs("tests-sequence: no such flow\n", stderr);
				return 1;
			}
			sequence_record(s, packet & number_mask, flow);
		}
		put_sequence(s);
	}
	sequence_free(s);
	return 0;
}
