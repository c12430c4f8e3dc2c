/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * corec-cost: cost of one core's poll of a full burst on a ring that no other core touches, without mempool, mbufs and frames:
 * TSC cycles of the receive algorithm alone. Built three times (apps/meson.build): as it is; with COST_NO_LOOK without the pass
 * that counts the filled descriptors; with COST_STANDARD in the one pass of a queue with one reader.
 *
 * Prints the 10th percentile of many repetitions, the lowest of several rounds, which excludes disturbance by the host.
 */
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#define RING   512
#define BURST  32
#define BURSTS 8 /* timed together */
#define TURNS  20000
#define ROUNDS 15

struct descriptor {
	void *buffer;
	uint64_t filled;
};

static alignas(64) struct descriptor ring[RING];
static void *spare[BURST];
static uint32_t doorbell;

static inline bool is_filled(uint32_t place)
{
	return __atomic_load_n(&ring[place].filled, __ATOMIC_ACQUIRE) != 0;
}

#ifndef COST_STANDARD
typedef void *corec_frame;
typedef bool corec_how;

#include "../pmd/corec_protocol.h"

static corec_u16 done[RING];
static corec_u64 tail = RING;
static struct corec_queue queue = {.done = done, .tail = &tail, .mask = RING - 1};

/* As in the driver (crossover_corec.c). */
#define LOOKS 8

static inline bool filled_together(uint32_t place)
{
	uint64_t all = 1;

#pragma GCC unroll 8
	for (uint32_t i = 0; i < LOOKS; i++)
		all &= __atomic_load_n(&ring[place + i].filled, __ATOMIC_ACQUIRE);
	return all != 0;
}

static inline uint32_t corec_filled(const struct corec_queue *q, uint32_t place, uint32_t n)
{
	uint32_t found = 0;

	(void)q;
#ifdef COST_NO_LOOK
	(void)place;
	found = n;
#else
	while (found + LOOKS <= n && filled_together(place + found))
		found += LOOKS;
	while (found < n && is_filled(place + found))
		found++;
#endif
	return found;
}

static inline uint32_t corec_get_buffers(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	(void)q;
	memcpy(buffers, spare, n * sizeof(*buffers));
	return n;
}

static inline void corec_give_back(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	(void)q;
	(void)buffers;
	(void)n;
}

static inline void corec_swap(struct corec_queue *q, uint32_t place, corec_frame *frames, uint32_t n,
                              corec_how how)
{
	(void)q;
	(void)how;
	for (uint32_t i = 0; i < n; i++) {
		struct descriptor *d = &ring[place + i];
		void *const frame = d->buffer;

		d->buffer = frames[i];
		__atomic_store_n(&d->filled, 0, __ATOMIC_RELAXED);
		frames[i] = frame;
	}
}

static inline void corec_ring_doorbell(struct corec_queue *q, uint64_t tail)
{
	(void)q;
	__atomic_store_n(&doorbell, (uint32_t)tail, __ATOMIC_RELEASE);
}

static uint32_t poll_burst(void **frames)
{
	return corec_poll(&queue, frames, BURST, false);
}
#else
static uint32_t poll_burst(void **frames)
{
	static uint32_t position;
	const uint32_t first = position;
	void *fresh[BURST];
	uint32_t n = 0;

	memcpy(fresh, spare, sizeof(fresh));
	for (; n < BURST && is_filled((first + n) % RING); n++) {
		struct descriptor *d = &ring[(first + n) % RING];

		frames[n] = d->buffer;
		d->buffer = fresh[n];
		d->filled = 0;
	}
	position = first + n;
	__atomic_store_n(&doorbell, position, __ATOMIC_RELEASE);
	return n;
}
#endif

static void fill(uint32_t *head)
{
	for (uint32_t i = 0; i < BURST * BURSTS; i++)
		ring[(*head)++ % RING].filled = 1;
}

/* Return the cycles of BURSTS polls; 0: a frame was missing. */
static uint64_t turn(uint32_t *head)
{
	void *frames[BURST];
	uint32_t found = 0;
	uint64_t begin, end;

	fill(head);
	_mm_lfence();
	begin = __rdtsc();
	_mm_lfence();
	for (int i = 0; i < BURSTS; i++) {
		found += poll_burst(frames);
		__asm__ volatile("" ::"r"(frames) : "memory"); /* keeps the frames */
	}
	_mm_lfence();
	end = __rdtsc();
	return found == BURST * BURSTS ? end - begin : 0;
}

static int ascending(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	static uint64_t cycles[TURNS];
	uint64_t least = UINT64_MAX;
	uint32_t head = 0;

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < TURNS; i++)
			if ((cycles[i] = turn(&head)) == 0) {
				fprintf(stderr, "corec-cost: a frame was not found\n");
				return 1;
			}
		qsort(cycles, TURNS, sizeof(cycles[0]), ascending);
		least = cycles[TURNS / 10] < least ? cycles[TURNS / 10] : least;
	}
	printf("%.1f cycles per burst of %d\n", (double)least / BURSTS, BURST);
	return 0;
}
