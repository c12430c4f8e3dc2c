/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_cycles.h>
#include <rte_prefetch.h>
#include <rte_random.h>

#include "crossover_wire.h"

#define STAMP_TRIES 64
/*
 * A timed chunk that took 10 us, and 4 cycles for each byte that it moved, was interrupted: the slowest copy between two
 * sockets takes about 1 cycle a byte.
 */
#define INTERRUPTION_US 10
#define CYCLES_PER_BYTE 4

/* Chunks until the next timed one: 1 to 2 x CROSSOVER_WIRE_EVERY, all equally likely (xorshift32, Marsaglia 2003). */
static void draw(struct crossover_tx_queue *txq)
{
	uint32_t x = txq->wire_draw;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	txq->wire_draw = x;
	txq->wire_due = 1 + (x >> 8) % (2 * CROSSOVER_WIRE_EVERY);
}

/* Waits for the loads before it, as long as they take, and starts nothing behind it. */
static inline uint64_t stamp(void)
{
#ifdef RTE_ARCH_X86
	__builtin_ia32_lfence();
	uint64_t now = rte_rdtsc();
	__builtin_ia32_lfence();
	return now;
#else
	return rte_rdtsc_precise();
#endif
}

void crossover_wire_init(struct crossover_tx_queue *txq)
{
	uint64_t least = UINT64_MAX;

	for (unsigned int i = 0; i < STAMP_TRIES; i++) {
		uint64_t begin = stamp(), took = stamp() - begin;

		least = RTE_MIN(least, took);
	}
	txq->stamp_cycles = (uint32_t)least;
	txq->interruption_cycles = rte_get_tsc_hz() / 1000000 * INTERRUPTION_US;
	txq->wire_draw = (uint32_t)rte_rand() | 1;
	draw(txq);
}

__rte_noinline uint64_t crossover_wire_begin(const struct crossover_tx_queue *txq)
{
	rte_prefetch0(&txq->stamp_cycles);
	return stamp();
}

__rte_noinline void crossover_wire_end(struct crossover_tx_queue *txq, uint64_t begin, uint32_t frames,
                                       uint64_t bytes_before)
{
	uint64_t took = stamp() - begin;
	uint64_t most = txq->interruption_cycles + CYCLES_PER_BYTE * (txq->counts.bytes - bytes_before);

	draw(txq);
	took -= RTE_MIN(took, (uint64_t)txq->stamp_cycles);
	if (took > most) {
		txq->counts.wire_interrupted++;
		return;
	}
	txq->counts.wire_cycles += took;
	txq->counts.wire_frames += frames;
}
