/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include <rte_malloc.h>
#include <rte_prefetch.h>

#include "crossover_ring.h"
#include "wire_bench.h"

#define STRIDE_BYTES   2368 /* between buffers: an mbuf, 2176 bytes of data and a mempool's header */
#define PREFETCH_AHEAD 16   /* buffers, as in the driver */

static struct bare {
	struct crossover_rx_ring ring;
	struct crossover_rx_desc desc[BENCH_RING] __rte_cache_aligned;
	struct {
		uint32_t position, unposted, tail;
		uint64_t sum; /* of the bytes read, so that the compiler keeps the loads */
	} receiver __rte_cache_aligned;
	uint8_t frame[BENCH_FRAME_BYTES] __rte_cache_aligned;
	uint8_t buffers[BENCH_RING][STRIDE_BYTES] __rte_cache_aligned;
} *bare;

bool bench_bare_init(void)
{
	bare = rte_zmalloc("wire_bare", sizeof(*bare), RTE_CACHE_LINE_SIZE);
	if (bare == NULL)
		return false;
	for (uint32_t i = 0; i < BENCH_RING; i++)
		bare->desc[i].buffer = (uintptr_t)bare->buffers[i];
	bare->ring.nic.desc = bare->desc;
	bare->ring.nic.size = BENCH_RING;
	bare->receiver.tail = BENCH_RING;
	crossover_ring_post(&bare->ring, BENCH_RING);
	return true;
}

void bench_bare_exit(void)
{
	rte_free(bare);
}

static uint32_t send_bare(bool whole)
{
	uint64_t head;
	uint32_t count = crossover_ring_reach(&bare->ring, &head, BENCH_BURST);
	struct crossover_rx_desc *desc = &bare->desc[crossover_head_position(head)];

	if (whole && count < BENCH_BURST)
		return 0;
	for (uint32_t i = 0; i < count && i < PREFETCH_AHEAD; i++)
		__builtin_prefetch((void *)(uintptr_t)desc[i].buffer, 1, 3);
	for (uint32_t i = 0; i < count; i++) {
		if (i + PREFETCH_AHEAD < count)
			__builtin_prefetch((void *)(uintptr_t)desc[i + PREFETCH_AHEAD].buffer, 1, 3);
		memcpy((void *)(uintptr_t)desc[i].buffer, bare->frame, sizeof(bare->frame));
	}
	for (uint32_t i = 0; i < count; i++)
		__atomic_store_n(&desc[i].writeback, WIRE_DD | BENCH_FRAME_BYTES, __ATOMIC_RELEASE);
	crossover_ring_reserve(&bare->ring.nic, head, count, false);
	return count;
}

static void post_bare(uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		bare->desc[first + i].buffer = (uintptr_t)bare->buffers[first + i];
		bare->desc[first + i].writeback = 0;
	}
	bare->receiver.tail += count;
	crossover_ring_post(&bare->ring, bare->receiver.tail);
}

static bool is_written(uint32_t position)
{
	return (__atomic_load_n(&bare->desc[position].writeback, __ATOMIC_ACQUIRE) & WIRE_DD) != 0;
}

/* Fetches no buffer before its DD is seen: that would take the line from the sender while it writes there. */
static uint32_t receive_bare(bool whole)
{
	uint32_t position = bare->receiver.position, count = 0;

	if (whole && !is_written(position + BENCH_BURST - 1))
		return 0;
	while (count < BENCH_BURST && position + count < BENCH_RING && is_written(position + count))
		count++;
	for (uint32_t i = 0; i < count; i++)
		bare->receiver.sum += *(const uint64_t *)bare->buffers[position + i];
	bare->receiver.position = (position + count) % BENCH_RING;
	bare->receiver.unposted += count;
	if (bare->receiver.unposted >= BENCH_BURST || bare->receiver.position == 0) {
		uint32_t end = position + count;

		post_bare(end - bare->receiver.unposted, bare->receiver.unposted);
		bare->receiver.unposted = 0;
	}
	return count;
}

uint32_t bench_bare_step(unsigned int worker)
{
	return worker == 0 ? send_bare(false) : receive_bare(false);
}

uint32_t bench_bare_whole_step(unsigned int worker)
{
	return worker == 0 ? send_bare(true) : receive_bare(true);
}
