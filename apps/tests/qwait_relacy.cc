/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qwait_protocol.h under Relacy (Debian's relacy-dev), C11 memory orders; corec_relacy.cc describes the tool. QUEUES queues have doorbells,
 * PRODUCERS ring them, CONSUMERS do what qwait.h prescribes. Leaves have 2 bits, so that two queues of four share one and the summary is in use.
 *
 * Variants:
 *   SETS=2         each consumer has its own set, of every second queue, and steals from the other's when its own is empty
 *   ONE_WAITER     a consumer takes all ready queues of a leaf at once
 *   LOOKS          a consumer looks at the leaves first, as a waiter that pauses does
 *   LOWERS=false   the summary's bits stay set
 *   AT_ONCE        the only producer rings without a barrier of its own, and with nothing stronger than acquire and release
 *   EVENTS=n       the only producer writes n event slots for the only waiter, and rings as with AT_ONCE when all are unread; the waiter does not sleep
 *   ONE_SET        all arrivals go to queues of the second set, whose summary is stale at first
 *
 * A producer's arrivals go to its queues in turn. A consumer serves one item at a time, and sleeps when nothing is ready. The count of taken items
 * is no atomic: two consumers that serve one queue at once would be a data race. After all threads have ended, a queue with items must be ready, in leaf
 * and summary; and if all consumers of a set sleep, there must be a wake-up for one. This is what "no lost wake-up" means.
 *
 * With -DQWAIT_WEAK atomics are acquire and release only, as if x86 had no barrier: later loads may then pass stores. With -DQWAIT_EVENTS_RELAXED
 * events are relaxed.
 *
 * usage: tests-qwait-relacy preemptions N     all schedules with at most N preemptions
 *        tests-qwait-relacy random N          N schedules
 * exit codes: 0 nothing found, 1 found (printed on standard output)
 */
#include <stdint.h>

#include "relacy_explore.hpp"

#define QWAIT_ATOMICS_H
typedef rl::atomic<uint64_t> qwait_u64;
typedef rl::atomic<uint32_t> qwait_u32;
typedef rl::var<int> plain_int;

#ifndef QWAIT_WEAK
#define TO_LOAD   rl::mo_seq_cst
#define TO_STORE  rl::mo_seq_cst
#define TO_CHANGE rl::mo_seq_cst
#else
#define TO_LOAD   rl::mo_acquire
#define TO_STORE  rl::mo_release
#define TO_CHANGE rl::mo_acq_rel
#endif

#define qwait_will_write(at)      ((void)(at))
#define qwait_load(at)            ((*(at))($).load(TO_LOAD))
#define qwait_peek(at)            ((*(at))($).load(rl::mo_relaxed))
#ifndef QWAIT_EVENTS_RELAXED
#define qwait_acquire(at)        ((*(at))($).load(rl::mo_acquire))
#define qwait_release(at, value) ((*(at))($).store(value, rl::mo_release))
#else
#define qwait_acquire(at)        qwait_peek(at)
#define qwait_release(at, value) ((*(at))($).store(value, rl::mo_relaxed))
#endif
#define qwait_store(at, value)    ((*(at))($).store(value, TO_STORE))
#define qwait_exchange(at, value) ((*(at))($).exchange(value, TO_CHANGE))
#define qwait_fetch_add(at, n)    ((*(at))($).fetch_add(n, TO_CHANGE))
/* AT_ONCE, EVENTS: weaker than DD's release, which marks an item in the driver. A stronger order would hide a missing barrier. */
#define weak_fetch_add(at, n) ((*(at))($).fetch_add(n, rl::mo_relaxed))
#define plain_get(x)          ((int)VAR(x))
#define plain_set(x, value)   (VAR(x) = (value))
#define WRONG(text)           RL_ASSERT(!text)

/* Relacy has no atomic bits. */
static inline uint64_t qwait_fetch_or(qwait_u64 *at, uint64_t bits)
{
	uint64_t was = qwait_load(at);

	while (!(*at)($).compare_exchange_strong(was, was | bits, TO_CHANGE))
		;
	return was;
}

static inline uint64_t qwait_fetch_and(qwait_u64 *at, uint64_t bits)
{
	uint64_t was = qwait_load(at);

	while (!(*at)($).compare_exchange_strong(was, was & bits, TO_CHANGE))
		;
	return was;
}

#define QWAIT_LEAF_LOG2 1

#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef ARRIVALS
#define ARRIVALS 4 /* of each producer */
#endif
#ifndef TURNS
#define TURNS 8 /* of each consumer */
#endif
#ifndef CONSUMERS
#define CONSUMERS 1
#endif

#ifndef SETS
#define SETS 1
#endif

#ifndef LOWERS
#define LOWERS true
#endif

#ifdef EVENTS
#define QWAIT_EVENTS EVENTS
#endif

#define QUEUES 4

#include "../qwait/qwait_protocol.h"

struct model {
	struct qwait_bitmap ready[SETS];
	struct qwait_doorbell bells[QUEUES];
#ifdef EVENTS
	struct qwait_events events;
#endif
	qwait_u32 wake_ups[SETS]; /* the eventfds */
	plain_int taken[QUEUES];
	uint32_t from[CONSUMERS][SETS];
	uint64_t held; /* ONE_WAITER */
	uint32_t leaf;
	bool sleeps[CONSUMERS];
};

/* Returns the set of queue q; the queue's number there is q / SETS. */
static uint32_t set_of(uint32_t queue)
{
	return queue % SETS;
}

/* Producers 0 and 1: queues 0 and 3, 1 and 3. */
static uint32_t queue_of(int producer, int arrival)
{
#ifdef ONE_SET
	producer = 1;
#endif
	return arrival % 2 == 0 ? (uint32_t)producer : QUEUES - 1;
}

static void model_begin(struct model *m)
{
	for (uint32_t s = 0; s < SETS; s++) {
		qwait_store(&m->ready[s].summary, 0);
		qwait_store(&m->ready[s].sleepers, 0);
		qwait_store(&m->wake_ups[s], 0);
		for (uint32_t i = 0; i < QWAIT_LEAVES; i++)
			qwait_store(&m->ready[s].leaves[i], 0);
	}
#ifdef EVENTS
	m->events.posted = m->events.seen_read = m->events.next = 0;
	qwait_store(&m->events.read, 0);
	for (uint32_t i = 0; i < QWAIT_EVENTS; i++)
		qwait_store(&m->events.slots[i], 0);
#endif
	m->held = 0;
	m->leaf = 0;
	for (uint32_t q = 0; q < QUEUES; q++) {
		qwait_store(&m->bells[q].armed, 1);
		qwait_store(&m->bells[q].rung, 0);
		plain_set(m->taken[q], 0);
	}
	for (int c = 0; c < CONSUMERS; c++) {
		for (uint32_t s = 0; s < SETS; s++)
			m->from[c][s] = 0;
		m->sleeps[c] = false;
	}
#ifdef ONE_SET
	qwait_store(&m->ready[1].summary, 1);
#endif
}

/* qwait_activate() */
static void activate(struct model *m, uint32_t queue)
{
	struct qwait_bitmap *ready = &m->ready[set_of(queue)];

	qwait_bitmap_set(ready, queue / SETS, LOWERS);
	if (qwait_load(&ready->sleepers) != 0)
		qwait_fetch_add(&m->wake_ups[set_of(queue)], 1);
}

static uint32_t items(struct model *m, uint32_t queue)
{
	return qwait_load(&m->bells[queue].rung) - (uint32_t)plain_get(m->taken[queue]);
}

/* qwait_ring(); AT_ONCE: DD, and qwait_notify_at_once(); EVENTS: DD, and qwait_post() before that */
static void model_arrive(struct model *m, int producer, int arrival)
{
	const uint32_t queue = queue_of(producer, arrival);

#if defined(EVENTS)
#ifdef QWAIT_EVENT_FIRST /* for a test: the waiter reads it and finds nothing */
	const bool posted = qwait_events_post(&m->events, queue);

	weak_fetch_add(&m->bells[queue].rung, 1);
#else
	weak_fetch_add(&m->bells[queue].rung, 1);
	const bool posted = qwait_events_post(&m->events, queue);
#endif
#ifdef QWAIT_EVENTS_ONLY /* for a test: an arrival without a slot is lost */
	if (false)
#else
	if (!posted && qwait_disarm_at_once(&m->bells[queue]))
#endif
#elif defined(AT_ONCE)
	weak_fetch_add(&m->bells[queue].rung, 1);
	if (qwait_disarm_at_once(&m->bells[queue]))
#else
	qwait_fetch_add(&m->bells[queue].rung, 1);
	if (qwait_disarm(&m->bells[queue]))
#endif
		activate(m, queue);
}

/* qwait_arm_and_look() */
static bool arm_and_look(struct model *m, uint32_t queue)
{
	const uint32_t taken = (uint32_t)plain_get(m->taken[queue]);

#ifdef EVENTS
	if (qwait_is_armed(&m->bells[queue]))
		return false;
#endif
	qwait_arm(&m->bells[queue]);
#ifndef QWAIT_NO_LOOK /* for a test: an arrival between look and arming is lost */
	return qwait_load(&m->bells[queue].rung) != taken && qwait_disarm(&m->bells[queue]);
#else
	(void)taken;
	return false;
#endif
}

/* qwait_verify() */
static bool verify(struct model *m, uint32_t queue)
{
#ifdef QWAIT_NO_VERIFY /* for a test */
	return items(m, queue) != 0;
#else
	return items(m, queue) != 0 || arm_and_look(m, queue);
#endif
}

/* qwait_reconsider() */
static void reconsider(struct model *m, uint32_t queue)
{
#ifndef QWAIT_NO_RECONSIDER /* for a test */
	if (items(m, queue) != 0 || arm_and_look(m, queue))
		activate(m, queue);
#else
	(void)m, (void)queue;
#endif
}

/* qwait_look() */
static uint64_t look(struct model *m, uint32_t s)
{
#ifdef EVENTS
	const uint64_t seen = qwait_events_take(&m->events, &m->ready[s], LOWERS);

	if (seen)
		return seen;
#endif
	return qwait_bitmap_look(&m->ready[s], QUEUES / SETS / QWAIT_LEAF_QUEUES);
}

/* qwait_take() of set s. Returns a number in the set. */
static uint32_t take(struct model *m, int consumer, uint32_t s)
{
#ifdef LOOKS
	const uint64_t seen = look(m, s);
#else
	const uint64_t seen = 0;
#endif

#ifdef ONE_WAITER
	if (m->held == 0)
		m->held = qwait_bitmap_take_leaf(&m->ready[s], m->from[consumer][s], seen, LOWERS, &m->leaf);
#ifdef EVENTS /* qwait_hold(); now and then it takes them first, as LOOKS does each time */
	const uint64_t by_events = m->held == 0 ? qwait_events_take(&m->events, &m->ready[s], LOWERS) : 0;

	if (by_events)
		m->held = qwait_bitmap_take_leaf(&m->ready[s], m->from[consumer][s], by_events, LOWERS,
		                                 &m->leaf);
#endif
	if (m->held == 0)
		return QWAIT_NONE;
	const uint32_t at = qwait_first(m->held);

	m->held &= m->held - 1;
	return (m->leaf << QWAIT_LEAF_LOG2) + at;
#else
	return qwait_bitmap_take(&m->ready[s], m->from[consumer][s], seen, LOWERS);
#endif
}

/* qwait_next() of its own set, qwait_steal() of the other one */
static uint32_t next_or_steal(struct model *m, int consumer)
{
	for (uint32_t i = 0; i < SETS; i++) {
		const uint32_t s = ((uint32_t)consumer + i) % SETS;

		if (i > 0 && !qwait_bitmap_any(&m->ready[s]))
			continue;
		const uint32_t number = take(m, consumer, s);

		if (number == QWAIT_NONE)
			continue;
		m->from[consumer][s] = (number + 1) % (QUEUES / SETS);
		return number * SETS + s;
	}
	return QWAIT_NONE;
}

/* Runs one iteration of a consumer's loop. Returns false if it sleeps. */
static bool model_serve(struct model *m, int consumer)
{
	const uint32_t queue = next_or_steal(m, consumer);

#ifdef EVENTS
	if (queue == QWAIT_NONE)
		return true;
#endif
	if (queue == QWAIT_NONE) {
		struct qwait_bitmap *own = &m->ready[consumer % SETS];

		qwait_fetch_add(&own->sleepers, 1);
#ifdef QWAIT_SLEEP_BY_SUMMARY /* for a test: a thief may have cleared it for a moment */
		const bool any = qwait_bitmap_any(own);
#elif defined(QWAIT_SLEEP_BLINDLY) /* for a test: nobody rings for items that came before */
		const bool any = false;
#else
		const bool any = look(m, (uint32_t)consumer % SETS) != 0;
#endif
		if (any) {
			qwait_fetch_add(&own->sleepers, (uint32_t)-1);
			return true;
		}
		m->sleeps[consumer] = true;
		return false;
	}
	if (!verify(m, queue))
		return true;
	plain_set(m->taken[queue], plain_get(m->taken[queue]) + 1);
	reconsider(m, queue);
	return true;
}

static bool is_ready(struct model *m, uint32_t queue)
{
	struct qwait_bitmap *ready = &m->ready[set_of(queue)];
	const uint32_t number = queue / SETS, leaf = number >> QWAIT_LEAF_LOG2;

	if (m->leaf == leaf && (m->held & qwait_bit(number)))
		return true;
	return (qwait_load(&ready->leaves[leaf]) & qwait_bit(number)) &&
	       (qwait_load(&ready->summary) & qwait_bit(leaf));
}

/* Checks the world after all threads have ended. */
static void model_end(struct model *m)
{
	uint32_t left[SETS] = {0};

#ifdef EVENTS /* as its waiter would find them next */
	qwait_events_take(&m->events, &m->ready[0], LOWERS);
#endif
	for (uint32_t q = 0; q < QUEUES; q++) {
		if (items(m, q) > PRODUCERS * ARRIVALS)
			WRONG("an item was served that never came");
		if (items(m, q) != 0 && !is_ready(m, q))
			WRONG("a queue has items and is not ready: its arrival is lost");
		left[set_of(q)] += items(m, q);
	}
	for (uint32_t s = 0; s < SETS; s++) {
		bool all_sleep = true;

		for (int c = (int)s; c < CONSUMERS; c += SETS)
			all_sleep = all_sleep && m->sleeps[c];
		if (all_sleep && left[s] != 0 && qwait_load(&m->wake_ups[s]) == 0)
			WRONG("all consumers sleep beside a queue with items");
	}
}

struct suite : rl::test_suite<suite, PRODUCERS + CONSUMERS> {
	model world;

	void before()
	{
		model_begin(&world);
	}

	void thread(unsigned int index)
	{
		if (index < PRODUCERS)
			for (int i = 0; i < ARRIVALS; i++)
				model_arrive(&world, (int)index, i);
		else
			for (int i = 0; i < TURNS && model_serve(&world, (int)index - PRODUCERS); i++)
				;
	}

	void after()
	{
		model_end(&world);
	}
};

int main(int argc, char **argv)
{
	return explore<suite>(argc, argv);
}
