/* SPDX-License-Identifier: BSD-3-Clause */
#include "marks.h"

#include <errno.h>
#include <stdlib.h>

int marks_open(struct marks *marks, uint64_t every_cycles)
{
	marks->mark = calloc(MARKS_MOST, sizeof(*marks->mark));
	marks_clear(marks, every_cycles);
	return marks->mark ? 0 : -ENOMEM;
}

void marks_close(struct marks *marks)
{
	free(marks->mark);
	marks->mark = NULL;
}

void marks_clear(struct marks *marks, uint64_t every_cycles)
{
	marks->n = 0;
	marks->every_cycles = every_cycles;
}

/* Keep the marks with even numbers; the longest step of a dropped mark moves to the next. */
static void thin_out(struct marks *marks)
{
	size_t kept = 1;

	for (size_t i = 2; i < marks->n; i += 2) {
		const uint64_t dropped = marks->mark[i - 1].longest_cycles;

		marks->mark[kept] = marks->mark[i];
		if (dropped > marks->mark[kept].longest_cycles)
			marks->mark[kept].longest_cycles = dropped;
		kept++;
	}
	marks->n = kept;
	marks->every_cycles *= 2;
}

void marks_add(struct marks *marks, const struct mark *mark)
{
	struct mark new = *mark;

	if (marks->n == MARKS_MOST) {
		/* the last mark has an odd number and is dropped as well */
		const uint64_t last = marks->mark[MARKS_MOST - 1].longest_cycles;

		thin_out(marks);
		if (last > new.longest_cycles)
			new.longest_cycles = last;
	}
	marks->mark[marks->n++] = new;
}

/* Return the last mark at or before tsc; there is one. */
static size_t mark_before(const struct marks *marks, uint64_t tsc)
{
	size_t low = 0, high = marks->n;

	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;

		if (marks->mark[middle].tsc <= tsc)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Return how far a count moved between mark i and tsc. */
static double moved_since(const struct marks *marks, size_t i, uint64_t tsc, unsigned int count)
{
	const struct mark *from = &marks->mark[i], *to = from + 1;

	if (i + 1 == marks->n)
		return 0;
	const double share = (double)(tsc - from->tsc) / (double)(to->tsc - from->tsc);

	return share * (double)(to->count[count] - from->count[count]);
}

bool marks_cut(const struct marks *marks, uint64_t start, uint64_t end, struct marks_window *window)
{
	if (marks->n < 2 || start >= end || start < marks->mark[0].tsc || end > marks->mark[marks->n - 1].tsc)
		return false;
	const size_t first = mark_before(marks, start), last = mark_before(marks, end);

	for (unsigned int i = 0; i < MARK_COUNTS; i++)
		window->count[i] = (double)(marks->mark[last].count[i] - marks->mark[first].count[i]) +
		                   moved_since(marks, last, end, i) - moved_since(marks, first, start, i);
	window->marks = last - first;
	window->longest_cycles = 0;
	for (size_t i = first + 1; i < marks->n && i <= last + 1; i++)
		if (marks->mark[i].longest_cycles > window->longest_cycles)
			window->longest_cycles = marks->mark[i].longest_cycles;
	return true;
}
