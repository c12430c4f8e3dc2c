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
 *      returned, TAIL not moved yet          to be taken
 *              |                                 |
 *   -----+-----v-----------+---------------------v-----------------+-----
 *        |  done   | being |  taken by no one: the NIC's, or filled|
 *   -----+---------+-------+---------------------------------------+-----
 *   tail - size              taken                                 tail
 *
 * A poll looks at `taken`, counts the descriptors from there on that the NIC has filled (DD), gets as many fresh buffers, and
 * claims the descriptors by moving `taken` from what it saw to behind them. Who loses frees the buffers and returns nothing.
 * Who wins swaps the buffers. If its batch is the one that TAIL waits for, it moves TAIL; otherwise it marks the batch as done at the
 * place of its first descriptor. Whoever then finds the batch marked that TAIL waits for clears the mark and moves TAIL.
 *
 * Why it is right, and what for each atomic has its order:
 * - A claim is exclusive: `taken` only grows, by compare-and-swap. Relaxed: it publishes nothing. What the winner must see of a
 *   descriptor it has from DD (the frame) and from `tail` (the lap before).
 * - No claim goes beyond `tail`. A descriptor behind it was taken in the lap before and may still show that lap's DD and buffer.
 *   `tail` is read with acquire: who sees k < tail also sees that descriptor k's buffer was replaced and its DD cleared, so a DD
 *   that it finds is of this lap.
 * - DD is read with acquire, before the claim: the frame is there.
 * - The mark of a batch is written with release, after its buffers: who takes it (acquire) may show them to the NIC.
 * - One core at a time may move `tail`: who has the batch that `tail` waits for and has not marked it, or who has cleared its mark, by
 *   exchange, so that one core gets it. Nobody waits for that. Who comes too early leaves its mark to the next poll of any core:
 *   every poll tries, also an empty one and one that lost.
 * - A mark is cleared before `tail` moves over it. Later would be too late: once `tail` has moved, the place may be claimed and
 *   marked again, and that mark would be lost, with all descriptors of its batch.
 * - Who stalls between its look at `tail` and the exchange may get a mark of a later lap. It has that batch then: no `tail` goes over it
 *   meanwhile, so what it now reads is less than a ring from there, and says whether `tail` waits for it. If not, the mark goes back.
 *   Then, behind a full fence, it looks where `tail` is now: `tail` may have reached the batch while the mark was away, and the others,
 *   which found no mark, may all halt.
 * - `tail` is read with acquire by who moves it and written with release: so the doorbell, which is rung just before, never goes back, and
 *   with a batch the NIC sees all before it. Rung after, it could be a stalled core's old one.
 * - Who halts until a descriptor is filled first says which (corec_halt_place()), then arms the processor for that line and reads DD,
 *   and then asks whether it may (corec_may_halt()): another core may have taken the descriptor before the line was armed, and
 *   the next frame comes to another. DD is cleared behind a release fence, so whoever reads that it is not set, with an acquire
 *   fence behind, knows of the claim. What is taken after that was filled after arming, which ends the halt.
 *   All may halt at once, so the next poll, to which a mark is left that came too early, may never come: corec_halt_place()
 *   tries once more, behind a full fence. Of two cores, one with its mark written and one with TAIL, one then sees both.
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
 *   COREC_LATE_CLEAR   marks are read, and cleared after TAIL has moved
 *   COREC_SPARE_BITS   so many of a count's 64 bits are not there
 *   COREC_BLIND_HALT   who halts does not ask whether the descriptor has been taken
 *   COREC_HASTY_HALT   nor moves TAIL before
 */
#ifndef COREC_SPARE_BITS
#define COREC_SPARE_BITS 0
#endif

/* The parts of a poll, or `how` would not be known where the hooks are compiled. */
#define COREC_INLINE static inline __attribute__((always_inline))

/* Two lines: the prefetcher fetches them in pairs. */
#define COREC_APART_BYTES 128

static inline uint64_t corec_later(uint64_t count, uint64_t steps)
{
	return (count + steps) << COREC_SPARE_BITS >> COREC_SPARE_BITS;
}

static inline int64_t corec_distance(uint64_t from, uint64_t to)
{
	return (int64_t)((to - from) << COREC_SPARE_BITS) >> COREC_SPARE_BITS;
}

/*
 * By writer: what polls only read, then `taken`, which every claim writes. Whoever moves TAIL writes `tail` and has just rung the
 * doorbell: so it lies best in the doorbell's line.
 */
struct corec_queue {
	corec_u16 *done; /* by place: descriptors of the batch that begins there and is done, or 0 */
	corec_u64 *tail; /* descriptors posted since start */
	uint32_t mask;   /* size - 1 */
	alignas(COREC_APART_BYTES) corec_u64 taken; /* descriptors claimed since start */
};

/*
 * What the includer defines, besides the types corec_frame (of what a poll delivers) and corec_how (whatever its corec_swap()
 * wants to know) before it includes this file.
 */

/*
 * How many of n descriptors side by side, from the one at `place` on, are filled, until one is not. DD is read with acquire. Fewer may
 * be told.
 */
static inline uint32_t corec_filled(const struct corec_queue *q, uint32_t place, uint32_t n);

/* Puts up to n buffers into the array; returns how many. */
static inline uint32_t corec_get_buffers(struct corec_queue *q, corec_frame *buffers, uint32_t n);

