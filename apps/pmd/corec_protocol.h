/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How several cores receive from one ring without a lock: COREC (Faltelli et al., arXiv 2401.12815, section 3.4), on counts and flags alone.
 * The file that includes this one defines what a descriptor, a buffer and a frame are: the driver (crossover_corec.c), the model
 * checks and the stress test (apps/tests/corec_*), which also replace the compiler's atomics by their own.
 *
 * Counts run from the start of the queue and never wrap; descriptor k lies at place k modulo the ring's size, which is a power of two.
 *
 *      returned, TAIL not moved yet          to be taken
 *              |                                 |
 *   -----+-----v-----------+---------------------v-----------------+-----
 *        |  done   | being |  taken by no one: the NIC's, or filled|
 *   -----+---------+-------+---------------------------------------+-----
 *   tail - size              taken                                 tail
 *
 * A poll reads `taken`, counts the descriptors from there that the NIC has filled (DD set), allocates as many buffers, and reserves the
 * descriptors by advancing `taken` with compare-and-swap. A core that loses the race frees its buffers and returns no packets. The winner
 * swaps the buffers. If TAIL is at its batch, it advances TAIL; otherwise it sets the batch's completion flag, at the place of the batch's
 * first descriptor. The core that later finds the flag of the batch at TAIL clears it and advances TAIL.
 *
 * Memory ordering, and why it is correct:
 * - Reservation: relaxed. Reservations are exclusive because `taken` only grows. The winner learns the frame's contents from DD and the
 *   previous wrap's buffers from `tail`.
 * - `tail`: no reservation goes beyond it. A descriptor beyond it was taken in the previous wrap and may still show that wrap's DD and buffer.
 *   It is read with acquire: a core that sees k < tail also sees that the buffer of descriptor k was replaced and its DD cleared, so a DD
 *   that it then finds belongs to this wrap.
 * - DD: read with acquire before the reservation.
 * - Completion flag: stored with release after the buffers; the core that clears it (exchange, acquire) may publish them to the NIC.
 * - Only one core at a time may advance `tail`: the core that owns the batch at `tail` and has not set its flag, or the core that cleared
 *   the flag; the exchange gives it to one core. No core waits for this. A core that comes too early leaves its flag to the next poll of any
 *   core: every poll tries, also an empty one and one that lost its race.
 * - A flag is cleared before `tail` moves over it. Once `tail` has moved, the place may be reserved and flagged again; clearing it then would
 *   lose that flag and all descriptors of its batch.
 * - A core that stalls between reading `tail` and the exchange may get a flag of a later wrap. It then owns that batch, so `tail` cannot move
 *   over it, and the `tail` that it reads now is less than a ring away and shows whether it is at the batch. If not, the core puts the flag back.
 *   Then, after a full fence, it looks at `tail` again: `tail` may have reached the batch while the flag was away, and the other cores,
 *   which found no flag, may all halt.
 * - `tail` is read with acquire by the core that advances it, and written with release. The doorbell, which is rung just before, therefore
 *   never moves back, and with a batch the NIC sees all earlier ones. A doorbell rung afterwards could carry a stalled core's old value.
 * - Halting: a core that halts until a descriptor is filled first determines which one (corec_halt_place()), then arms the processor for that
 *   line and reads DD, and then asks whether it may halt (corec_may_halt()): another core may have taken the descriptor before the line
 *   was armed, so that the next frame comes to another one. DD is cleared after a release fence, so a core that reads DD as clear and then executes
 *   an acquire fence knows of the reservation. A descriptor that is taken later was filled after arming, which ends the halt.
 *   All cores may halt at once, so that no later poll finds a flag that was set too early: corec_halt_place() tries once more, after a full
 *   fence. Of two cores, one with its flag written and one with TAIL, one then sees both.
 * - No ABA problem: a count has 64 bits. With 32 bits a poll that stalls for 2^32 descriptors (107 s at 40 Mpps) would suffice.
 */
#ifndef COREC_PROTOCOL_H
#define COREC_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

/* A file with other atomics defines them first, and this guard. */
#ifndef COREC_ATOMICS_H
#include "corec_atomics.h"
#endif

/*
 * Variants that the checks build to see them fail; the driver defines none.
 *   COREC_UNBOUNDED    a reservation is not bounded by TAIL
 *   COREC_LATE_CLEAR   flags are read, and cleared after TAIL has moved
 *   COREC_SPARE_BITS   this many of a count's 64 bits are missing
 *   COREC_BLIND_HALT   a core halts without asking whether the descriptor has been taken
 *   COREC_HASTY_HALT   a core halts without trying to advance TAIL before
 */
#ifndef COREC_SPARE_BITS
#define COREC_SPARE_BITS 0
#endif

/* The parts of a poll are inlined, so that `how` is a constant where the hooks are compiled. */
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
 * Grouped by writer: fields that polls only read, then `taken`, which every reservation writes. The core that advances TAIL writes `tail` just
 * after it has rung the doorbell, so `tail` lies best in the doorbell's line.
 */
