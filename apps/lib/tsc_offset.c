/* SPDX-License-Identifier: BSD-3-Clause */
#include "tsc_offset.h"

#include <rte_atomic.h>
#include <rte_cycles.h>

#define ROUNDS 2000 /* 1 ms at 350 cycles per line; the bounds narrow little after several hundred rounds */

/* Read the TSC after the load that the caller has just made: rdtsc alone can be issued before it. */
static inline uint64_t stamp_after_load(void)
{
	rte_rmb();
	return rte_rdtsc();
}

void tsc_offset_answer(struct tsc_ball *ball)
{
	uint32_t seen = 0, ping;

	while ((ping = atomic_load_explicit(&ball->ping, memory_order_acquire)) != TSC_BALL_OVER) {
		if (ping == seen)
			continue;
		seen = ping;
		atomic_store_explicit(&ball->pong, stamp_after_load(), memory_order_release);
	}
}

static void narrow(struct tsc_offset *offset, uint64_t t0, uint64_t t1, uint64_t t2)
{
	offset->low = RTE_MAX(offset->low, (int64_t)(t1 - t2));
	offset->high = RTE_MIN(offset->high, (int64_t)(t1 - t0));
	offset->rounds++;
}

struct tsc_offset tsc_offset_ask(struct tsc_ball *ball, uint64_t limit_tsc)
{
	struct tsc_offset offset = {.low = INT64_MIN, .high = INT64_MAX};
	uint64_t t0 = 0, t1 = 0, before = 0;

	for (uint32_t round = 1; round <= ROUNDS && t0 < limit_tsc; round++, before = t1) {
		t0 = rte_rdtsc(); /* read before it retires; the store below becomes visible after that */
		atomic_store_explicit(&ball->ping, round, memory_order_release);
		do
			t1 = atomic_load_explicit(&ball->pong, memory_order_acquire);
		while (t1 == before && rte_rdtsc() < limit_tsc);
		if (t1 == before)
			break;
		narrow(&offset, t0, t1, stamp_after_load());
	}
	atomic_store(&ball->ping, TSC_BALL_OVER);
	return offset;
}
