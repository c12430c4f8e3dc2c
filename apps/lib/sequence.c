/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

#define LAG_MAX ((1ull << SEQUENCE_LAG_BITS) - 1)

static unsigned int window_log2_for(uint32_t flows)
{
	uint64_t window = SEQUENCE_ARRIVALS_MAX;

	while (window > SEQUENCE_ARRIVALS_MIN && window * flows > 1ull << SEQUENCE_ARRIVALS_LOG2)
		window /= 2;
	return (unsigned int)__builtin_ctzll(window);
}

/* Three digits distinguish values up to 2048 one by one. */
static int make_histograms(struct sequence *s)
{
	return histogram_init(&s->extent, 1, SEQUENCE_ARRIVALS_MAX, 3) |
	       histogram_init(&s->distance, 1, SEQUENCE_ARRIVALS_MAX, 3) |
	       histogram_init(&s->degree, 1, SEQUENCE_ARRIVALS_MAX, 3);
}

struct sequence *sequence_new(uint32_t flows)
{
	struct sequence *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->flows = flows;
	s->window_log2 = window_log2_for(flows);
	s->flow = calloc(flows, sizeof(*s->flow));
	s->faults = calloc(flows, sizeof(*s->faults));
	s->arrivals = malloc(((size_t)flows << s->window_log2) * sizeof(*s->arrivals));
	s->displacements = calloc((size_t)flows << s->window_log2, sizeof(*s->displacements));
	if (make_histograms(s) != 0 || s->flow == NULL || s->faults == NULL || s->arrivals == NULL ||
	    s->displacements == NULL) {
		sequence_free(s);
		return NULL;
	}
	/* Touched here, so that the first arrivals of a trial cause no page fault. */
	memset(s->arrivals, 0xff, ((size_t)flows << s->window_log2) * sizeof(*s->arrivals));
	return s;
}

/* The rings stay unchanged: no entry is read that was not written since. */
void sequence_reset(struct sequence *s)
{
	const size_t words =
	        s->next / 64 + 1 < SEQUENCE_WINDOW / 64 ? s->next / 64 + 1 : SEQUENCE_WINDOW / 64;

	memset(s->seen, 0, words * sizeof(s->seen[0]));
	if (s->reordered_in_flow > 0)
		memset(s->displacements, 0, ((size_t)s->flows << s->window_log2) * sizeof(*s->displacements));
	memset(s->displaced, 0, sizeof(s->displaced));
	memset(s->flow, 0, s->flows * sizeof(*s->flow));
	memset(s->faults, 0, s->flows * sizeof(*s->faults));
	s->next = s->unique = s->duplicated = s->reordered = s->reordered_in_flow = s->too_old = 0;
	histogram_reset(&s->extent);
	histogram_reset(&s->distance);
	histogram_reset(&s->degree);
}

/* Both were made with the same parameters. */
static void add_histogram(struct histogram *h, const struct histogram *more)
{
	for (uint32_t i = 0; more->total > 0 && i < more->counts_len; i++)
		h->counts[i] += more->counts[i];
	h->total += more->total;
	h->refused += more->refused;
	h->sum += more->sum;
	h->min = more->min < h->min ? more->min : h->min;
	h->max = more->max > h->max ? more->max : h->max;
}

void sequence_add(struct sequence *s, const struct sequence *more)
{
	s->unique += more->unique;
	s->duplicated += more->duplicated;
	s->reordered += more->reordered;
	s->reordered_in_flow += more->reordered_in_flow;
	s->too_old += more->too_old;
	add_histogram(&s->extent, &more->extent);
	add_histogram(&s->distance, &more->distance);
	add_histogram(&s->degree, &more->degree);
	for (int i = 0; i <= 2 * SEQUENCE_DISPLACEMENT_MAX; i++)
		s->displaced[i] += more->displaced[i];
	for (uint32_t i = 0; i < s->flows; i++) {
		s->flow[i].arrivals += more->flow[i].arrivals;
		s->faults[i].duplicated += more->faults[i].duplicated;
		s->faults[i].reordered += more->faults[i].reordered;
	}
}

void sequence_free(struct sequence *s)
{
	if (s == NULL)
		return;
	histogram_free(&s->extent);
	histogram_free(&s->distance);
	histogram_free(&s->degree);
	free(s->flow);
	free(s->faults);
	free(s->arrivals);
	free(s->displacements);
	free(s);
}

