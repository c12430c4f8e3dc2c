/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a worker does: a kind of work, its memory, and a step that is repeated for ever. A step takes about 10 us, up to
 * some ms with large matrices.
 */
#ifndef WORK_H
#define WORK_H

#include <stddef.h>
#include <stdint.h>

#include "node_error.h"

enum work_kind {
	WORK_MATMUL,
	WORK_POINTER_CHASE,
	WORK_MEMORY_STREAM,
	WORK_SPIN,
	WORK_STRESS_NG, /* a program of its own, see stress_ng.h: has no memory and no step here */
	WORK_KINDS
};

enum stream_operation { STREAM_READ, STREAM_WRITE, STREAM_COPY, STREAM_OPERATIONS };

extern const char *const work_names[WORK_KINDS + 1];               /* ends with NULL */
extern const char *const stream_operations[STREAM_OPERATIONS + 1]; /* ends with NULL */

/* Footprint 0: the default of the kind. */
struct work_request {
	enum work_kind kind;
	size_t footprint_bytes;
	uint64_t seed;
	enum stream_operation operation;
};

struct work {
	enum work_kind kind;
	void *memory;
	size_t footprint_bytes; /* really used: rounded down to what the kind can use */
	size_t huge_bytes;      /* of them in transparent huge pages when the memory was made */
	uint64_t size;          /* matmul: rows of a matrix; pointer-chase: elements; else 0 */
	uint64_t
	        per_unit; /* so many of what a step counts are one unit (matmul: rows of one multiplication) */
	const char *unit;
	/* Do a step. Returns how much it did. */
	uint64_t (*step)(struct work *work);
	/* Private to the kinds. */
	enum stream_operation operation;
	uint64_t position;
	const void *at;
	uint64_t sum; /* keeps what was read from being left out */
};

/*
 * Make the memory and fill it, on the CPU of the caller. Returns 0, or -1 with err (`at`: JSON path of the request).
 */
int work_open(struct work *work, const struct work_request *request, const char *at, struct node_error *err);
void work_close(struct work *work);

/* The kinds: what they need of their footprint, and their first state once the memory is there. */
void matmul_prepare(struct work *work);
void chase_prepare(struct work *work, uint64_t seed);
void stream_prepare(struct work *work, enum stream_operation operation);
void spin_prepare(struct work *work);

/* One element a cache line, so that each hop is a load of its own line. */
#define CHASE_ELEMENT_BYTES 64
struct chase_element {
	struct chase_element *next;
	char rest[CHASE_ELEMENT_BYTES - sizeof(struct chase_element *)];
};

/* Link n elements into one random cycle: n hops visit each of them once. */
void chase_link(struct chase_element *elements, size_t n, uint64_t seed);

#endif
