/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measure how far the time-stamp counters of two CPUs differ, by a ping-pong between them.
 *
 * In a round one side reads t0 and says ping; the other sees it, reads t1 and says pong; the first sees that and reads t2. On
 * one clock t0 <= t1 <= t2, so the second counter is ahead by at least t1 - t2 and at most t1 - t0. The intersection over all
 * rounds is as narrow as the quickest message in each direction (NTP's bound, RFC 5905 section 8: half of the round trip to
 * each side of the estimate). The flags constant_tsc and nonstop_tsc do not help: firmware or a hypervisor can have set the
 * counters apart.
 */
#ifndef TSC_OFFSET_H
#define TSC_OFFSET_H

#include <stdatomic.h>
#include <stdint.h>

#include <rte_common.h>

#define TSC_BALL_OVER UINT32_MAX

/* Both words lie in one cache line, which makes one round trip per round. Zero before a game. */
struct tsc_ball {
	_Atomic(uint32_t) ping; /* number of the round, from 1; TSC_BALL_OVER: return */
	_Atomic(uint64_t) pong; /* t1 of the latest round; never the same twice */
} __rte_cache_aligned;

/* The other TSC minus this one: not below `low`, not above `high`. low > high: the offset is not constant. */
struct tsc_offset {
	int64_t low;
	int64_t high;
	uint32_t rounds; /* 0: no answer, and no bounds */
};

/* Answer until TSC_BALL_OVER. */
void tsc_offset_answer(struct tsc_ball *ball);

/* Ask, at most until this TSC value, and then end the other side. */
struct tsc_offset tsc_offset_ask(struct tsc_ball *ball, uint64_t limit_tsc);

#endif
