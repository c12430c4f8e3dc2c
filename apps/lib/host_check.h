/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small fixed pieces of work whose time tells the host state: the round trip of a cache line between two cores, arithmetic in
 * one core, reading memory behind it. Each piece is timed in batches short enough that an interrupt spoils one of them and not
 * the median. All results are TSC cycles.
 */
#ifndef HOST_CHECK_H
#define HOST_CHECK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOST_CHECK_LINE_BATCHES   32
#define HOST_CHECK_LINE_TRIPS     32 /* round trips per batch: 3 us at 200 cycles each, 17 us at 1400 */
#define HOST_CHECK_STEP_BATCHES   16
#define HOST_CHECK_STEPS          4096 /* per batch: about 4 us */
#define HOST_CHECK_WIDTH          4 /* independent chains of the wide work: more than a multiplier has stages */
#define HOST_CHECK_STREAM_BATCHES 8
#define HOST_CHECK_STREAM_MIN     (UINT64_C(4) << 20)
#define HOST_CHECK_STREAM_MAX     (UINT64_C(16) << 20)

/* A cache line between two cores, alone in its pair of lines (the L2's prefetcher fetches lines in pairs). */
struct host_check_line {
	_Alignas(128) atomic_uint_fast32_t turn; /* odd: the follower's to answer */
	_Alignas(128) uint64_t cycles[HOST_CHECK_LINE_BATCHES];
	uint64_t deadline_tsc;
	bool complete;
};

/* Prepare before both sides begin; each gives up at `deadline_tsc`. */
void host_check_line_reset(struct host_check_line *line, uint64_t deadline_tsc);

/* Run the two sides at the same time, one on each core. The leader fills `cycles` and sets `complete`. */
void host_check_line_lead(struct host_check_line *line);
void host_check_line_follow(struct host_check_line *line);

struct host_check_core {
	uint64_t chain
	        [HOST_CHECK_STEP_BATCHES]; /* HOST_CHECK_STEPS dependent multiplications: the core's clock */
	/*
	 * HOST_CHECK_STEPS times HOST_CHECK_WIDTH independent ones: they fill the multiplier, so a busy hardware thread beside
	 * it shows
	 */
	uint64_t wide[HOST_CHECK_STEP_BATCHES];
	uint64_t stream[HOST_CHECK_STREAM_BATCHES]; /* reading the whole buffer in order */
};

/* Return the length of the buffer: four times the L2 of this host, within the limits above. */
size_t host_check_stream_bytes(void);

/* Run on the core in question. `buffer` has `bytes` bytes, a multiple of 64, written once before; it is only read. */
void host_check_core_run(struct host_check_core *core, const void *buffer, size_t bytes);

#endif
