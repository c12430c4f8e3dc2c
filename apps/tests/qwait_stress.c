/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qwait.h with threads: some ring, others wait and serve, one disables and enables queues, or removes and adds them. There are more threads than
 * processors, so they are preempted anywhere; in addition any atomic access may be preceded by a stall. Items of a queue have ascending numbers; each must
 * come once and in order, because waiters reconsider after the processing, and no queue is ever served by two waiters.
 *
 * usage: tests-qwait-stress [ITEMS [PRODUCERS [WAITERS [QUEUES [IDLE [SEED [SETS]]]]]]]      IDLE: 0 pause, 1 sleep, 2 umwait.
 * An even SEED means the hierarchical ready set, an odd one the linear one. SETS: waiters are distributed over this many sets; waiters of one set share
 * it, and steal from the others. A single waiter of a single set takes many queues at once; a single producer writes events for it, if it pauses
 * and the set is hierarchical.
 * The last line is `ITEMS items, RETURNED returned, SPURIOUS spurious, SLEEPS sleeps, STOLEN stolen, UNPOSTED unposted`; unposted are events that
 * found no slot. Exit codes: 0 right, 1 wrong (printed on standard error), 2 bad usage.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS_MAX 32
#define STALL_ODDS  (UINT32_C(1) << 16) /* one access in so many sleeps ... */
#define STALL_NS    300000
#define YIELD_ODDS  (UINT32_C(1) << 10) /* ... one in so many gives its processor away */
#define REST_ODDS                                                                                            \
	(UINT32_C(1) << 6) /* behind one item in so many its producer sleeps, or waiters never would */
#define RING_ODDS                                                                                            \
	64 /* a producer that finds no free event tries again this often before it rings, or it would hardly ever write one */
#define PLACES   256 /* of a queue; a power of two */
#define BATCH    8
#define WAIT_NS  UINT64_C(1000000000)
#define TIMEOUTS 10 /* fruitless waits of one waiter: wake-ups are lost; fewer mean a busy machine */

#define QWAIT_EVENTS 64u /* all unread now and then */

#include "stress.h"

#define QWAIT_ATOMICS_H
typedef uint64_t qwait_u64;
typedef uint32_t qwait_u32;

#define qwait_will_write(at)      ((void)(at))
#define qwait_peek(at)            (maybe_stall(), __atomic_load_n(at, __ATOMIC_RELAXED))
#define qwait_acquire(at)         (maybe_stall(), __atomic_load_n(at, __ATOMIC_ACQUIRE))
#define qwait_release(at, value)  (maybe_stall(), __atomic_store_n(at, value, __ATOMIC_RELEASE))
#define qwait_load(at)            (maybe_stall(), __atomic_load_n(at, __ATOMIC_SEQ_CST))
#define qwait_store(at, value)    (maybe_stall(), __atomic_store_n(at, value, __ATOMIC_SEQ_CST))
#define qwait_exchange(at, value) (maybe_stall(), __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST))
#define qwait_fetch_add(at, n)    (maybe_stall(), __atomic_fetch_add(at, n, __ATOMIC_SEQ_CST))
#define qwait_fetch_or(at, bits)  (maybe_stall(), __atomic_fetch_or(at, bits, __ATOMIC_SEQ_CST))
#define qwait_fetch_and(at, bits) (maybe_stall(), __atomic_fetch_and(at, bits, __ATOMIC_SEQ_CST))

#ifdef UMWAIT_IN_SOFTWARE
#include "umwait_in_software.h"
#endif
#include "../qwait/qwait.c"        /* with the atomics above. NOLINT(bugprone-suspicious-include) */
#include "../qwait/qwait_linear.c" /* NOLINT(bugprone-suspicious-include) */

/* Filled by one producer, emptied by the waiter that serves it. */
struct queue {
	uint64_t head; /* items that came */
	uint64_t tail; /* items that were taken */
	uint64_t serving;
	uint64_t items[PLACES]; /* not atomic: a sanitizer sees accesses that are not ordered */
};

static struct {
	uint64_t items;
	uint32_t producers, waiters, queues, sets;
	enum qwait_idle idle;
	uint64_t delivered;
	uint64_t unposted; /* by the only producer: rung because all events were unread */
	struct queue *queue;
	struct qwait_doorbell *bells;
	struct qwait *set[THREADS_MAX];
} world;

