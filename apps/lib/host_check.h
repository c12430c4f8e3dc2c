/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small fixed pieces of work whose time tells what ground a measurement stands on: a cache line to and fro between two
 * cores, arithmetic in one core, memory behind it. Each piece is timed in batches short enough that an interrupt spoils
 * one of them and not the median. All results are TSC cycles.
 */
#ifndef HOST_CHECK_H
#define HOST_CHECK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOST_CHECK_LINE_BATCHES 32
#define HOST_CHECK_LINE_TRIPS                                                                                \
	32 /* round trips of a batch: 3 us where one takes 200 cycles, 17 us where it takes 1400 */
#define HOST_CHECK_STEP_BATCHES   16
#define HOST_CHECK_STEPS          4096 /* of a batch: some 4 us */
#define HOST_CHECK_WIDTH          4 /* independent chains of the wide work: more than a multiplier has stages */
#define HOST_CHECK_STREAM_BATCHES 8
#define HOST_CHECK_STREAM_MIN     (UINT64_C(4) << 20)
#define HOST_CHECK_STREAM_MAX     (UINT64_C(16) << 20)

/* A cache line between two cores; alone in its pair of lines (the L2's prefetcher fetches lines in pairs). */
struct host_check_line {
	_Alignas(128) atomic_uint_fast32_t turn; /* odd: it is the follower's to answer */
	_Alignas(128) uint64_t cycles[HOST_CHECK_LINE_BATCHES];
	uint64_t deadline_tsc;
	bool complete;
};

/* Before both sides begin; each gives up at `deadline_tsc`. */
void host_check_line_reset(struct host_check_line *line, uint64_t deadline_tsc);

/* The two sides, one on each core, at the same time. The leader's fills `cycles` and says whether it is `complete`. */
void host_check_line_lead(struct host_check_line *line);
void host_check_line_follow(struct host_check_line *line);

struct host_check_core {
	uint64_t chain
	        [HOST_CHECK_STEP_BATCHES]; /* HOST_CHECK_STEPS multiplications, each needs the one before: the core's clock */
	/* HOST_CHECK_STEPS times HOST_CHECK_WIDTH that do not: the multiplier is full, so a busy hardware thread beside it shows */
	uint64_t wide[HOST_CHECK_STEP_BATCHES];
	uint64_t stream[HOST_CHECK_STREAM_BATCHES]; /* reading the whole buffer in order */
};

/* Length of the buffer: four times the L2 of this host, within the limits above. */
size_t host_check_stream_bytes(void);

/* On the core in question. `buffer` has `bytes` bytes, a multiple of 64, that were written once; it is only read. */
void host_check_core_run(struct host_check_core *core, const void *buffer, size_t bytes);

#endif
