/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "sequence.h"

#include <string.h>

static void holes_are_no_duplicates(void)
{
	struct sequence *s = sequence_new(1);

	/* Steps over words, and over the whole window, must leave no stale bits. */
	for (uint64_t i = 0, number = 0; i < 100000; i++, number += 1 + i % 200)
		sequence_record(s, number, 0);
	sequence_record(s, s->next + 5 * SEQUENCE_WINDOW, 0);
	for (uint64_t i = 1; i < 1000; i++)
		sequence_record(s, s->next - 1 - 2 * i, 0); /* late, first arrivals */
	UNIT_EQUAL(s->duplicated, 0);
	UNIT_EQUAL(s->unique, 100000 + 1 + 999);
	UNIT_EQUAL(s->reordered, 999);
	sequence_free(s);
}

static void very_late_arrivals_are_told(void)
{
	struct sequence *s = sequence_new(1);

	sequence_record(s, 2 * SEQUENCE_WINDOW, 0);
	sequence_record(s, 1, 0);
	sequence_record(s, SEQUENCE_WINDOW + 1, 0); /* its bit would be that of packet 1 */
	UNIT_EQUAL(s->too_old, 2);
	UNIT_EQUAL(s->reordered, 2);
	UNIT_EQUAL(s->unique, 3);
	UNIT_EQUAL(s->duplicated, 0);
	sequence_free(s);
}

static void extents_beyond_the_window_are_refused(void)
{
	struct sequence *s = sequence_new(1 << 16);
	const uint64_t window = sequence_window(s);

	UNIT_EQUAL(window, SEQUENCE_ARRIVALS_MIN);
	for (uint64_t number = 2; number < 2 + window; number++)
		sequence_record(s, number, 9);
	sequence_record(s, 1, 9); /* exactly the ring's length behind */
	sequence_record(s, 0, 9);
	UNIT_EQUAL(s->extent.total, 1);
	UNIT_EQUAL(s->extent.max, window);
	UNIT_EQUAL(s->extent.refused, 1);
	UNIT_EQUAL(s->distance.refused, 1);
	UNIT_EQUAL(s->degree.refused, 1);
	UNIT_EQUAL(s->degree.max, window);
	UNIT_EQUAL(s->reordered_in_flow, 2);
	sequence_free(s);
}

/* A number far below the highest fits no entry of the ring, and does not disturb later ones. */
static void lags_beyond_an_entry_are_refused(void)
{
	struct sequence *s = sequence_new(1);
	const uint64_t far = (1ull << SEQUENCE_NUMBER_BITS) - 2;

	sequence_record(s, far, 0);
	sequence_record(s, 3, 0);
	sequence_record(s, far + 1, 0);
	sequence_record(s, far - 1, 0);
	UNIT_EQUAL(s->extent.refused, 1);
	UNIT_EQUAL(s->extent.total, 1);
	UNIT_EQUAL(s->extent.max, 3);
	UNIT_EQUAL(s->distance.max, 2);
	UNIT_EQUAL(s->degree.max, 1);
	sequence_free(s);
}

static void faults_are_kept_by_flow(void)
{
	struct sequence *s = sequence_new(3);

	for (uint64_t number = 3; number < 30; number++)
		sequence_record(s, number, (uint32_t)(number % 3));
	sequence_record(s, 4, 1);
	sequence_record(s, 2, 2);
	UNIT_EQUAL(s->faults[1].duplicated, 1);
	UNIT_EQUAL(s->faults[2].reordered, 1);
	UNIT_EQUAL(s->faults[0].duplicated + s->faults[0].reordered, 0);
	UNIT_EQUAL(s->flow[0].arrivals, 9);
	UNIT_EQUAL(s->flow[2].arrivals, 10);
	sequence_free(s);
}

/* Two flows that arrive at two trackers count as if one had seen both, except for the order between them. */
static void sums_are_what_one_would_have_seen(void)
{
	static const uint64_t numbers[] = {0, 2, 4, 4, 1, 3, 9, 7};
	struct sequence *one = sequence_new(2), *first = sequence_new(2), *second = sequence_new(2);

	for (unsigned int i = 0; i < 8; i++) {
		const uint32_t flow = (uint32_t)(numbers[i] % 2);

		sequence_record(one, numbers[i], flow);
		sequence_record(flow == 0 ? first : second, numbers[i], flow);
	}
	sequence_add(first, second);
	UNIT_EQUAL(first->unique, one->unique);
	UNIT_EQUAL(first->duplicated, 1);
	UNIT_EQUAL(first->reordered_in_flow, 1);
	UNIT_EQUAL(first->extent.total, one->extent.total);
	UNIT_EQUAL(first->extent.max, one->extent.max);
	UNIT_EQUAL(first->faults[1].reordered, 1);
	UNIT_EQUAL(first->flow[0].arrivals, 3);
	UNIT_EQUAL(first->flow[1].arrivals, 4);
	UNIT_EQUAL(memcmp(first->displaced, one->displaced, sizeof(one->displaced)), 0);
	sequence_free(one);
	sequence_free(first);
	sequence_free(second);
}

static void reset_forgets(void)
{
	struct sequence *s = sequence_new(1);

	sequence_record(s, 5, 0);
	sequence_record(s, 1, 0);
	sequence_reset(s);
	UNIT_EQUAL(s->extent.total + s->reordered_in_flow + s->faults[0].reordered, 0);
	sequence_record(s, 5, 0);
	sequence_record(s, 0, 0);
	UNIT_EQUAL(s->duplicated, 0);
	UNIT_EQUAL(s->unique, 2);
	sequence_free(s);
}

static const struct unit_case cases[] = {
        {"holes are no duplicates", holes_are_no_duplicates},
        {"very late arrivals are counted", very_late_arrivals_are_told},
        {"extents beyond the window are refused", extents_beyond_the_window_are_refused},
        {"lags beyond an entry are refused", lags_beyond_an_entry_are_refused},
        {"faults are kept by flow", faults_are_kept_by_flow},
        {"sums are what one would have seen", sums_are_what_one_would_have_seen},
        {"reset forgets", reset_forgets},
        {NULL, NULL},
};

const struct unit_suite unit_sequence = {"sequence", cases};