struct corec_queue {
	corec_u16 *
	        done; /* completion flags by place: descriptors of the batch that begins there and is done, or 0 */
	corec_u64 *tail;                            /* descriptors posted since start */
	uint32_t mask;                              /* size - 1 */
	alignas(COREC_APART_BYTES) corec_u64 taken; /* descriptors reserved since start */
};

/*
 * Before it includes this file, the includer defines the types corec_frame (what a poll delivers) and corec_how (what its corec_swap() needs to
 * know). It also defines these hooks.
 */

/*
 * Returns how many of n descriptors side by side, from the one at `place` on, are filled, until one is not. Reads DD with acquire. May return
 * fewer.
 */
static inline uint32_t corec_filled(const struct corec_queue *q, uint32_t place, uint32_t n);

/* Puts up to n buffers into the array; returns how many. */
static inline uint32_t corec_get_buffers(struct corec_queue *q, corec_frame *buffers, uint32_t n);

/* Takes the buffers back after a lost reservation, and counts the loss. */
static inline void corec_give_back(struct corec_queue *q, corec_frame *buffers, uint32_t n);

/*
 * Swaps n descriptors side by side: their frames go into the array, and the array's buffers into the descriptors. Clears DD after a release
 * fence.
 */
static inline void corec_swap(struct corec_queue *q, uint32_t place, corec_frame *frames, uint32_t n,
                              corec_how how);

/* Writes TAIL for the NIC, with release. */
static inline void corec_ring_doorbell(struct corec_queue *q, uint64_t tail);

/* Returns how many of n descriptors from `place` on lie before the ring's end. */
static inline uint32_t corec_before_end(const struct corec_queue *q, uint32_t place, uint32_t n)
{
	return n < q->mask + 1 - place ? n : q->mask + 1 - place;
}

/* Returns how many filled descriptors, at most `most`, can be reserved from *first on. */
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
	/* A core that stalled after it had read `taken` may see more credits than the ring has places. It will lose the race. */
	return found + corec_filled(q, 0, corec_before_end(q, 0, most - here));
}

static inline bool corec_reserve(struct corec_queue *q, uint64_t first, uint32_t n)
{
	return corec_compare_exchange_relaxed(&q->taken, first, corec_later(first, n));
}

/* Gives the batch at TAIL back to the NIC. */
static inline void corec_advance_tail(struct corec_queue *q, uint64_t tail, uint32_t n)
{
	tail = corec_later(tail, n);
	corec_ring_doorbell(q, tail);
	corec_store_release(q->tail, tail);
}

/* Clears a completion flag and returns its batch's size; 0: it is not set, or another core cleared it. */
static inline uint32_t corec_clear_flag(corec_u16 *flag)
{
	if (corec_load_relaxed(flag) == 0)
		return 0;
#ifndef COREC_LATE_CLEAR
	return corec_exchange_acquire(flag, 0);
#else
	return corec_load_acquire(flag);
#endif
}

/* Advances TAIL over batches whose completion flag is set. */
static inline void corec_return(struct corec_queue *q)
{
	uint64_t tail = corec_load_acquire(q->tail), now;
	corec_u16 *flag;
	uint32_t n;

	while ((n = corec_clear_flag(flag = &q->done[tail & q->mask])) != 0) {
		now = corec_load_acquire(q->tail);
		if (((now ^ tail) & q->mask) != 0) {
			corec_store_release(flag, (uint16_t)n);
			corec_fence_full();
			tail = corec_load_acquire(q->tail);
			continue;
		}
		corec_advance_tail(q, now, n);
		tail = corec_later(now, n);
#ifdef COREC_LATE_CLEAR
		corec_store_relaxed(flag, 0);
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
	if (!corec_reserve(q, first, n)) {
		corec_give_back(q, frames, n);
		return 0;
	}
	corec_swap_batch(q, (uint32_t)first & q->mask, frames, n, how);
	tail = corec_load_acquire(q->tail);
	if (tail == corec_later(first, q->mask + 1))
		corec_advance_tail(q, tail, n);
	else
		corec_store_release(&q->done[first & q->mask], (uint16_t)n);
	return n;
}

/* Polls for up to `most` frames. Returns 0 if there was no frame or no free buffer, or if another core won the race. */
COREC_INLINE uint32_t corec_poll(struct corec_queue *q, corec_frame *frames, uint32_t most, corec_how how)
{
	const uint32_t n = corec_take(q, frames, most, how);

	corec_return(q);
	return n;
}

/* Returns the place of the descriptor that the next frame comes to, for a core that is going to halt until it is filled. */
static inline uint32_t corec_halt_place(struct corec_queue *q)
{
#ifndef COREC_HASTY_HALT
	corec_fence_full();
	corec_return(q);
#endif
	return (uint32_t)corec_load_relaxed(&q->taken) & q->mask;
}

/* Returns whether the core may halt. Call it after arming the line and reading DD as clear. */
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
