/* SPDX-License-Identifier: BSD-3-Clause */
#include "work.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "memory.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

const char *const work_names[WORK_KINDS + 1] = {
        [WORK_MATMUL] = "matmul",
        [WORK_POINTER_CHASE] = "pointer-chase",
        [WORK_MEMORY_STREAM] = "memory-stream",
        [WORK_SPIN] = "spin",
        [WORK_STRESS_NG] = "stress-ng",
};
const char *const stream_operations[STREAM_OPERATIONS + 1] = {
        [STREAM_READ] = "read",
        [STREAM_WRITE] = "write",
        [STREAM_COPY] = "copy",
};

/* Three 64 x 64 matrices fit an L2 cache; 32 MiB and 64 MiB exceed most; a spinner needs one line. */
static const size_t default_bytes[WORK_KINDS] = {
        [WORK_MATMUL] = 96 * KIB,
        [WORK_POINTER_CHASE] = 32 * MIB,
        [WORK_MEMORY_STREAM] = 64 * MIB,
        [WORK_SPIN] = 64,
};
static const size_t least_bytes[WORK_KINDS] = {
        [WORK_MATMUL] = 3 * 8 * 8 * sizeof(double),
        [WORK_POINTER_CHASE] = 2 * (size_t)CHASE_ELEMENT_BYTES,
        [WORK_MEMORY_STREAM] = 4 * KIB,
        [WORK_SPIN] = 64,
};

static int check(const struct work_request *request, size_t bytes, const char *at, struct node_error *err)
{
	const uint64_t free_bytes = memory_available_bytes();
	char path[128];

	node_where(path, sizeof(path), at, "footprint_bytes");
	if (bytes < least_bytes[request->kind])
		return node_fail(err, path, "%s needs at least %zu bytes, not %zu", work_names[request->kind],
		                 least_bytes[request->kind], bytes);
	/* the rest belongs to the host, which would otherwise start to swap or to kill processes */
	if (bytes > free_bytes / 4 * 3)
		return node_fail(err, path,
		                 "%zu bytes are more than three quarters of the %" PRIu64 " that are free",
		                 bytes, free_bytes);
	return 0;
}

static void prepare(struct work *work, const struct work_request *request)
{
	switch (request->kind) {
	case WORK_MATMUL:
		matmul_prepare(work);
		break;
	case WORK_POINTER_CHASE:
		chase_prepare(work, request->seed);
		break;
	case WORK_MEMORY_STREAM:
		stream_prepare(work, request->operation);
		break;
	default:
		spin_prepare(work);
	}
}

int work_open(struct work *work, const struct work_request *request, const char *at, struct node_error *err)
{
	const size_t bytes =
	        request->footprint_bytes ? request->footprint_bytes : default_bytes[request->kind];

	memset(work, 0, sizeof(*work));
	work->kind = request->kind;
	if (check(request, bytes, at, err) < 0)
		return -1;
	work->memory = memory_map(bytes);
	if (!work->memory)
		return node_fail(err, at, "no memory for %zu bytes: %s", bytes, strerror(errno));
	work->footprint_bytes = bytes;
	work->per_unit = 1;
	prepare(work, request);
	work->huge_bytes = memory_huge_bytes(work->memory, bytes);
	return 0;
}

void work_close(struct work *work)
{
	if (work->memory)
		memory_unmap(work->memory);
	work->memory = NULL;
}
