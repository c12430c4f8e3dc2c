/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doorbells and ready sets in memory: what producers and consumers of many queues share (HyperPlane, MICRO'20, sections III and
 * IV). qwait.h is the interface; this is how it works, and why no arrival is lost.
 *
 * A queue is in one of three states.
 *   armed   its doorbell's `armed` is 1. The next producer to see that takes the arming and activates the queue.
 *   ready   its bit in the ready set is 1. Whoever takes the bit serves the queue.
 *   served  neither. A producer only counts; whoever serves the queue looks again before it arms it.
 *
 * Ready set: a bit for each queue in words (leaves), and a summary word with a bit for each leaf. To find the next queue from
 * any place on takes at most two counts of trailing zeros and looks at two leaves. A leaf bit of the summary may be
 * stale: it is cleared when a look finds its leaf empty, not when the leaf becomes so, because a queue that is served is
 * mostly activated again soon. It is never cleared where nobody needs it (`lowers` is false: all leaves lie in two lines, and their only
 * waiter looks at these before it waits): then it says which leaves are in use, and its line is not written any more.
 *
 * Why nothing is lost. All accesses below are sequentially consistent (SC), so there is one order of them all; "<" is
 * before in it. On x86 only the stores and the read-modify-writes cost something by that, and each of these is needed as
 * a store-load barrier somewhere:
 * - Arrival against arming. Producer: count (or DD), then load `armed`. Consumer: exchange `armed`, then look whether the queue is
 *   empty. Without a full barrier between store and load both could pass each other: the consumer would sleep on a
 *   queue that has an item and nobody would say so. By SC, either the producer sees the arming, or the consumer sees the
 *   item. If both, the exchange of `armed` decides which of them activates the queue; the other one does nothing.
 *   A producer that alone rings the queue may leave out barrier and load, and exchange at once (qwait_disarm_at_once()): of the two
 *   exchanges one reads what the other wrote. If the producer's reads the 1, it activates. If the consumer's reads the 0 of the
 *   producer's, it synchronises with it, and its look sees the item. Acquire and release are enough for that. It
 *   costs less where only this producer writes the doorbell's line; several would take it from each other at each ring.
 * - Leaf against summary. Producer: set the bit in the leaf, then load the summary and set its bit if that is 0 (without a look
 *   where the leaf was empty: to set a bit that is set changes nothing). Consumer, when it
 *   found a leaf empty: clear the bit of the summary, then load the leaf again, and set the bit if the leaf is not empty.
 *   If the producer saw the summary's bit set: leaf set < summary loaded < summary cleared < leaf loaded again, so the
 *   consumer sees the queue. If it did not, it sets the bit itself. Where bits of the summary are never cleared there is nothing to
 *   race with.
 * - Activation against sleep. Consumer: count itself in `sleepers`, then look at the leaves. Producer: the bit, then load
 *   `sleepers`. The same pattern: the consumer does not sleep, or the producer wakes it. The summary would not do: between clearing a
 *   bit of it and setting it again, another waiter shows it clear beside a ready queue, and that waiter, if it is a thief, need not come back.
 * - A look at the leaves themselves (qwait_bitmap_look()) is a hint for the next take, which loads the leaf it names and takes its bits by
 *   the same exchange. It leaves the summary alone: a bit of it that is set later, by the producer of a queue that was taken already, is
 *   stale like others. Who finds nothing in that leaf asks the summary, so a wrong hint costs a look and loses nothing.
 * - One server after another, when several waiters have a set. What the first one did with the queue (its descriptors' place, say)
 *   is seen by the next one: the first arms the queue or activates it itself, and from its exchange or its bit to the next
 *   waiter's taking of the bit every step is a read-modify-write of what the step before wrote. The bit goes to one waiter, and
 *   an armed queue is never ready nor served; so no two serve a queue at once, and a queue's batches come in order if
 *   the waiter arms it behind the processing.
 * - Stealing is no more than that: who steals is a further waiter of another's set. It is nobody's duty: the set's own waiters
 *   find everything in it, and who sleeps on a set of its own is not woken for another.
 * - Events (qwait_events) need none of these barriers. The only producer of a set writes the number of each queue that it filled, behind
 *   DD, whatever the queue's state; the only waiter gives these queues their bits itself. An event is stored with release and
 *   loaded with acquire, so who reads it sees the item: the visit takes it, if an earlier one has not. Nothing is loaded
 *   behind a store, so nothing can pass. No barrier, and no line but the event's, which holds 16 of them, goes to the other
 *   core. A slot is written again only behind `read`, stored with release behind the reading and loaded with acquire; its lap's parity says
 *   whether it is new. When all slots are unread the producer rings the doorbell, which the waiter arms in any case. Somebody who sleeps
 *   would have to be looked for behind the event, with a barrier: so it is for waiters that pause. A queue whose bit is set already
 *   needs no second one: only the waiter clears it, and its visit comes behind that. Nor does an armed queue need arming again, or the
 *   look behind that (qwait_is_armed()): nobody but who rings takes an arming, and then sets the bit; and the visit that comes of that
 *   bit, behind it, sees that the arming is gone.
 * apps/tests/qwait_relacy.cc checks these in all schedules of a small world.
 *
 * There is no false sharing in the paper's sense, a write beside a doorbell that makes its queue ready: an activation names a
 * queue. A queue may still be returned empty, when its items went with an earlier batch while the producer
 * was about to ring: such wake-ups are filtered by verify, and counted (qwait_waiter.spurious).
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
	qwait_u32 sleepers; /* waiters that look at nothing; in the line that an activation touches anyway */
	alignas(QWAIT_LINE_BYTES) qwait_u64 leaves[QWAIT_LEAVES];
};

