/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doorbells and ready sets in memory: the state that producers and consumers of many queues share (HyperPlane, MICRO'20, sections III and IV).
 * qwait.h is the interface; this file says how it works, and why no arrival is lost.
 *
 * A queue is in one of three states.
 *   armed   its doorbell's `armed` is 1. The next producer that sees this takes the arming and activates the queue.
 *   ready   its bit in the ready set is 1. The waiter that takes the bit serves the queue.
 *   served  neither. A producer only counts; the waiter that serves the queue looks again before it arms it.
 *
 * The ready set has a bit per queue, in words (leaves), and a summary word with a bit per leaf. Finding the next queue from any place takes at most
 * two counts of trailing zeros and reads two leaves. A bit of the summary may be stale: it is cleared when a look finds its leaf empty, not
 * when the leaf becomes empty, because a queue that is served is usually activated again soon. It is never cleared
 * where no waiter needs that (`lowers` is false: all leaves lie in two lines, and their only waiter reads these before
 * it waits). The summary then says which leaves are in use, and its line is not written any more.
 *
 * Why nothing is lost. All accesses below are sequentially consistent (SC), so there is one order of them all; "<" means before in it. On x86 only
 * the stores and the read-modify-writes cost something for this, and each of these is needed as a store-load barrier:
 * - Arrival against arming. Producer: count (or set DD), then load `armed`. Consumer: exchange `armed`, then look whether the queue is empty.
 *   Without a full barrier between store and load both could pass each other: the consumer would sleep on a queue that has an item, and
 *   no producer would notify it. By SC, either the producer sees the arming, or the consumer sees the item. If both,
 * the exchange of `armed`
 *   decides which of them activates the queue; the other one does nothing.
 *   A queue's only producer may leave out barrier and load, and exchange at once (qwait_disarm_at_once()): of the two exchanges one
 *   reads what the other wrote. If the producer's reads the 1, it activates. If the consumer's reads the producer's 0, it synchronises with it,
 *   and its look sees the item. Acquire and release suffice for that. This costs less where only this producer writes the doorbell's line;
 *   several producers would take the line from each other at each ring.
 * - Leaf against summary. Producer: set the bit in the leaf, then load the summary and set its bit if it is 0 (without the load if the leaf
 *   was empty: setting a bit that is set changes nothing). Consumer that found a leaf empty: clear the bit of the summary, then load the leaf
 *   again, and set the bit if the leaf is not empty. If the producer saw the summary's bit set: leaf set < summary loaded < summary
 *   cleared < leaf loaded again, so the consumer sees the queue. If it did not, it sets the bit itself. Where bits of the summary are
 *   never cleared there is no race.
 * - Activation against sleep. Consumer: count itself in `sleepers`, then look at the leaves. Producer: set the bit, then load `sleepers`. The same
 *   pattern: the consumer does not sleep, or the producer wakes it. The summary would not do: between clearing a bit of it and setting it
 *   again, another waiter shows it clear beside a ready queue, and that waiter, if it is a thief, need not come back.
 * - A look at the leaves themselves (qwait_bitmap_look()) is a hint for the next take, which loads the named leaf and takes its bits by the
 *   same exchange. It does not change the summary: a bit that the producer of an already taken queue sets later is stale like others.
 *   A waiter that finds nothing in that leaf reads the summary, so a wrong hint costs a look and loses nothing.
 * - Several waiters of one set. The next waiter to serve a queue sees what the first one did with it (its descriptors' position, for example):
 *   the first one arms the queue or activates it, and from its exchange or bit to the next waiter's taking of the bit every step is a
 *   read-modify-write of what the previous step wrote. The bit goes to one waiter, and an armed queue is never ready or served. So no two
 *   waiters serve a queue at once, and a queue's batches come in order if the waiter arms it after the processing.
 * - Stealing is nothing more: a thief is a further waiter of another's set. No waiter depends on it: the set's own waiters find everything in it,
 *   and a core that sleeps on its own set is not woken for another.
 * - Removal takes the queue as a waiter would: out of the armed state, the ready set, or the place where a disabled queue is kept. If it is in none of
 *   them, a waiter serves it or a producer is activating it, and removal fails. Afterwards a late producer finds the doorbell not armed.
 * - Events (qwait_events) need none of these barriers. A set's only producer writes the number of each queue that it filled, after DD,
 *   whatever the queue's state; the only waiter sets these queues' bits itself. An event is stored with release and loaded with acquire, so
 *   the waiter that reads it sees the item: its busy poll takes it, if an earlier one has not. No load follows a store, so nothing can
 *   pass. No barrier, and no line but the event's, which holds 16 of them, goes to the other core. A slot is written again only after `read`,
 *   which is stored with release after the reading and loaded with acquire, says so; the parity of a slot's wrap says whether it is new. If all
 *   slots are unread, the producer rings the doorbell, which the waiter arms in any case. A sleeping waiter would have to be looked for after
 *   the event, with a barrier: so events are for waiters that pause. A queue whose bit is set needs no second one: only the waiter clears it, and
 *   its poll follows. Nor does an armed queue need arming again, or the look after that (qwait_is_armed()): only a ringing producer takes an
 *   arming, and then sets the bit; and the poll that follows from that bit sees that the arming is gone.
 * apps/tests/qwait_relacy.cc checks these in all schedules of a small world.
 *
 * There is no false sharing in the paper's sense (a write beside a doorbell that makes its queue ready): an activation names a queue. A queue may
 * still be returned empty, if its items went with an earlier batch while the producer was about to ring. qwait_verify() filters such wake-ups
 * and counts them (qwait_waiter.spurious).
 */
#ifndef QWAIT_PROTOCOL_H
#define QWAIT_PROTOCOL_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "qwait_atomics.h"

#ifndef QWAIT_LEAF_LOG2 /* for a test: smaller words */
#define QWAIT_LEAF_LOG2 6
#endif
#define QWAIT_LEAF_QUEUES (1u << QWAIT_LEAF_LOG2)
#define QWAIT_LEAVES      QWAIT_LEAF_QUEUES
#define QWAIT_QUEUES_MAX  (QWAIT_LEAVES * QWAIT_LEAF_QUEUES) /* 4096 */
#ifndef QWAIT_EVENTS                                         /* for a test: fewer. A power of two */
#define QWAIT_EVENTS 1024u
#endif
#define QWAIT_NONE       UINT32_MAX
#define QWAIT_LINE_BYTES 64

struct qwait_bitmap {
	alignas(QWAIT_LINE_BYTES) qwait_u64 summary;
	qwait_u32 sleepers; /* waiters that sleep; in the line that an activation touches anyway */
	alignas(QWAIT_LINE_BYTES) qwait_u64 leaves[QWAIT_LEAVES];
};

/*
 * The doorbell of one queue has a line of its own, or one queue's arming would take the line from another's producer. A second line says whose
 * doorbell it is: a producer that writes events reads only that one.
 */
struct qwait_doorbell {
	alignas(QWAIT_LINE_BYTES) qwait_u32 armed;
	qwait_u32
	        rung; /* items ever rung, less those taken before the last removal; only with qwait_ring() */
	alignas(QWAIT_LINE_BYTES) uint32_t qid;
	struct qwait *set;           /* NULL: free */
	struct qwait_events *events; /* of the set; NULL: it takes none */
};

/* From a set's only producer to its only waiter; each writes a line of its own beside the slots. */
struct qwait_events {
	alignas(QWAIT_LINE_BYTES) qwait_u32 slots[QWAIT_EVENTS]; /* a queue's number and its wrap's parity */
	alignas(QWAIT_LINE_BYTES) uint32_t posted;               /* by the producer, as the next */
	uint32_t seen_read;                                      /* `read`, when it looked last */
	alignas(QWAIT_LINE_BYTES) uint32_t next;                 /* by the waiter, as the next */
	qwait_u32 read;                                          /* slots before it may be written again */
};

static inline uint64_t qwait_bit(uint32_t at)
{
	return UINT64_C(1) << (at & (QWAIT_LEAF_QUEUES - 1));
}

static inline uint32_t qwait_first(uint64_t bits)
{
	return (uint32_t)__builtin_ctzll(bits);
}

/* Returns whether some queue may be ready; qwait_bitmap_take() says which, or that the bit was stale. */
static inline bool qwait_bitmap_any(struct qwait_bitmap *ready)
{
	return qwait_load(&ready->summary) != 0;
}

/* Makes the queue ready. `lowers`: as the waiters of this set pass it to qwait_bitmap_take(). */
static inline void qwait_bitmap_set(struct qwait_bitmap *ready, uint32_t qid, bool lowers)
{
	const uint32_t leaf = qid >> QWAIT_LEAF_LOG2;

	/* The compiler reads the word first to return its old value; fetch the line for writing, or it is requested twice. */
	qwait_will_write(&ready->leaves[leaf]);
	const uint64_t was = qwait_fetch_or(&ready->leaves[leaf], qwait_bit(qid));

	/*
	 * Where bits are lowered, the bit is usually clear if the leaf was empty: a look at it would only fetch its line once more. Where they are
	 * not, the bit is set, and its line stays shared by all cores.
	 */
	if ((lowers && was == 0) || !(qwait_load(&ready->summary) & qwait_bit(leaf)))
		qwait_fetch_or(&ready->summary, qwait_bit(leaf));
}

/* Clears the summary's bit of a leaf that a look found empty. */
static inline void qwait_bitmap_lower(struct qwait_bitmap *ready, uint32_t leaf)
{
	qwait_fetch_and(&ready->summary, ~qwait_bit(leaf));
#ifndef QWAIT_NO_SECOND_LOOK /* for a test: the arrival between look and clearing is lost */
	if (qwait_load(&ready->leaves[leaf]) != 0)
		qwait_fetch_or(&ready->summary, qwait_bit(leaf));
#endif
}

/*
 * Returns the first leaf that has a ready queue, as a bit of the summary; 0: none has. A hint, not an order: qwait_bitmap_take() looks again. A waiter
 * beside a running producer looks here, because the leaf shows a queue one or two line transfers earlier than the summary.
 */
static inline uint64_t qwait_bitmap_look(struct qwait_bitmap *ready, uint32_t leaves)
{
	for (uint32_t leaf = 0; leaf < leaves; leaf++)
		if (qwait_load(&ready->leaves[leaf]) != 0)
			return qwait_bit(leaf);
	return 0;
}

/*
 * Returns the bits of the first leaf with a ready queue at or after `from`, going round, and its number; 0: none is ready. `seen`: leaves in which a
 * look found something; 0: read the summary. `lowers`: clear the summary's bits of empty leaves.
 */
static inline uint64_t qwait_bitmap_find(struct qwait_bitmap *ready, uint32_t from, uint64_t seen,
                                         bool lowers, uint32_t *leaf)
{
	*leaf = from >> QWAIT_LEAF_LOG2;
	uint64_t bits =
	        qwait_load(&ready->leaves[*leaf]) & (~UINT64_C(0) << (from & (QWAIT_LEAF_QUEUES - 1)));
	uint64_t empty = 0; /* leaves whose bits stay in the summary */

	while (bits == 0) {
		const uint64_t summary = seen ? seen : qwait_load(&ready->summary) & ~empty;
		/* two shifts: one by all bits of a word is not defined */
		const uint64_t behind = summary & (~UINT64_C(0) << (from >> QWAIT_LEAF_LOG2) << 1);

		if (summary == 0)
			return 0;
		*leaf = qwait_first(behind ? behind : summary);
		bits = qwait_load(&ready->leaves[*leaf]);
		if (bits == 0 && !lowers)
			empty |= qwait_bit(*leaf);
		else if (bits == 0 && !seen)
			qwait_bitmap_lower(ready, *leaf);
		seen = 0;
	}
	return bits;
}

/*
 * Takes the first ready queue at or after `from`, going round; QWAIT_NONE: none is ready. Several waiters may take at once: each bit goes to one of
 * them.
 */
static inline uint32_t qwait_bitmap_take(struct qwait_bitmap *ready, uint32_t from, uint64_t seen,
                                         bool lowers)
{
	uint32_t leaf;

	for (;; seen = 0) {
		const uint64_t bits = qwait_bitmap_find(ready, from, seen, lowers, &leaf);

		if (bits == 0)
			return QWAIT_NONE;
		const uint32_t at = qwait_first(bits);

		if (qwait_fetch_and(&ready->leaves[leaf], ~qwait_bit(at)) & qwait_bit(at))
			return (leaf << QWAIT_LEAF_LOG2) + at;
	}
}

/* Takes this queue; false: it is not ready, or another waiter took it. */
static inline bool qwait_bitmap_take_one(struct qwait_bitmap *ready, uint32_t qid)
{
	return qwait_fetch_and(&ready->leaves[qid >> QWAIT_LEAF_LOG2], ~qwait_bit(qid)) & qwait_bit(qid);
}

/*
 * Takes all ready queues of the leaf that qwait_bitmap_find() finds, for a set's only waiter: the leaf's line, which producers write, moves once for as
 * many as 64 queues. Returns bits of *leaf; 0: none is ready.
 */
static inline uint64_t qwait_bitmap_take_leaf(struct qwait_bitmap *ready, uint32_t from, uint64_t seen,
                                              bool lowers, uint32_t *leaf)
{
	const uint64_t bits = qwait_bitmap_find(ready, from, seen, lowers, leaf);

	return bits ? qwait_fetch_and(&ready->leaves[*leaf], ~bits) & bits : 0;
}

/* Returns the parity of the wrap in which event number `at` lies; a slot that was never written has the other one. */
static inline uint32_t qwait_event_parity(uint32_t at)
{
	return ~(at / QWAIT_EVENTS) & 1;
}

/* Writes an event. Returns false if all slots are unread. */
static inline bool qwait_events_post(struct qwait_events *events, uint32_t qid)
{
	const uint32_t at = events->posted;

	if (__builtin_expect(at - events->seen_read == QWAIT_EVENTS, 0)) {
		events->seen_read = qwait_acquire(&events->read);
		if (at - events->seen_read == QWAIT_EVENTS)
			return false;
	}
	events->posted = at + 1;
	qwait_release(&events->slots[at % QWAIT_EVENTS], qid << 1 | qwait_event_parity(at));
	return true;
}

/* Reads the next event, if there is one. */
static inline bool qwait_events_look(struct qwait_events *events, uint32_t *qid)
{
	const uint32_t event = qwait_acquire(&events->slots[events->next % QWAIT_EVENTS]);

	*qid = event >> 1;
	return (event & 1) == qwait_event_parity(events->next);
}

/* Makes the queues of all events so far ready. Returns their leaves, as bits of the summary, as a hint for qwait_bitmap_take(); 0: there was no event. */
static inline uint64_t qwait_events_take(struct qwait_events *events, struct qwait_bitmap *ready, bool lowers)
{
	const uint32_t before = events->next;
	uint64_t seen = 0;

	for (uint32_t qid; events->next - before < QWAIT_EVENTS && qwait_events_look(events, &qid);
	     events->next++) {
		const uint32_t leaf = qid >> QWAIT_LEAF_LOG2;

		seen |= qwait_bit(leaf);
		if (!(qwait_peek(&ready->leaves[leaf]) & qwait_bit(qid)))
			qwait_bitmap_set(ready, qid, lowers);
	}
	if (seen)
		qwait_release(&events->read, events->next);
	return seen;
}

/* Arms the doorbell: the consumer waits for the next ring. It must look at the queue after this, see above. */
static inline void qwait_arm(struct qwait_doorbell *bell)
{
#ifdef QWAIT_ARM_BY_STORE /* for a test: a producer that rings at once is not heard */
	qwait_store(&bell->armed, 1);
#else
	qwait_exchange(&bell->armed, 1);
#endif
}

/* Returns whether the doorbell is armed, so that its waiter need not arm it: for sets that take events, in which an armed queue is polled as well. */
static inline bool qwait_is_armed(struct qwait_doorbell *bell)
{
	return qwait_peek(&bell->armed);
}

/* Takes the arming. Returns whether the doorbell was armed; then the caller activates the queue. */
static inline bool qwait_disarm(struct qwait_doorbell *bell)
{
	return qwait_load(&bell->armed) && qwait_exchange(&bell->armed, 0);
}

/* The same by the doorbell's only producer, without a barrier before. */
static inline bool qwait_disarm_at_once(struct qwait_doorbell *bell)
{
	return qwait_exchange(&bell->armed, 0);
}

#endif
