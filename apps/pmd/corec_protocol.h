/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How several cores receive from one ring without a lock: COREC (Faltelli et al., arXiv 2401.12815, section 3.4), on counts
 * and flags alone. What a descriptor, a buffer and a frame are is said by whoever includes this file: the driver
 * (crossover_corec.c), the model checks and the stress test (apps/tests/corec_*), which also put atomics of their own in
 * place of the compiler's.
 *
 * Counts run from the start of the queue and never wrap; descriptor k lies at place k modulo the ring's size, which is a
 * power of two.
 *
 *      given back, TAIL not moved yet        to be taken
 *              |                                 |
 *   -----+-----v-----------+---------------------v-----------------+-----
 *        |  done   | being |  taken by no one: the NIC's, or filled|
 *   -----+---------+-------+---------------------------------------+-----
 *   tail - size              taken                                 tail
 *
 * A poll looks at `taken`, counts the descriptors from there on that the NIC has filled (DD), gets as many fresh buffers, and
 * claims the descriptors by moving `taken` from what it saw to behind them. Who wins swaps the buffers, marks the batch as
 * done at the place of its first descriptor, and is through; who loses gives the buffers back and returns nothing. Whoever
 * then finds the batch done that begins at TAIL moves TAIL over it and all done ones behind it.
 *
 * Why it is right, and what for each atomic has its order:
 * - A claim is exclusive: `taken` only grows, by compare-and-swap. Relaxed: it publishes nothing. What the winner must see of a
 *   descriptor it has from DD (the frame) and from `tail` (the lap before).
 * - No claim goes beyond `tail`. A descriptor behind it was taken in the lap before and may still show that lap's DD and buffer.
 *   `tail` is read with acquire: who sees k < tail also sees that descriptor k's buffer was replaced and its DD cleared, so a DD
 *   that it finds is of this lap.
 * - DD is read with acquire, before the claim: the frame is there.
 * - The mark of a batch is written with release, after its buffers: who sees it (acquire) may show them to the NIC.
 * - A mark is cleared before `tail` moves over it. Later would be too late: once `tail` has moved, the place may be claimed and
 *   marked again, and that mark would be lost, with all descriptors of its batch. Relaxed: `tail`'s release comes after it.
 * - One core at a time moves `tail`: `returning` is taken with acquire and given back with release. Nobody waits for it. Who
 *   does not get it leaves its mark to the next poll of any core: every poll tries, also an empty one and one that lost.
 * - No ABA: a count has 64 bits. Of 32 bits, 2^32 descriptors during one poll's stall would do, 107 s at 40 Mpps.
 */
#ifndef COREC_PROTOCOL_H
#define COREC_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

/* Whoever has other atomics defines them first, and this guard. */
#ifndef COREC_ATOMICS_H
#include "corec_atomics.h"
#endif

/*
 * What the checks take away to see it missed; the driver takes nothing away.
 *   COREC_UNBOUNDED    a claim is not bounded by TAIL
 *   COREC_LATE_CLEAR   marks are cleared after TAIL has moved
 *   COREC_SPARE_BITS   so many of a count's 64 bits are not there
 */
#ifndef COREC_SPARE_BITS
#define COREC_SPARE_BITS 0
#endif

/* Two lines: the prefetcher fetches them in pairs. */
#define COREC_APART_BYTES 128

/* By writer. */
struct corec_counts {
	alignas(COREC_APART_BYTES) corec_u64 taken; /* descriptors claimed since start: every claim */
	alignas(COREC_APART_BYTES) corec_u64 tail;  /* descriptors posted since start: whoever moves TAIL */
	corec_u32 returning;                        /* 1: somebody is moving TAIL */
};

static inline uint64_t corec_later(uint64_t count, uint64_t steps)
{
	return (count + steps) << COREC_SPARE_BITS >> COREC_SPARE_BITS;
}

static inline int64_t corec_distance(uint64_t from, uint64_t to)
{
	return (int64_t)((to - from) << COREC_SPARE_BITS) >> COREC_SPARE_BITS;
}

