/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Check the ring between dispatchers and workers: every packet once, in order if there is one, with each kind of
 * synchronisation.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <rte_ring.h>

#include "handoff.h"

#define SLOTS     64
#define PRODUCERS 3
#define CONSUMERS 3
#define EACH      40000 /* packets per producer */
#define BURST     32

static const enum handoff_sync syncs[] = {HANDOFF_DEFAULT, HANDOFF_RTS, HANDOFF_HTS, HANDOFF_SINGLE};

static struct rte_ring *new_ring(enum handoff_sync sync)
{
	const size_t bytes = handoff_bytes(SLOTS);
	void *memory = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(bytes, (size_t)RTE_CACHE_LINE_SIZE));

	if (bytes == 0 || !memory)
		abort();
	return handoff_init(memory, SLOTS, sync);
}

/* Packets only pass through, so numbers will do. */
static struct rte_mbuf *packet(uintptr_t number)
{
	return (struct rte_mbuf *)(number + 1);
}

static uintptr_t number_of(const struct rte_mbuf *mbuf)
{
	return (uintptr_t)mbuf - 1;
}

static void order_and_room(void)
{
	for (unsigned int s = 0; s < RTE_DIM(syncs); s++) {
		struct rte_ring *ring = new_ring(syncs[s]);
		struct rte_mbuf *in[SLOTS], *out[SLOTS];

		for (uintptr_t i = 0; i < SLOTS; i++)
			in[i] = packet(i);
		UNIT_EQUAL(handoff_take(ring, out, BURST), 0);
		UNIT_EQUAL(handoff_put(ring, in, 10), 10);
		UNIT_EQUAL(handoff_put(ring, in + 10, SLOTS - 10), SLOTS - 11); /* one slot stays empty */
		UNIT_EQUAL(handoff_put(ring, in, 1), 0);
		UNIT_EQUAL(handoff_count(ring), SLOTS - 1);
		UNIT_EQUAL(handoff_take(ring, out, BURST), BURST);
		UNIT_EQUAL(handoff_take(ring, out + BURST, SLOTS), SLOTS - 1 - BURST);
		for (uintptr_t i = 0; i < SLOTS - 1; i++)
			UNIT_EQUAL(number_of(out[i]), i);
		UNIT_EQUAL(handoff_count(ring), 0);
		UNIT_EQUAL(handoff_empty(ring), 0);
		free(ring);
	}
}

static void sizes_that_are_refused(void)
{
	UNIT_EQUAL(handoff_bytes(0), 0);
	UNIT_EQUAL(handoff_bytes(1), 0);
	UNIT_EQUAL(handoff_bytes(1000), 0);
	UNIT_EQUAL(handoff_bytes(2u << 20), 0);
	UNIT_CHECK(handoff_bytes(1u << 20) > 8u << 20);
}

struct crowd {
	struct rte_ring *ring;
	atomic_uint next_producer;
	atomic_uint producing;
	atomic_uchar seen[PRODUCERS * EACH];
	atomic_uint disordered;
};

static void *produce(void *argument)
{
	struct crowd *crowd = argument;
	const uintptr_t base = atomic_fetch_add(&crowd->next_producer, 1) * (uintptr_t)EACH;
	struct rte_mbuf *burst[BURST];

	for (uintptr_t next = 0; next < EACH;) {
		const uint16_t n = (uint16_t)RTE_MIN((uintptr_t)BURST, EACH - next);

		for (uint16_t i = 0; i < n; i++)
			burst[i] = packet(base + next + i);
		const uint16_t put = handoff_put(crowd->ring, burst, n);

		next += put;
		if (put < n)
			sched_yield();
	}
	atomic_fetch_sub(&crowd->producing, 1);
	return NULL;
}

/* One consumer gets the packets of one producer in the producer's order. */
static void *consume(void *argument)
{
	struct crowd *crowd = argument;
	uintptr_t last[PRODUCERS] = {0};
	struct rte_mbuf *burst[BURST];

	for (;;) {
		const bool over = atomic_load(&crowd->producing) == 0;
		const uint16_t n = handoff_take(crowd->ring, burst, BURST);

		for (uint16_t i = 0; i < n; i++) {
			const uintptr_t number = number_of(burst[i]), producer = number / EACH;

			atomic_fetch_add(&crowd->seen[number], 1);
			atomic_fetch_add(&crowd->disordered, number + 1 <= last[producer]);
			last[producer] = number + 1;
		}
		if (n == 0 && over)
			return NULL;
		if (n == 0)
			sched_yield();
	}
}

static void pass_through_crowd(enum handoff_sync sync, unsigned int producers, unsigned int consumers)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));
	pthread_t threads[PRODUCERS + CONSUMERS];
	unsigned int once = 0;

	if (!crowd)
		abort();
	crowd->ring = new_ring(sync);
	atomic_store(&crowd->producing, producers);
	for (unsigned int i = 0; i < producers + consumers; i++)
		if (pthread_create(&threads[i], NULL, i < producers ? produce : consume, crowd) != 0)
			abort();
	for (unsigned int i = 0; i < producers + consumers; i++)
		pthread_join(threads[i], NULL);
	for (unsigned int i = 0; i < producers * EACH; i++)
		once += atomic_load(&crowd->seen[i]) == 1;
	UNIT_EQUAL(once, producers * EACH);
	UNIT_EQUAL(atomic_load(&crowd->disordered), 0);
	UNIT_EQUAL(handoff_count(crowd->ring), 0);
	free(crowd->ring);
	free(crowd);
}

static void threads_pass_every_packet_once(void)
{
	for (unsigned int s = 0; s < RTE_DIM(syncs); s++) {
		const bool shared = syncs[s] != HANDOFF_SINGLE;

		pass_through_crowd(syncs[s], shared ? PRODUCERS : 1, shared ? CONSUMERS : 1);
	}
}

static const struct unit_case cases[] = {
        {"order and room", order_and_room},
        {"sizes that are refused", sizes_that_are_refused},
        {"threads pass every packet once", threads_pass_every_packet_once},
        {NULL, NULL},
};

const struct unit_suite unit_handoff = {"handoff", cases};
