/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work of a worker: a kind, its memory, and a step that is repeated forever. A step takes about 10 us, up to some ms with
 * large matrices.
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
	WORK_STRESS_NG, /* a separate program, see stress_ng.h: no memory and no step here */
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
	size_t footprint_bytes; /* in use: rounded down to what the kind can use */
	size_t huge_bytes;      /* part of it in transparent huge pages when the memory was made */
	uint64_t size;          /* matmul: rows of a matrix; pointer-chase: elements; else 0 */
	uint64_t per_unit;      /* count of one unit (matmul: rows of one multiplication) */
	const char *unit;
	/* Do a step. Returns how much it did. */
	uint64_t (*step)(struct work *work);
	/* Private to the kinds. */
	enum stream_operation operation;
	uint64_t position;
	const void *at;
	uint64_t sum; /* keeps the loads */
};

/* Make the memory and fill it, on the CPU of the caller. Returns 0, or -1 with err (`at`: JSON path of the request). */
int work_open(struct work *work, const struct work_request *request, const char *at, struct node_error *err);
void work_close(struct work *work);

/* Prepare each kind: round its footprint, and set its first state once the memory is there. */
void matmul_prepare(struct work *work);
void chase_prepare(struct work *work, uint64_t seed);
void stream_prepare(struct work *work, enum stream_operation operation);
void spin_prepare(struct work *work);

/* One element per cache line, so that each hop loads a line of its own. */
#define CHASE_ELEMENT_BYTES 64
struct chase_element {
	struct chase_element *next;
	char rest[CHASE_ELEMENT_BYTES - sizeof(struct chase_element *)];
};

/* Link n elements into one random cycle: n hops reach each of them once. */
void chase_link(struct chase_element *elements, size_t n, uint64_t seed);

#endif