/* The claim was lost: takes the buffers back, and counts. */
static inline void corec_give_back(struct corec_queue *q, corec_frame *buffers, uint32_t n);

/* Of n descriptors side by side: frames come into the array, the buffers that were there into the descriptors, DD is cleared behind a release fence. */
static inline void corec_swap(struct corec_queue *q, uint32_t place, corec_frame *frames, uint32_t n,
                              corec_how how);

/* TAIL for the NIC, written with release. */
static inline void corec_ring_doorbell(struct corec_queue *q, uint64_t tail);

/* Of n descriptors from the one at `place` on, those that lie before the ring's end. */
static inline uint32_t corec_before_end(const struct corec_queue *q, uint32_t place, uint32_t n)
{
	return n < q->mask + 1 - place ? n : q->mask + 1 - place;
}

/* How many filled descriptors, at most `most`, can be claimed from *first on. */
static inline uint32_t corec_look(const struct corec_queue *q, uint32_t most, uint64_t *first)
{
	*first = corec_load_relaxed(&q->taken);
#ifndef COREC_UNBOUNDED
	const int64_t credits = corec_distance(*first, corec_load_acquire(q->tail));

	if (credits < (int64_t)most)
		most = credits > 0 ? (uint32_t)credits : 0;
#endif
	const uint32_t place = (uint32_t)*first & q->mask, here = corec_before_end(q, place, most);
	const uint32_t found = corec_filled(q, place, here);

	if (found < here || here == most)
		return found;
	/* Who stalled after it had read `taken` may see more credits than a ring has places, and will lose its claim. */
	return found + corec_filled(q, 0, corec_before_end(q, 0, most - here));
}

static inline bool corec_claim(struct corec_queue *q, uint64_t first, uint32_t n)
{
	return corec_compare_exchange_relaxed(&q->taken, first, corec_later(first, n));
}

/* The batch that TAIL waits for goes back to the NIC. */
static inline void corec_move_tail(struct corec_queue *q, uint64_t tail, uint32_t n)
{
	tail = corec_later(tail, n);
	corec_ring_doorbell(q, tail);
	corec_store_release(q->tail, tail);
}

/* 0: there is none, or somebody else has it. */
static inline uint32_t corec_take_mark(corec_u16 *mark)
{
	if (corec_load_relaxed(mark) == 0)
		return 0;
#ifndef COREC_LATE_CLEAR
	return corec_exchange_acquire(mark, 0);
#else
	return corec_load_acquire(mark);
#endif
}

/* Moves TAIL over marked batches. */
static inline void corec_return(struct corec_queue *q)
{
	uint64_t tail = corec_load_acquire(q->tail), now;
	corec_u16 *mark;
	uint32_t n;

	while ((n = corec_take_mark(mark = &q->done[tail & q->mask])) != 0) {
		now = corec_load_acquire(q->tail);
		if (((now ^ tail) & q->mask) != 0) {
			corec_store_release(mark, (uint16_t)n);
			corec_fence_full();
			tail = corec_load_acquire(q->tail);
			continue;
		}
		corec_move_tail(q, now, n);
		tail = corec_later(now, n);
#ifdef COREC_LATE_CLEAR
		corec_store_relaxed(mark, 0);
#endif
	}
}

COREC_INLINE void corec_swap_batch(struct corec_queue *q, uint32_t place, corec_frame *frames, uint32_t n,
                                   corec_how how)
{
	const uint32_t here = corec_before_end(q, place, n);

	corec_swap(q, place, frames, here, how);
	if (here < n)
		corec_swap(q, 0, frames + here, n - here, how);
}

COREC_INLINE uint32_t corec_take(struct corec_queue *q, corec_frame *frames, uint32_t most, corec_how how)
{
	uint64_t first, tail;
	uint32_t n = corec_look(q, most, &first);

	if (n > 0)
		n = corec_get_buffers(q, frames, n);
	if (n == 0)
		return 0;
	if (!corec_claim(q, first, n)) {
		corec_give_back(q, frames, n);
		return 0;
	}
	corec_swap_batch(q, (uint32_t)first & q->mask, frames, n, how);
	tail = corec_load_acquire(q->tail);
	if (tail == corec_later(first, q->mask + 1))
		corec_move_tail(q, tail, n);
	else
		corec_store_release(&q->done[first & q->mask], (uint16_t)n);
	return n;
}

/* One poll: up to `most` frames. 0: nothing was there, no buffer was to be had, or another core was quicker. */
COREC_INLINE uint32_t corec_poll(struct corec_queue *q, corec_frame *frames, uint32_t most, corec_how how)
{
	const uint32_t n = corec_take(q, frames, most, how);

	corec_return(q);
	return n;
}

/* The place of the descriptor that the next frame comes to, for a core that is going to halt until it is filled. */
static inline uint32_t corec_halt_place(struct corec_queue *q)
{
#ifndef COREC_HASTY_HALT
	corec_fence_full();
	corec_return(q);
#endif
	return (uint32_t)corec_load_relaxed(&q->taken) & q->mask;
}

/* After the line was armed, and DD read without being set. */
static inline bool corec_may_halt(const struct corec_queue *q, uint32_t place)
{
#ifndef COREC_BLIND_HALT
	corec_fence_acquire();
	return ((uint32_t)corec_load_relaxed(&q->taken) & q->mask) == place;
#else
	(void)q;
	(void)place;
	return true;
#endif
}

#endif