/*
 * Of one queue; a line of its own, or one queue's arming would take the line from another's producer. Another one says whose it is: who
 * writes events reads no more than that.
 */
struct qwait_doorbell {
	alignas(QWAIT_LINE_BYTES) qwait_u32 armed;
	qwait_u32
	        rung; /* items ever rung, less those taken before the last removal; only with qwait_ring() */
	alignas(QWAIT_LINE_BYTES) uint32_t qid;
	struct qwait *set;           /* NULL: free */
	struct qwait_events *events; /* of the set; NULL: it takes none */
};

/* What a set's only producer tells its only waiter; each writes a line of its own beside the slots. */
struct qwait_events {
	alignas(QWAIT_LINE_BYTES) qwait_u32 slots[QWAIT_EVENTS]; /* a queue's number and its lap's parity */
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

/* Some queue may be ready: take() says which, or that it was a stale bit. */
static inline bool qwait_bitmap_any(struct qwait_bitmap *ready)
{
	return qwait_load(&ready->summary) != 0;
}

/* `lowers`: what waiters of this set say to qwait_bitmap_take(). */
static inline void qwait_bitmap_set(struct qwait_bitmap *ready, uint32_t qid, bool lowers)
{
	const uint32_t leaf = qid >> QWAIT_LEAF_LOG2;

	/* who wants to know what was there reads first, and would have to ask for the line twice */
	qwait_will_write(&ready->leaves[leaf]);
	const uint64_t was = qwait_fetch_or(&ready->leaves[leaf], qwait_bit(qid));

	/*
	 * Where the bit is lowered it is clear, as a rule, when the leaf was empty: a look at it would only be one more way for its line.
	 * Where it is not it is set, and its line stays with everybody.
	 */
	if ((lowers && was == 0) || !(qwait_load(&ready->summary) & qwait_bit(leaf)))
		qwait_fetch_or(&ready->summary, qwait_bit(leaf));
}

/* A look found this leaf empty. */
static inline void qwait_bitmap_lower(struct qwait_bitmap *ready, uint32_t leaf)
{
	qwait_fetch_and(&ready->summary, ~qwait_bit(leaf));
#ifndef QWAIT_NO_SECOND_LOOK /* for a test: the arrival between look and clearing is lost */
	if (qwait_load(&ready->leaves[leaf]) != 0)
		qwait_fetch_or(&ready->summary, qwait_bit(leaf));
#endif
}

/*
 * The first of the leaves that has something, as a bit of the summary; 0: none of them. A hint, not an order: take() looks again. Who
 * waits beside a running producer looks here, and hears of a queue before the summary does: one line's way earlier, or two.
 */
static inline uint64_t qwait_bitmap_look(struct qwait_bitmap *ready, uint32_t leaves)
{
	for (uint32_t leaf = 0; leaf < leaves; leaf++)
		if (qwait_load(&ready->leaves[leaf]) != 0)
			return qwait_bit(leaf);
	return 0;
}

/*
 * The bits of the first leaf with a ready queue at or behind `from`, going round, and its number; 0: none is ready. `seen`: leaves that
 * a look found something in; 0: ask the summary. `lowers`: clear the summary's bits of empty leaves.
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
 * Takes the first ready queue at or behind `from`, going round; QWAIT_NONE: none is ready. Several may take at once: each bit
 * goes to one of them.
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

/* Takes this queue; false: it is not ready, or somebody else took it. */
static inline bool qwait_bitmap_take_one(struct qwait_bitmap *ready, uint32_t qid)
{
	return qwait_fetch_and(&ready->leaves[qid >> QWAIT_LEAF_LOG2], ~qwait_bit(qid)) & qwait_bit(qid);
}

/*
 * Takes all ready queues of that leaf, from there on, for a set's only waiter: the leaf's line, which producers write, goes
 * to and fro once for as many as 64 queues. Bits of *leaf; 0: none is ready.
 */
static inline uint64_t qwait_bitmap_take_leaf(struct qwait_bitmap *ready, uint32_t from, uint64_t seen,
                                              bool lowers, uint32_t *leaf)
{
	const uint64_t bits = qwait_bitmap_find(ready, from, seen, lowers, leaf);

	return bits ? qwait_fetch_and(&ready->leaves[*leaf], ~bits) & bits : 0;
}

/* The parity of the lap that event number `at` lies in; a slot that nobody has written yet has the other one. */
static inline uint32_t qwait_event_parity(uint32_t at)
{
	return ~(at / QWAIT_EVENTS) & 1;
}

/* False: all slots are unread. */
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

/* The next event, if there is one. */
static inline bool qwait_events_look(struct qwait_events *events, uint32_t *qid)
{
	const uint32_t event = qwait_acquire(&events->slots[events->next % QWAIT_EVENTS]);

	*qid = event >> 1;
	return (event & 1) == qwait_event_parity(events->next);
}

/* The queues of all events so far are ready. Their leaves, as bits of the summary: a hint for take(); 0: there was no event. */
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

/* The consumer waits for the next ring. It must look at the queue after this, see above. */
static inline void qwait_arm(struct qwait_doorbell *bell)
{
#ifdef QWAIT_ARM_BY_STORE /* for a test: who rings at once is not heard */
	qwait_store(&bell->armed, 1);
#else
	qwait_exchange(&bell->armed, 1);
#endif
}

/* Its waiter need not arm it: for sets that take events, in which a queue is served beside that. */
static inline bool qwait_is_armed(struct qwait_doorbell *bell)
{
	return qwait_peek(&bell->armed);
}

/* True: the bell was armed, and whoever called this activates the queue. */
static inline bool qwait_disarm(struct qwait_doorbell *bell)
{
	return qwait_load(&bell->armed) && qwait_exchange(&bell->armed, 0);
}

/* The same by the bell's only producer, without a barrier in front. */
static inline bool qwait_disarm_at_once(struct qwait_doorbell *bell)
{
	return qwait_exchange(&bell->armed, 0);
}

#endif