struct corec_queue {
	corec_u16 *done; /* by place: descriptors of the batch that begins there and is done, or 0 */
	uint32_t mask;   /* size - 1 */
	struct corec_counts counts;
};

/*
 * What the includer defines, besides the types corec_frame (of what a poll delivers) and corec_how (whatever its corec_swap()
 * wants to know) before it includes this file.
 */

/* DD of the descriptor at this place, read with acquire. */
static inline bool corec_filled(const struct corec_queue *q, uint32_t place);

/* Puts up to n buffers into the array; returns how many. */
static inline uint32_t corec_supply(struct corec_queue *q, corec_frame *buffers, uint32_t n);

/* The claim was lost: takes the buffers back, and counts. */
static inline void corec_give_back(struct corec_queue *q, corec_frame *buffers, uint32_t n);

/* The frame comes into the array, the buffer that was there into the descriptor, whose DD is cleared. */
static inline void corec_swap(struct corec_queue *q, uint32_t place, corec_frame *at, corec_how how);

/* TAIL for the NIC, written with release. */
static inline void corec_ring_doorbell(struct corec_queue *q, uint64_t tail);

/* How many filled descriptors, at most `most`, can be claimed from *first on. */
static inline uint32_t corec_look(const struct corec_queue *q, uint32_t most, uint64_t *first)
{
	uint32_t found = 0;

	*first = corec_load_relaxed(&q->counts.taken);
#ifndef COREC_UNBOUNDED
	const int64_t credits = corec_distance(*first, corec_load_acquire(&q->counts.tail));

	if (credits < (int64_t)most)
		most = credits > 0 ? (uint32_t)credits : 0;
#endif
	while (found < most && corec_filled(q, (uint32_t)(*first + found) & q->mask))
		found++;
	return found;
}

static inline bool corec_claim(struct corec_queue *q, uint64_t first, uint32_t n)
{
	return corec_compare_exchange_relaxed(&q->counts.taken, first, corec_later(first, n));
}

/* Moves TAIL over all batches that are done. */
static inline void corec_return(struct corec_queue *q)
{
	uint64_t tail = corec_load_relaxed(&q->counts.tail), from;
	uint32_t n;

	/* An old TAIL or mark does no harm: the next poll looks again. */
	if (corec_load_relaxed(&q->done[tail & q->mask]) == 0 ||
	    corec_exchange_acquire(&q->counts.returning, 1) != 0)
		return;
	from = tail = corec_load_relaxed(&q->counts.tail); /* nobody else writes it now */
	while ((n = corec_load_acquire(&q->done[tail & q->mask])) != 0) {
#ifndef COREC_LATE_CLEAR
		corec_store_relaxed(&q->done[tail & q->mask], 0);
		tail = corec_later(tail, n);
#else
		const uint64_t place = tail & q->mask;

		from = tail = corec_later(tail, n);
		corec_store_release(&q->counts.tail, tail);
		corec_ring_doorbell(q, tail);
		corec_store_relaxed(&q->done[place], 0);
#endif
	}
	if (tail != from) {
		corec_store_release(&q->counts.tail, tail);
		corec_ring_doorbell(q, tail);
	}
	corec_store_release(&q->counts.returning, 0);
}

static inline uint32_t corec_take(struct corec_queue *q, corec_frame *frames, uint32_t most, corec_how how)
{
	uint64_t first;
	uint32_t n = corec_look(q, most, &first);

	if (n > 0)
		n = corec_supply(q, frames, n);
	if (n == 0)
		return 0;
	if (!corec_claim(q, first, n)) {
		corec_give_back(q, frames, n);
		return 0;
	}
	for (uint32_t i = 0; i < n; i++)
		corec_swap(q, (uint32_t)(first + i) & q->mask, &frames[i], how);
	corec_store_release(&q->done[first & q->mask], (uint16_t)n);
	return n;
}

/* One poll: up to `most` frames. 0: nothing was there, no buffer was to be had, or another core was quicker. */
static inline uint32_t corec_poll(struct corec_queue *q, corec_frame *frames, uint32_t most, corec_how how)
{
	const uint32_t n = corec_take(q, frames, most, how);

	corec_return(q);
	return n;
}

#endif
