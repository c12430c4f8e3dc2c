/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far a worker was, and when: a mark about every millisecond, so that any window can be cut out afterwards. Counts at
 * a border are interpolated between the two marks around it, hence right to about (rate x distance of marks).
 * Written by one thread; read after it has ended.
 */
#ifndef MARKS_H
#define MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mark_count {
	MARK_DONE,         /* what steps have counted */
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
	        longest_cycles; /* longest step since the mark before: far above the usual when the CPU was away */
};

#define MARKS_MOST 65536

struct marks {
	struct mark *mark; /* [0, n), ascending */
	size_t n;
	uint64_t every_cycles; /* doubles each time that the list is full */
};

/* Returns 0 or -ENOMEM. */
int marks_open(struct marks *marks, uint64_t every_cycles);
void marks_close(struct marks *marks);
void marks_clear(struct marks *marks, uint64_t every_cycles);

/* Add a mark; when the list is full every second one is dropped first. */
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

/* Cut out [start, end). Returns false when the marks do not reach over all of it. */
bool marks_cut(const struct marks *marks, uint64_t start, uint64_t end, struct marks_window *window);

#endif
