/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads, writes or copies through its memory in order. Bytes count as the program sees them, a copied byte twice (read and
 * written); lines loaded by a write do not count.
 */
#include "work.h"

#include <string.h>

/* Far below the size at which the C library bypasses the caches. */
#define CHUNK_BYTES ((size_t)128 * 1024)

static uint64_t sum_of(const void *memory, size_t bytes)
{
	const uint64_t *words = memory;
	uint64_t sum = 0;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		sum += words[i];
	return sum;
}

static uint64_t stream_step(struct work *work)
{
	const size_t area =
	        work->operation == STREAM_COPY ? work->footprint_bytes / 2 : work->footprint_bytes;
	const size_t left = area - work->position, chunk = left < CHUNK_BYTES ? left : CHUNK_BYTES;
	char *here = (char *)work->memory + work->position;

	work->position = chunk < left ? work->position + chunk : 0;
	switch (work->operation) {
	case STREAM_READ:
		work->sum = sum_of(here, chunk);
		return chunk;
	case STREAM_WRITE:
		memset(here, (int)(work->position & 0xff), chunk);
		return chunk;
	default:
		memcpy(here, here + area, chunk);
		return 2 * chunk;
	}
}

void stream_prepare(struct work *work, enum stream_operation operation)
{
	/* whole words in each half */
	work->footprint_bytes &= ~(size_t)127;
	work->operation = operation;
	work->unit = "bytes";
	work->step = stream_step;
}
