/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress of a worker: one mark about every millisecond, so that any window can be cut out afterwards. Counts at a border are
 * interpolated between the two marks around it, so their error is about (rate x distance of marks). One thread writes; read
 * after it has ended.
 */
#ifndef MARKS_H
#define MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mark_count {
	MARK_DONE,         /* what steps count */
	MARK_CORE,         /* APERF, or its stand-in */
	MARK_BASE,         /* MPERF, or its stand-in */
	MARK_INSTRUCTIONS, /* user mode */
	MARK_CYCLES,       /* core cycles, user mode */
	MARK_WAITED,       /* ns in a run queue while another thread had the CPU */
	MARK_COUNTS
};

struct mark {
	uint64_t tsc;
	uint64_t count[MARK_COUNTS];
	uint64_t
	        longest_cycles; /* longest step since the mark before; far above the usual if the CPU was taken away */
};

#define MARKS_MOST 65536

struct marks {
	struct mark *mark; /* [0, n), ascending */
	size_t n;
	uint64_t every_cycles; /* doubles each time the list is full */
};

/* Returns 0 or -ENOMEM. */
int marks_open(struct marks *marks, uint64_t every_cycles);
void marks_close(struct marks *marks);
void marks_clear(struct marks *marks, uint64_t every_cycles);

/* Add a mark; a full list first drops every second one. */
void marks_add(struct marks *marks, const struct mark *mark);

static inline bool marks_due(const struct marks *marks, uint64_t tsc)
{
	return marks->n == 0 || tsc - marks->mark[marks->n - 1].tsc >= marks->every_cycles;
}

struct marks_window {
	double count[MARK_COUNTS];
	uint64_t longest_cycles; /* of the steps between the marks around the window */
	size_t marks;            /* inside the window */
};

/* Cut out [start, end). Returns false if the marks do not cover all of it. */
bool marks_cut(const struct marks *marks, uint64_t start, uint64_t end, struct marks_window *window);

#endif
