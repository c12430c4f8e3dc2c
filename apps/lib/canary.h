/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small fixed pieces of work whose time tells what ground a measurement stands on: a cache line to and fro between two
 * cores, arithmetic in one core, memory behind it. Each piece is timed in batches short enough that an interrupt spoils
 * one of them and not the median. All results are TSC cycles.
 */
#ifndef CANARY_H
#define CANARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CANARY_LINE_BATCHES 32
#define CANARY_LINE_TRIPS                                                                                    \
	32 /* round trips of a batch: 3 us where one takes 200 cycles, 17 us where it takes 1400 */
#define CANARY_STEP_BATCHES   16
#define CANARY_STEPS          4096 /* of a batch: some 4 us */
#define CANARY_WIDTH          4 /* independent chains of the wide work: more than a multiplier has stages */
#define CANARY_STREAM_BATCHES 8
#define CANARY_STREAM_MIN     (UINT64_C(4) << 20)
#define CANARY_STREAM_MAX     (UINT64_C(16) << 20)

/* A cache line between two cores; alone in its pair of lines (the L2's prefetcher fetches lines in pairs). */
struct canary_line {
	_Alignas(128) atomic_uint_fast32_t turn; /* odd: it is the follower's to answer */
	_Alignas(128) uint64_t cycles[CANARY_LINE_BATCHES];
	uint64_t deadline_tsc;
	bool complete;
};

/* Before both sides begin; each gives up at `deadline_tsc`. */
void canary_line_reset(struct canary_line *line, uint64_t deadline_tsc);

/* The two sides, one on each core, at the same time. The leader's fills `cycles` and says whether it is `complete`. */
void canary_line_lead(struct canary_line *line);
void canary_line_follow(struct canary_line *line);

struct canary_core {
	uint64_t chain
	        [CANARY_STEP_BATCHES]; /* CANARY_STEPS multiplications, each needs the one before: the core's clock */
	/* CANARY_STEPS times CANARY_WIDTH that do not: the multiplier is full, so a busy hardware thread beside it shows */
	uint64_t wide[CANARY_STEP_BATCHES];
	uint64_t stream[CANARY_STREAM_BATCHES]; /* reading the whole buffer in order */
};

/* Length of the buffer: four times the L2 of this host, within the limits above. */
size_t canary_stream_bytes(void);

/* On the core in question. `buffer` has `bytes` bytes, a multiple of 64, that were written once; it is only read. */
void canary_core_run(struct canary_core *core, const void *buffer, size_t bytes);

#endif
