/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * corec_protocol.h under Relacy (Debian's relacy-dev): C11 memory orders, and data races on everything that is no atomic. It explores schedules up to a
 * number of preemptions, and random ones beyond; each load of an atomic may return any value that C11 allows.
 *
 * The world is small: a ring of PLACES descriptors, a NIC that fills it in order, and consumers that poll a few times each.
 * Frames are numbered 1, 2, ... in the order in which the NIC fills descriptors. A consumer expects the frames of a batch to follow each other.
 * After all threads have ended, one thread polls the rest. Then every frame must have come once, TAIL must be one ring ahead of `taken`, and
 * it must never have moved back or further than that.
 *
 * With HALTS a consumer that finds nothing halts, as a processor does: until its descriptor's line is written after it was armed. A consumer that is
 * halted in the end must wait for the very descriptor that the next frame comes to; if all are halted, TAIL must be where it belongs.
 *
 * usage: tests-corec-relacy-VARIANT preemptions N     all schedules with at most N preemptions
 *        tests-corec-relacy-VARIANT random N          N schedules
 * exit codes: 0 nothing found, 1 found (printed on standard output)
 */
#include <stdint.h>

#include "relacy_explore.hpp"

#define COREC_ATOMICS_H
typedef rl::atomic<uint64_t> corec_u64;
typedef rl::atomic<uint32_t> corec_u32;
typedef rl::atomic<uint16_t> corec_u16;
typedef rl::var<int> plain_int;

#define corec_load_relaxed(at)         ((*(at))($).load(rl::mo_relaxed))
#define corec_load_acquire(at)         ((*(at))($).load(rl::mo_acquire))
#define corec_store_relaxed(at, value) ((*(at))($).store(value, rl::mo_relaxed))
#ifndef COREC_WEAK /* for a test: all stores are relaxed */
#define corec_store_release(at, value) ((*(at))($).store(value, rl::mo_release))
#else
#define corec_store_release(at, value) corec_store_relaxed(at, value)
#endif
#define corec_exchange_acquire(at, new) ((*(at))($).exchange(new, rl::mo_acquire))
#define corec_fence_acquire()           rl::atomic_thread_fence(rl::mo_acquire, $)
#ifndef COREC_UNFENCED /* for a test */
#define corec_fence_release() rl::atomic_thread_fence(rl::mo_release, $)
#else
#define corec_fence_release()
#endif
#ifndef COREC_WEAK_FENCE /* for a test */
#define corec_fence_full() rl::atomic_thread_fence(rl::mo_seq_cst, $)
#else
#define corec_fence_full() rl::atomic_thread_fence(rl::mo_acq_rel, $)
#endif
#define plain_get(x)        ((int)VAR(x))
#define plain_set(x, value) (VAR(x) = (value))
#define WRONG(text)         RL_ASSERT(!text)

static inline bool corec_compare_exchange_relaxed(corec_u64 *at, uint64_t expected, uint64_t desired)
{
	return (*at)($).compare_exchange_strong(expected, desired, rl::mo_relaxed);
}

/* The smallest world in which every known fault shows. */
#define PLACES    2 /* a power of two */
#define CONSUMERS 2
#define FRAMES    4
#define ATTEMPTS  (FRAMES + 1) /* of the NIC to deliver a frame */
#define POLLS     2            /* of each consumer */
#define BURST     2

#define BUFFERS (PLACES + (CONSUMERS + 1) * BURST)

typedef int corec_frame; /* a buffer's number */
typedef int corec_how;   /* the consumer */

#include "../pmd/corec_protocol.h"

struct model_descriptor {
	corec_u32 filled; /* how often it was written; odd: DD */
	plain_int buffer;
};

/* The last consumer polls the rest after the others have ended. */
struct model {
	struct corec_queue queue; /* first: the hooks find the model by it */
	struct model_descriptor descriptors[PLACES];
	plain_int frame_in[BUFFERS]; /* the DMA's part of a buffer */
	corec_u16 done[PLACES];
	corec_u64 tail;
	corec_u32 doorbell;
	uint32_t rung; /* doorbell as last rung; by the consumer that moves TAIL */
	int head;      /* the NIC's */
	int spare[CONSUMERS + 1][BURST], spares[CONSUMERS + 1];
	int came[CONSUMERS + 1][FRAMES + 1]; /* by frame */
	int losses;
	bool halted[CONSUMERS];
	uint32_t place[CONSUMERS], armed[CONSUMERS]; /* watched descriptor; its write count when armed */
};

/* Every poller has its own buffers. The array that it polls into says which. */
struct model_poll {
	corec_frame frames[BURST];
	int consumer;
};

static struct model *model_of(const struct corec_queue *q)
{
	return (struct model *)(uintptr_t)q;
}

/* The array is the first field of a poll. */
static int consumer_of(const corec_frame *frames)
{
	return ((const struct model_poll *)(const void *)frames)->consumer;
}

static inline uint32_t corec_filled(const struct corec_queue *q, uint32_t place, uint32_t n)
{
	uint32_t found = 0;

	while (found < n && corec_load_acquire(&model_of(q)->descriptors[place + found].filled) & 1)
		found++;
	return found;
}

static inline uint32_t corec_get_buffers(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	struct model *m = model_of(q);
	const int consumer = consumer_of(buffers);

	for (uint32_t i = 0; i < n; i++)
		buffers[i] = m->spare[consumer][--m->spares[consumer]];
	return n;
}

static void put_back(struct model *m, int consumer, int buffer)
{
	m->spare[consumer][m->spares[consumer]++] = buffer;
}

static inline void corec_give_back(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		put_back(model_of(q), consumer_of(buffers), buffers[i]);
}

static inline void corec_swap(struct corec_queue *q, uint32_t place, corec_frame *frames, uint32_t n,
                              corec_how how)
{
	(void)how;
	corec_fence_release(); /* as in the driver, whose later stores are plain */
	for (uint32_t i = 0; i < n; i++) {
		struct model_descriptor *descriptor = &model_of(q)->descriptors[place + i];
		const corec_frame buffer = frames[i];

		frames[i] = plain_get(descriptor->buffer);
		plain_set(descriptor->buffer, buffer);
		corec_store_relaxed(&descriptor->filled, corec_load_relaxed(&descriptor->filled) + 1);
	}
}

static inline void corec_ring_doorbell(struct corec_queue *q, uint64_t tail)
{
	struct model *m = model_of(q);

	if (corec_distance(m->rung, tail) <= 0 || corec_distance(m->rung, tail) > PLACES)
		WRONG("TAIL does not move forward by at most a ring");
	m->rung = (uint32_t)tail;
	corec_store_release(&m->doorbell, (uint32_t)tail);
}

static void model_begin(struct model *m)
{
	int buffer = 0;

	corec_store_relaxed(&m->queue.taken, 0);
	corec_store_relaxed(&m->tail, PLACES);
	corec_store_relaxed(&m->doorbell, PLACES);
	m->queue.done = m->done;
	m->queue.tail = &m->tail;
	m->queue.mask = PLACES - 1;
	m->rung = PLACES;
	m->head = m->losses = 0;
	for (int i = 0; i < BUFFERS; i++)
		plain_set(m->frame_in[i], 0);
	for (int i = 0; i < PLACES; i++) {
		corec_store_relaxed(&m->done[i], 0);
		corec_store_relaxed(&m->descriptors[i].filled, 0);
		plain_set(m->descriptors[i].buffer, buffer++);
	}
	for (int c = 0; c < CONSUMERS; c++)
		m->halted[c] = false;
	for (int c = 0; c <= CONSUMERS; c++) {
		m->spares[c] = 0;
		for (int i = 0; i < BURST; i++)
			put_back(m, c, buffer++);
		for (int i = 0; i <= FRAMES; i++)
			m->came[c][i] = 0;
	}
}

/* Tries once to deliver the next frame. */
static void model_deliver(struct model *m)
{
	struct model_descriptor *descriptor = &m->descriptors[m->head & (PLACES - 1)];

	if (m->head == FRAMES || corec_distance((uint64_t)m->head, corec_load_acquire(&m->doorbell)) <= 0)
		return;
	plain_set(m->frame_in[plain_get(descriptor->buffer)], ++m->head);
	corec_store_release(&descriptor->filled, (uint32_t)(m->head - 1) / PLACES * 2 + 1);
}

static uint32_t model_poll(struct model *m, int consumer)
{
	struct model_poll poll;
	uint32_t n;
	int before = 0;

	poll.consumer = consumer;
	n = corec_poll(&m->queue, poll.frames, BURST, 0);
	for (uint32_t i = 0; i < n; i++) {
		const int frame = plain_get(m->frame_in[poll.frames[i]]);

		if (frame < 1 || frame > FRAMES || (i > 0 && frame != before + 1))
			WRONG("a buffer without a frame, or frames of a batch that do not follow each other");
		else if (m->came[consumer][frame]++ > 0)
			WRONG("a frame came twice");
		before = frame;
		put_back(m, consumer, poll.frames[i]);
	}
	return n;
}

/* Returns whether the consumer halts, and has not been woken yet. */
static bool model_halt(struct model *m, int consumer)
{
	const uint32_t place = corec_halt_place(&m->queue);
	const uint32_t armed = corec_load_relaxed(&m->descriptors[place].filled);

	if ((armed & 1) || !corec_may_halt(&m->queue, place))
		return false;
	m->place[consumer] = place;
	m->armed[consumer] = armed;
	return m->halted[consumer] = corec_load_relaxed(&m->descriptors[place].filled) == armed;
}

/* Checks halted consumers after all threads have ended. A consumer whose line was written is awake. */
static void model_check_halted(struct model *m)
{
	int asleep = 0;

	for (int c = 0; c < CONSUMERS; c++) {
		if (!m->halted[c] || corec_load_relaxed(&m->descriptors[m->place[c]].filled) != m->armed[c])
			continue;
		asleep++;
		if (m->place[c] != (corec_load_relaxed(&m->queue.taken) & (PLACES - 1)))
			WRONG("a core halts where the next frame does not come");
	}
	if (asleep == CONSUMERS &&
	    corec_distance(corec_load_relaxed(&m->queue.taken), corec_load_relaxed(&m->doorbell)) != PLACES)
		WRONG("all cores halt, and a completion flag waits: TAIL stands still");
}

/* Checks the world after all threads have ended. */
static void model_end(struct model *m)
{
	model_check_halted(m);
	while (model_poll(m, CONSUMERS) > 0)
		;
	for (int frame = 1; frame <= m->head; frame++) {
		int times = 0;

		for (int c = 0; c <= CONSUMERS; c++)
			times += m->came[c][frame];
		if (times != 1)
			WRONG(times == 0 ? "a frame was lost" : "a frame came twice");
	}
	if (corec_distance(corec_load_relaxed(&m->queue.taken), corec_load_relaxed(&m->doorbell)) != PLACES)
		WRONG("descriptors are lost: TAIL stands still");
}

struct suite : rl::test_suite<suite, CONSUMERS + 1> {
	model world;

	void before()
	{
		model_begin(&world);
	}

	void thread(unsigned int index)
	{
		if (index == CONSUMERS) {
			for (int i = 0; i < ATTEMPTS; i++)
				model_deliver(&world);
		} else {
			for (int i = 0; i < POLLS; i++)
#ifdef HALTS
				if (model_poll(&world, (int)index) == 0 && model_halt(&world, (int)index))
					break;
#else
				model_poll(&world, (int)index);
#endif
		}
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
