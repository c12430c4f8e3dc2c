/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * corec_protocol.h with threads: one plays the NIC, the others poll one ring. There are more threads than processors, so they are preempted anywhere; in
 * addition one atomic access in ODDS (131072 by default) is preceded by a stall of up to a millisecond. Many stalls find faults within few frames,
 * and hardly need a CPU; few stalls show faults at full speed. A buffer is memory of its own, allocated and freed by the thread that owns it, so that
 * sanitizers see a buffer that is delivered twice or touched by two threads.
 *
 * usage: tests-corec-stress [FRAMES [THREADS [PLACES [SEED [ODDS]]]]]
 * The last line is `FRAMES frames, THREADS threads, LOST lost claims, STALLS stalls`. Exit codes: 0 right, 1 wrong (printed on standard error),
 * 2 bad usage.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BURST         32
#define THREADS_MAX   64
#define PLACES_MAX    4096
#define STALL_NS      1000000
#define YIELD_ODDS    (UINT32_C(1) << 10)
#define STANDSTILL_NS UINT64_C(2000000000) /* of CPU time without a frame */
#define SHORT_ODDS    64                   /* one request for buffers in this many fails, or gets only one */

static uint32_t stall_odds = UINT32_C(1) << 17; /* set before threads begin */
#define STALL_ODDS stall_odds

#include "stress.h"

#define COREC_ATOMICS_H
#include <stdalign.h>
#include <stdbool.h>

typedef uint64_t corec_u64;
typedef uint32_t corec_u32;
typedef uint16_t corec_u16;

#define corec_load_relaxed(at)         (maybe_stall(), __atomic_load_n(at, __ATOMIC_RELAXED))
#define corec_load_acquire(at)         (maybe_stall(), __atomic_load_n(at, __ATOMIC_ACQUIRE))
#define corec_store_release(at, value) (maybe_stall(), __atomic_store_n(at, value, __ATOMIC_RELEASE))
#define corec_fence_acquire()          __atomic_thread_fence(__ATOMIC_ACQUIRE)
#ifdef __SANITIZE_THREAD__ /* TSan ignores fences: an exchange of one variable orders at least as much */
static int corec_fence;
#define corec_fence_full() (void)__atomic_exchange_n(&corec_fence, 0, __ATOMIC_SEQ_CST)
#else
#define corec_fence_full() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
#ifndef COREC_LATE_CLEAR /* which clears no flag */
#define corec_exchange_acquire(at, new) (maybe_stall(), __atomic_exchange_n(at, new, __ATOMIC_ACQUIRE))
#else
#define corec_store_relaxed(at, value) (maybe_stall(), __atomic_store_n(at, value, __ATOMIC_RELAXED))
#endif

