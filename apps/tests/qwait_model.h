/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small world round qwait_protocol.h for the model check: QUEUES queues with doorbells, PRODUCERS that ring them, CONSUMERS that
 * do what qwait.h tells consumers to do. Leaves have 2 bits, so that two queues of four share one and the summary is at work.
 *
 * A producer's arrivals go to its queues in turn. A consumer serves what it is given one item at a time, and sleeps when nothing is ready.
 * What was taken of a queue is no atomic: two that served one queue at once would be a data race. When all threads are
 * through, a queue with items must be ready, in leaf and summary; and if all consumers sleep there must be a wake-up for one. That
 * is what "no lost wake-up" means.
 *
 * The includer defines the atomics of qwait_atomics.h, plain_int with plain_get() and plain_set(), and WRONG(text).
 */
#ifndef QWAIT_MODEL_H
#define QWAIT_MODEL_H

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

#define QUEUES 4

#include "../qwait/qwait_protocol.h"

struct model {
	struct qwait_bitmap ready;
	struct qwait_doorbell bells[QUEUES];
	qwait_u32 wake_ups; /* the eventfd */
	plain_int taken[QUEUES];
	uint32_t from[CONSUMERS];
	bool sleeps[CONSUMERS];
};

/* Producers 0 and 1: queues 0 and 3, 1 and 3. */
static uint32_t queue_of(int producer, int arrival)
{
	return arrival % 2 == 0 ? (uint32_t)producer : QUEUES - 1;
}

static void model_begin(struct model *m)
{
	qwait_store(&m->ready.summary, 0);
	qwait_store(&m->ready.sleepers, 0);
	qwait_store(&m->wake_ups, 0);
	for (uint32_t i = 0; i < QWAIT_LEAVES; i++)
		qwait_store(&m->ready.leaves[i], 0);
	for (uint32_t q = 0; q < QUEUES; q++) {
		qwait_store(&m->bells[q].armed, 1);
		qwait_store(&m->bells[q].rung, 0);
		plain_set(m->taken[q], 0);
	}
	for (int c = 0; c < CONSUMERS; c++) {
		m->from[c] = 0;
		m->sleeps[c] = false;
	}
}

/* qwait_activate() */
static void activate(struct model *m, uint32_t queue)
{
	qwait_bitmap_set(&m->ready, queue);
	if (qwait_load(&m->ready.sleepers) != 0)
		qwait_fetch_add(&m->wake_ups, 1);
}

static uint32_t items(struct model *m, uint32_t queue)
{
	return qwait_load(&m->bells[queue].rung) - (uint32_t)plain_get(m->taken[queue]);
}

/* qwait_ring() */
static void model_arrive(struct model *m, int producer, int arrival)
{
	const uint32_t queue = queue_of(producer, arrival);

	qwait_fetch_add(&m->bells[queue].rung, 1);
	if (qwait_disarm(&m->bells[queue]))
		activate(m, queue);
}

/* qwait_arm_and_look() */
static bool arm_and_look(struct model *m, uint32_t queue)
{
	const uint32_t taken = (uint32_t)plain_get(m->taken[queue]);

	qwait_arm(&m->bells[queue]);
#ifndef QWAIT_NO_LOOK /* for a test: what arrives between look and arming is lost */
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

/* One turn of a consumer's loop. False: it sleeps. */
static bool model_serve(struct model *m, int consumer)
{
	const uint32_t queue = qwait_bitmap_take(&m->ready, m->from[consumer]);

	if (queue == QWAIT_NONE) {
		qwait_fetch_add(&m->ready.sleepers, 1);
#ifndef QWAIT_SLEEP_BLINDLY /* for a test: nobody rings a bell for what came before */
		if (qwait_bitmap_any(&m->ready)) {
			qwait_fetch_add(&m->ready.sleepers, (uint32_t)-1);
			return true;
		}
#endif
		m->sleeps[consumer] = true;
		return false;
	}
	m->from[consumer] = (queue + 1) % QUEUES;
	if (!verify(m, queue))
		return true;
	plain_set(m->taken[queue], plain_get(m->taken[queue]) + 1);
	reconsider(m, queue);
	return true;
}

static bool is_ready(struct model *m, uint32_t queue)
{
	return (qwait_load(&m->ready.leaves[queue >> QWAIT_LEAF_LOG2]) & qwait_bit(queue)) &&
	       (qwait_load(&m->ready.summary) & qwait_bit(queue >> QWAIT_LEAF_LOG2));
}

/* All threads are through. */
static void model_end(struct model *m)
{
	uint32_t left = 0;
	bool all_sleep = true;

	for (uint32_t q = 0; q < QUEUES; q++) {
		if (items(m, q) > PRODUCERS * ARRIVALS)
			WRONG("an item was served that never came");
		if (items(m, q) != 0 && !is_ready(m, q))
			WRONG("a queue has items and is not ready: its arrival is lost");
		left += items(m, q);
	}
	for (int c = 0; c < CONSUMERS; c++)
		all_sleep = all_sleep && m->sleeps[c];
	if (all_sleep && left != 0 && qwait_load(&m->wake_ups) == 0)
		WRONG("all consumers sleep beside a queue with items");
}

#endif