/* Queue q is number q / sets of set q % sets. The first waiter belongs to its own set, the others to those that it steals from. */
struct server {
	struct qwait_waiter waiter[THREADS_MAX];
	uint32_t own;
	uint64_t stolen;
	uint32_t in_vain;
};

static void *aligned(size_t bytes)
{
	void *memory = aligned_alloc(QWAIT_LINE_BYTES,
	                             (bytes + QWAIT_LINE_BYTES - 1) & ~(size_t)(QWAIT_LINE_BYTES - 1));

	if (memory == NULL)
		wrong("no memory", bytes);
	memset(memory, 0, bytes);
	return memory;
}

/* Counts with no stronger memory order than DD has. */
static void post(uint32_t q)
{
	__atomic_fetch_add(&world.bells[q].rung, 1, __ATOMIC_RELEASE);
	while (!qwait_post(&world.bells[q])) {
		if (draw() % RING_ODDS == 0) {
			world.unposted++;
			qwait_notify_at_once(&world.bells[q]);
			return;
		}
		sched_yield();
	}
}

static void ring(uint32_t q)
{
	if (world.bells[q].events != NULL) {
		post(q);
		return;
	}
#ifdef UMWAIT_IN_SOFTWARE /* each item shall end a halt; the wait is bounded in case no thread halts any more */
	const uint64_t before = __atomic_load_n(&halts, __ATOMIC_RELAXED);
#endif
	qwait_ring(&world.bells[q], 1);
#ifdef UMWAIT_IN_SOFTWARE
	for (int i = 0; i < 1000 && __atomic_load_n(&halts, __ATOMIC_RELAXED) == before; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
#endif
}

/* Producer i has the queues i, i + producers ... and its share of the items. */
static void *produce(void *argument)
{
	const uint32_t me = (uint32_t)(uintptr_t)argument,
	               owned = (world.queues - me - 1) / world.producers + 1;
	const uint64_t share = world.items / world.producers + (me < world.items % world.producers);

	draws = (seed + me * 2654435761u) | 1;
	for (uint64_t i = 0; i < share; i++) {
		const uint32_t q = me + draw() % owned * world.producers;
		struct queue *queue = &world.queue[q];

		while (queue->head - __atomic_load_n(&queue->tail, __ATOMIC_ACQUIRE) == PLACES)
			sched_yield();
		queue->items[queue->head % PLACES] = queue->head;
		__atomic_store_n(&queue->head, queue->head + 1, __ATOMIC_RELAXED);
		ring(q);
		if (world.idle == QWAIT_SLEEP && draw() % REST_ODDS == 0)
			nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
	}
	return NULL;
}

static uint32_t serve(struct qwait_waiter *waiter, uint32_t q, uint32_t qid)
{
	struct queue *queue = &world.queue[q];
	const uint32_t waiting = qwait_items(waiter->set, qid), n = 1 + draw() % BATCH;
	const uint32_t batch = n < waiting ? n : waiting;

	if (__atomic_exchange_n(&queue->serving, 1, __ATOMIC_RELAXED))
		wrong("two serve one queue", q);
	for (uint32_t i = 0; i < batch; i++)
		if (queue->items[(queue->tail + i) % PLACES] != queue->tail + i)
			wrong("an item is lost, or out of order", queue->tail + i);
	__atomic_store_n(&queue->tail, queue->tail + batch, __ATOMIC_RELEASE);
	qwait_took(waiter, qid, batch);
	__atomic_store_n(&queue->serving, 0, __ATOMIC_RELAXED);
	return batch;
}

static uint32_t items_of(uint32_t q)
{
	return (uint32_t)(__atomic_load_n(&world.queue[q].head, __ATOMIC_RELAXED) -
	                  __atomic_load_n(&world.queue[q].tail, __ATOMIC_RELAXED));
}

/* Returns the items that were taken from queues of this set; UINT64_MAX: all of them are empty. */
static uint64_t taken_of(uint32_t set)
{
	uint64_t taken = 0;
	bool items = false;

	for (uint32_t q = set; q < world.queues; q += world.sets) {
		taken += __atomic_load_n(&world.queue[q].tail, __ATOMIC_RELAXED);
		items = items || items_of(q) != 0;
	}
	return items ? taken : UINT64_MAX;
}

/* Returns whether a wait took its whole time although something was ready, or items waited that no thread took. */
static bool waits_in_vain(struct server *me)
{
	const uint64_t taken = taken_of(me->own), end_ns = deadline_after_ns(WAIT_NS);
	const bool ready = qwait_idle(&me->waiter[0], WAIT_NS);

	return monotonic_ns() >= end_ns && (ready || (taken != UINT64_MAX && taken_of(me->own) == taken));
}

static void lost_wake_up(const struct server *me)
{
	const struct qwait_bitmap *ready = &world.set[me->own]->ready;

	for (uint32_t q = me->own; q < world.queues; q += world.sets) {
		const struct qwait_queue *queue = &world.set[me->own]->queues[q / world.sets];

		if (items_of(q) != 0)
			fprintf(stderr,
			        "queue %" PRIu32 " of set %" PRIu32 ": %" PRIu32 " items, armed %" PRIu32
			        ", disabled %" PRIu32 ", parked %" PRIu32 ", served %" PRIu64 "\n",
			        q, me->own, items_of(q), world.bells[q].armed, queue->disabled, queue->parked,
			        world.queue[q].serving);
	}
	fprintf(stderr,
	        "summary %#" PRIx64 ", leaves %#" PRIx64 " %#" PRIx64 ", sleepers %" PRIu32 ", list %" PRIu32
	        "\n",
	        ready->summary, ready->leaves[0], ready->leaves[1], ready->sleepers,
	        world.set[me->own]->list.count);
	wrong("waited without success beside undelivered items",
	      __atomic_load_n(&world.delivered, __ATOMIC_RELAXED));
}

static void wake_all(void)
{
	for (uint32_t s = 0; s < world.sets; s++)
		qwait_wake(world.set[s]);
}

/* Returns a ready queue of its own set or, if that has none, of another one, whose waiter is waiter[*at]. QWAIT_NONE: of none. */
static uint32_t next(struct server *me, uint32_t *at)
{
	uint32_t qid = qwait_next(&me->waiter[0]);

	*at = 0;
	if (qid != QWAIT_NONE)
		return qid;
	qid = qwait_steal(&me->waiter[1], world.sets - 1, at);
	(*at)++;
	me->stolen += qid != QWAIT_NONE;
	return qid;
}

static void *wait_and_serve(void *argument)
{
	struct server *me = argument;
	uint32_t at;

	draws = (seed + (uint32_t)(uintptr_t)argument) | 1;
	while (__atomic_load_n(&world.delivered, __ATOMIC_RELAXED) < world.items) {
		const uint32_t qid = next(me, &at);

		if (qid == QWAIT_NONE) {
			me->in_vain += waits_in_vain(me);
			if (me->in_vain == TIMEOUTS)
				lost_wake_up(me);
			continue;
		}
		struct qwait_waiter *waiter = &me->waiter[at];

		if (!qwait_verify(waiter, qid))
			continue;
		const uint32_t n = serve(waiter, qid * world.sets + (me->own + at) % world.sets, qid);

		qwait_reconsider(waiter, qid);
		if (__atomic_add_fetch(&world.delivered, n, __ATOMIC_RELAXED) == world.items)
			wake_all();
	}
	wake_all(); /* the next sleepers */
	return NULL;
}

/* Removes and adds a queue beside its producer and its waiters. Items that are rung meanwhile come after the next addition. */
static void remove_and_add(struct qwait *set, uint32_t q)
{
	int ret;

	while ((ret = qwait_remove(set, q / world.sets)) == -EBUSY) {
		if (__atomic_load_n(&world.delivered, __ATOMIC_RELAXED) == world.items)
			return;
		sched_yield();
	}
	if (ret != 0)
		wrong("a queue cannot be removed", q);
	nanosleep(&(struct timespec){.tv_nsec = draw() % 50000}, NULL);
	if (qwait_add(set, q / world.sets, &world.bells[q], 1) != 0)
		wrong("a queue cannot be added again", q);
}

static void *control(void *argument)
{
	draws = seed ^ 0x5bd1e995u;
	while (__atomic_load_n(&world.delivered, __ATOMIC_RELAXED) < world.items) {
		const uint32_t q = draw() % world.queues;

		struct qwait *set = world.set[q % world.sets];

		if (qwait_disable(set, q / world.sets) != 0)
			wrong("a queue cannot be disabled", q);
		nanosleep(&(struct timespec){.tv_nsec = draw() % 50000}, NULL);
		if (!set->posts && draw() % 2 == 0)
			remove_and_add(set, q);
		else if (qwait_enable(set, q / world.sets) != 0)
			wrong("a queue cannot be enabled", q);
	}
	return argument;
}

static void begin(void)
{
	struct qwait_config config = {.idle = world.idle,
	                              .sleep_after_ns = 1000,
	                              .ready_set = seed % 2,
	                              .one_waiter = world.waiters == 1,
	                              .one_poster = world.producers == 1};

	world.queue = aligned(world.queues * sizeof(*world.queue));
	world.bells = aligned(world.queues * sizeof(*world.bells));
	for (uint32_t s = 0; s < world.sets; s++) {
		config.queues = (world.queues - s - 1) / world.sets + 1;
		world.set[s] = aligned(qwait_bytes(config.queues));
		if (qwait_init(world.set[s], &config) != 0)
			wrong("no set", world.queues);
	}
	for (uint32_t q = 0; q < world.queues; q++)
		if (qwait_add(world.set[q % world.sets], q / world.sets, &world.bells[q], 1) != 0)
			wrong("a queue cannot be added", q);
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	if (pthread_create(thread, NULL, run, argument) != 0)
		wrong("no thread", 0);
}

static void run(void)
{
	static struct server servers[THREADS_MAX];
	pthread_t threads[2 * THREADS_MAX + 1];
	uint64_t returned = 0, spurious = 0, sleeps = 0, stolen = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < world.waiters; i++) {
		servers[i].own = i % world.sets;
		for (uint32_t s = 0; s < world.sets; s++)
			qwait_waiter_init(&servers[i].waiter[s], world.set[(i + s) % world.sets]);
		start(&threads[n++], wait_and_serve, &servers[i]);
	}
	for (uint32_t i = 0; i < world.producers; i++)
		start(&threads[n++], produce, (void *)(uintptr_t)i);
	start(&threads[n++], control, NULL);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 0; i < world.waiters; i++) {
		stolen += servers[i].stolen;
		for (uint32_t s = 0; s < world.sets; s++) {
			returned += servers[i].waiter[s].returned;
			spurious += servers[i].waiter[s].spurious;
			sleeps += servers[i].waiter[s].sleeps;
		}
	}
	for (uint32_t q = 0; q < world.queues; q++)
		if (world.queue[q].head != world.queue[q].tail)
			wrong("items are left in a queue", q);
	printf("%" PRIu64 " items, %" PRIu64 " returned, %" PRIu64 " spurious, %" PRIu64 " sleeps, %" PRIu64
	       " stolen, %" PRIu64 " unposted\n",
	       world.items, returned, spurious, sleeps, stolen, world.unposted);
}