static inline bool corec_compare_exchange_relaxed(corec_u64 *at, uint64_t expected, uint64_t desired)
{
	maybe_stall();
	return __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* A frame consists of its number, twice. */
struct buffer {
	uint64_t number, again;
};

struct poller {
	uint64_t frames, lost, stalls;
};

typedef struct buffer *corec_frame;
typedef struct poller *corec_how;

#include "../pmd/corec_protocol.h"

struct descriptor {
	uint64_t filled;
	struct buffer *buffer;
};

static struct world {
	struct corec_queue queue; /* first: the hooks find the world by it */
	uint64_t frames;
	uint32_t threads, places;
	uint64_t delivered;
	uint64_t tail, doorbell;
	uint64_t rung; /* by whoever moves TAIL */
	uint8_t *seen; /* a bit for each frame */
	struct descriptor descriptors[PLACES_MAX];
	corec_u16 done[PLACES_MAX];
} world;

static _Thread_local struct poller *self;

static struct buffer *new_buffer(void)
{
	struct buffer *buffer = malloc(sizeof(*buffer));

	if (buffer == NULL)
		wrong("no memory", 0);
	buffer->number = buffer->again = 0;
	return buffer;
}

static inline uint32_t corec_filled(const struct corec_queue *q, uint32_t place, uint32_t n)
{
	uint32_t found = 0;

	(void)q;
	if (place + n > world.places)
		wrong("a look goes beyond the ring's end", place + n);
	while (found < n && corec_load_acquire(&world.descriptors[place + found].filled) != 0)
		found++;
	return found;
}

static inline uint32_t corec_get_buffers(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	const uint32_t drawn = draw();

	(void)q;
	if (drawn % SHORT_ODDS == 0)
		n = drawn / SHORT_ODDS % 2;
	for (uint32_t i = 0; i < n; i++)
		buffers[i] = new_buffer();
	return n;
}

static inline void corec_give_back(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	(void)q;
	for (uint32_t i = 0; i < n; i++)
		free(buffers[i]);
	self->lost++;
}

static inline void corec_swap(struct corec_queue *q, uint32_t place, corec_frame *frames, uint32_t n,
                              corec_how how)
{
	(void)q;
	(void)how;
	for (uint32_t i = 0; i < n; i++) {
		struct descriptor *descriptor = &world.descriptors[place + i];
		struct buffer *frame = descriptor->buffer;

		descriptor->buffer = frames[i];
		corec_store_release(&descriptor->filled, 0);
		frames[i] = frame;
	}
}

static inline void corec_ring_doorbell(struct corec_queue *q, uint64_t tail)
{
	(void)q;
	if (corec_distance(world.rung, tail) <= 0 || corec_distance(world.rung, tail) > world.places)
		wrong("TAIL does not move forward by at most a ring", tail);
	for (uint64_t i = world.rung; i != tail; i = corec_later(i, 1))
		if (world.descriptors[i & world.queue.mask].filled != 0)
			wrong("TAIL moves over a descriptor that was not swapped", i);
	world.rung = tail;
	corec_store_release(&world.doorbell, tail);
}

static void take(const struct buffer *frame, uint64_t *before)
{
	const uint64_t number = frame->number;

	if (number == 0 || number > world.frames || frame->again != number)
		wrong("a buffer holds no frame", number);
	if (*before != 0 && number != *before + 1)
		wrong("frames of a batch do not follow each other", number);
	*before = number;
	if (__atomic_fetch_or(&world.seen[number / 8], 1 << number % 8, __ATOMIC_RELAXED) & 1 << number % 8)
		wrong("a frame came twice", number);
}

static uint32_t poll(void)
{
	struct buffer *frames[BURST];
	const uint32_t n = corec_poll(&world.queue, frames, 1 + draw() % BURST, self);
	uint64_t before = 0;

	for (uint32_t i = 0; i < n; i++) {
		take(frames[i], &before);
		free(frames[i]);
	}
	if (n > 0)
		__atomic_fetch_add(&world.delivered, n, __ATOMIC_RELAXED);
	return n;
}

static void *poll_on(void *argument)
{
	self = argument;
	draws = (seed + (uint32_t)(uintptr_t)argument * 2654435761u) | 1;
	while (__atomic_load_n(&world.delivered, __ATOMIC_RELAXED) < world.frames)
		self->frames += poll();
	self->stalls = stalls;
	return NULL;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Measured in CPU time, because a busy machine may not run this process for long. */
static void check_progress(void)
{
	static uint64_t delivered, since_ns;
	const uint64_t now = __atomic_load_n(&world.delivered, __ATOMIC_RELAXED);

	if (since_ns == 0 || now != delivered) {
		since_ns = cpu_ns();
		delivered = now;
	} else if (cpu_ns() - since_ns > STANDSTILL_NS) {
		wrong("the queue stands still", now);
	}
}

/* Fills descriptors in order, as far as TAIL allows, and watches until all is delivered. */
static void *deliver(void *argument)
{
	uint64_t head = 0;

	draws = seed | 1;
	while (head < world.frames) {
		struct descriptor *descriptor = &world.descriptors[head & world.queue.mask];

		if (corec_distance(head, __atomic_load_n(&world.doorbell, __ATOMIC_ACQUIRE)) <= 0) {
			check_progress();
			sched_yield();
			continue;
		}
		if (descriptor->filled != 0)
			wrong("a posted descriptor shows DD", head);
		head++;
		descriptor->buffer->number = descriptor->buffer->again = head;
		__atomic_store_n(&descriptor->filled, 1, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&world.delivered, __ATOMIC_RELAXED) < world.frames) {
		check_progress();
		sched_yield();
	}
	return argument;
}

static void begin(void)
{
	world.queue.done = world.done;
	world.queue.mask = world.places - 1;
	world.queue.tail = &world.tail;
	world.tail = world.doorbell = world.rung = world.places;
	world.seen = calloc(world.frames / 8 + 1, 1);
	if (world.seen == NULL)
		wrong("no memory", world.frames);
	for (uint32_t i = 0; i < world.places; i++)
		world.descriptors[i].buffer = new_buffer();
}

static void end(void)
{
	while (poll() > 0)
		;
	for (uint64_t i = 1; i <= world.frames; i++)
		if (!(world.seen[i / 8] & 1 << i % 8))
			wrong("a frame was lost", i);
	if (world.rung != corec_later(world.frames, world.places))
		wrong("descriptors are lost: TAIL stands still", world.rung);
	for (uint32_t i = 0; i < world.places; i++)
		free(world.descriptors[i].buffer);
	free(world.seen);
}

/* Returns the lost reservations and stalls of all pollers. */
static struct poller run(void)
{
	static struct poller pollers[THREADS_MAX];
	pthread_t nic, threads[THREADS_MAX];
	struct poller all = {0};

	begin();
	if (pthread_create(&nic, NULL, deliver, NULL) != 0)
		wrong("no thread", 0);
	for (uint32_t i = 0; i < world.threads; i++)
		if (pthread_create(&threads[i], NULL, poll_on, &pollers[i]) != 0)
			wrong("no thread", i);
	pthread_join(nic, NULL);
	for (uint32_t i = 0; i < world.threads; i++) {
		pthread_join(threads[i], NULL);
		all.lost += pollers[i].lost;
		all.stalls += pollers[i].stalls;
	}
	self = &pollers[0];
	draws = 1;
	end();
	return all;
}

int main(int argc, char **argv)
{
	uint64_t frames = 300000, threads = 8, places = 128, first_seed = 1, odds = stall_odds;

	if (argc > 6 || !number(argc, argv, 1, 1, UINT64_C(1) << 36, &frames) ||
	    !number(argc, argv, 2, 1, THREADS_MAX, &threads) ||
	    !number(argc, argv, 3, 1, PLACES_MAX, &places) || (places & (places - 1)) != 0 ||
	    !number(argc, argv, 4, 0, UINT32_MAX, &first_seed) ||
	    !number(argc, argv, 5, 1, UINT32_MAX, &odds)) {
		fprintf(stderr,
		        "usage: %s [FRAMES [THREADS (1..%d) [PLACES (a power of two, 1..%d) [SEED "
		        "[ODDS]]]]]\n",
		        argv[0], THREADS_MAX, PLACES_MAX);
		return 2;
	}
	world.frames = frames;
	world.threads = (uint32_t)threads;
	world.places = (uint32_t)places;
	seed = (uint32_t)first_seed;
	stall_odds = (uint32_t)odds;
	const struct poller all = run();

	printf("%" PRIu64 " frames, %" PRIu64 " threads, %" PRIu64 " lost claims, %" PRIu64 " stalls\n",
	       frames, threads, all.lost, all.stalls);
	return EXIT_SUCCESS;
}