void sequence_clear_ahead(struct sequence *s, uint64_t next)
{
	/* A word is cleared when the window enters it; the word with s->next - 1 is in use already. */
	uint64_t first = (s->next + 63) / 64;
	const uint64_t last = (next - 1) / 64;

	if (last - first >= SEQUENCE_WINDOW / 64 && last >= first)
		first = last - SEQUENCE_WINDOW / 64 + 1;
	for (uint64_t word = first; word <= last; word++)
		s->seen[word % (SEQUENCE_WINDOW / 64)] = 0;
}

static uint64_t number_of(uint64_t arrival)
{
	return arrival >> SEQUENCE_LAG_BITS;
}

static uint64_t highest_at(uint64_t arrival)
{
	return number_of(arrival) + (arrival & LAG_MAX);
}

/* Return the earliest of a flow's arrivals oldest..end-1 by which a number above `number` had arrived; there is one. */
static uint64_t first_higher(const struct sequence *s, uint32_t flow, uint64_t oldest, uint64_t number)
{
	uint64_t end = s->flow[flow].arrivals;

	while (oldest + 1 < end) {
		const uint64_t middle = oldest + (end - oldest - 1) / 2;

		if (highest_at(*sequence_slot(s, flow, middle)) > number)
			end = middle + 1;
		else
			oldest = middle + 1;
	}
	return oldest;
}

static uint64_t *displaced_by(struct sequence *s, int64_t by)
{
	const int64_t most = SEQUENCE_DISPLACEMENT_MAX;

	return &s->displaced[most + (by < -most ? -most : by > most ? most : by)];
}

/* Add `change` to the displacement of a flow's arrival. */
static void displace(struct sequence *s, uint32_t flow, uint64_t arrival, int64_t change)
{
	struct sequence_displaced *d = &s->displacements[sequence_slot(s, flow, arrival) - s->arrivals];

	if (d->arrival != arrival + 1)
		*d = (struct sequence_displaced){.arrival = arrival + 1};
	if (d->by != 0)
		--*displaced_by(s, d->by);
	d->by += change;
	if (d->by != 0)
		++*displaced_by(s, d->by);
}

/* Return how many of a flow's arrivals from `first` on, directly before the present one, are above `number`. */
static uint64_t degree_of(const struct sequence *s, uint32_t flow, uint64_t first, uint64_t number)
{
	const uint64_t end = s->flow[flow].arrivals;
	uint64_t i = end;

	while (i > first && number_of(*sequence_slot(s, flow, i - 1)) > number)
		i--;
	return end - i;
}

/* Record how many of a flow's arrivals from `first` on are above `number`. */
static void record_overtakers(struct sequence *s, uint32_t flow, uint64_t first, uint64_t number)
{
	const uint64_t end = s->flow[flow].arrivals;
	uint64_t above = 0;

	for (uint64_t i = end; i > first; i--) {
		if (number_of(*sequence_slot(s, flow, i - 1)) <= number)
			continue;
		above++;
		displace(s, flow, i - 1, -1);
	}
	displace(s, flow, end, (int64_t)above);
	histogram_record(&s->extent, end - first);
	histogram_record(&s->distance, above);
}

void sequence_record_reordered(struct sequence *s, uint64_t number, uint32_t flow)
{
	const struct sequence_flow *f = &s->flow[flow];
	const uint64_t window = sequence_window(s);
	const uint64_t oldest = f->arrivals > window ? f->arrivals - window : 0;
	const bool fits = f->next - 1 - number <= LAG_MAX;
	/* If a higher number had arrived before the ring begins, the earliest one is unknown. */
	const bool is_known = fits && (oldest == 0 || highest_at(*sequence_slot(s, flow, oldest)) <= number);
	const uint64_t degree = fits ? degree_of(s, flow, oldest, number) : window;

	s->reordered_in_flow++;
	s->faults[flow].reordered++;
	if (is_known || degree < window)
		histogram_record(&s->degree, degree);
	else
		s->degree.refused++;
	if (is_known) {
		record_overtakers(s, flow, first_higher(s, flow, oldest, number), number);
		return;
	}
	s->extent.refused++;
	s->distance.refused++;
}