int main(int argc, char **argv)
{
	uint64_t items = 300000, producers = 2, waiters = 2, queues = 100, idle = 0, first_seed = 2, sets = 1;

	if (argc > 8 || !number(argc, argv, 1, 1, UINT64_C(1) << 36, &items) ||
	    !number(argc, argv, 2, 1, THREADS_MAX, &producers) ||
	    !number(argc, argv, 3, 1, THREADS_MAX, &waiters) ||
	    !number(argc, argv, 4, producers, QWAIT_QUEUES_MAX, &queues) ||
	    !number(argc, argv, 5, 0, qwait_has_umwait() ? QWAIT_UMWAIT : QWAIT_SLEEP, &idle) ||
	    !number(argc, argv, 6, 0, UINT32_MAX, &first_seed) || !number(argc, argv, 7, 1, waiters, &sets) ||
	    queues < sets) {
		fprintf(stderr,
		        "usage: %s [ITEMS [PRODUCERS (1..%d) [WAITERS (1..%d) [QUEUES (PRODUCERS..%u) [IDLE "
		        "(0, 1; with WAITPKG 2) [SEED [SETS (1..WAITERS)]]]]]]]\n",
		        argv[0], THREADS_MAX, THREADS_MAX, QWAIT_QUEUES_MAX);
		return 2;
	}
#ifdef UMWAIT_IN_SOFTWARE
	umwait_in_software();
#endif
	world.items = items;
	world.producers = (uint32_t)producers;
	world.waiters = (uint32_t)waiters;
	world.queues = (uint32_t)queues;
	seed = (uint32_t)first_seed;
	world.sets = (uint32_t)sets;
	world.idle = (enum qwait_idle)idle;
	begin();
	run();
#ifdef UMWAIT_IN_SOFTWARE
	printf("%" PRIu64 " halts, %" PRIu64 " of them ended by time\n", halts, halts_by_time);
#endif
	for (uint32_t s = 0; s < world.sets; s++) {
		qwait_close(world.set[s]);
		free(world.set[s]);
	}
	free(world.bells);
	free(world.queue);
	return EXIT_SUCCESS;
}
