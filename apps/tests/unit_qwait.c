/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "qwait.h"

#define QUEUES      1024
#define BACKLOG     1000000 /* more than a case serves */
#define NS_PER_MS   UINT64_C(1000000)
#define FOR_EVER_NS UINT64_MAX
#define NO_TIME_NS  UINT64_C(0)

static struct fixture {
	struct qwait *set;
	struct qwait_doorbell *bells;
	struct qwait_waiter waiter;
	uint32_t served[QWAIT_QUEUES_MAX];
} f;

static void *lines(size_t bytes)
{
	void *memory = aligned_alloc(QWAIT_LINE_BYTES, bytes);

	if (memory == NULL)
		abort();
	memset(memory, 0, bytes);
	return memory;
}

static void open_set(struct qwait_config config)
{
	memset(&f, 0, sizeof(f));
	f.set = lines(qwait_bytes(config.queues));
	f.bells = lines(config.queues * sizeof(*f.bells));
	UNIT_EQUAL(qwait_init(f.set, &config), 0);
	qwait_waiter_init(&f.waiter, f.set);
}

/* Open a set with all queues, of weights 1 + q % weights, and verify away the wake-ups that qwait_add() causes. */
static void open_full(struct qwait_config config, uint32_t weights)
{
	open_set(config);
	for (uint32_t q = 0; q < config.queues; q++)
		UNIT_EQUAL(qwait_add(f.set, q, &f.bells[q], 1 + q % weights), 0);
	for (uint32_t q = qwait_next(&f.waiter); q != QWAIT_NONE; q = qwait_next(&f.waiter))
		UNIT_CHECK(!qwait_verify(&f.waiter, q));
	qwait_waiter_init(&f.waiter, f.set);
}

static void open_full_set(uint32_t queues, enum qwait_policy policy, enum qwait_ready_set ready_set,
                          uint32_t weights)
{
	open_full((struct qwait_config){.queues = queues, .policy = policy, .ready_set = ready_set}, weights);
}

static void close_set(void)
{
	qwait_close(f.set);
	free(f.set);
	free(f.bells);
}

/* Serve one item of the next queue. */
static uint32_t serve_one(void)
{
	const uint32_t q = qwait_next(&f.waiter);

	if (q == QWAIT_NONE || !qwait_verify(&f.waiter, q))
		return QWAIT_NONE;
	qwait_took(&f.waiter, q, 1);
	qwait_reconsider(&f.waiter, q);
	f.served[q]++;
	return q;
}

static void serve(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		serve_one();
}

static void only_what_was_rung_is_returned(void)
{
	static const uint32_t rung[] = {0, 1, 63, 64, 500, 1023};

	for (int kind = 0; kind < QWAIT_READY_SETS; kind++) {
		open_full_set(QUEUES, QWAIT_ROUND_ROBIN, (enum qwait_ready_set)kind, 1);
		UNIT_EQUAL(qwait_next(&f.waiter), QWAIT_NONE);
		for (int i = 5; i >= 0; i--)
			qwait_ring(&f.bells[rung[i]], 2);
		for (int i = 0; i < 12; i++)
			UNIT_EQUAL(serve_one(), rung[i % 6]);
		UNIT_EQUAL(serve_one(), QWAIT_NONE);
		UNIT_EQUAL(f.waiter.spurious, 0);
		close_set();
	}
}

/* Both ready sets return the same queues in the same order, whatever is rung in between. */
static void both_ready_sets_have_one_order(void)
{
	uint32_t orders[QWAIT_READY_SETS][500];

	for (int kind = 0; kind < QWAIT_READY_SETS; kind++) {
		uint32_t x = 12345;

		open_full_set(200, QWAIT_ROUND_ROBIN, (enum qwait_ready_set)kind, 1);
		for (int i = 0; i < 500; i++) {
			x = x * 1664525u + 1013904223u;
			qwait_ring(&f.bells[(x >> 8) % 200], 1 + (x >> 30));
			orders[kind][i] = serve_one();
		}
		close_set();
	}
	UNIT_CHECK(memcmp(orders[0], orders[1], sizeof(orders[0])) == 0);
}

/* The case with a single waiter takes queues differently. */
static void round_robin_is_fair(void)
{
	for (int one_waiter = 0; one_waiter < 2; one_waiter++) {
		open_full((struct qwait_config){.queues = QUEUES, .one_waiter = one_waiter}, 1);
		for (uint32_t q = 0; q < QUEUES; q++)
			qwait_ring(&f.bells[q], BACKLOG);
		serve(10 * QUEUES + 7);
		for (uint32_t q = 0; q < QUEUES; q++)
			UNIT_EQUAL(f.served[q], 10 + (q < 7));
		close_set();
	}
}

/* The queues of a leaf are taken together and returned in the same order; a queue rung meanwhile follows a round later. */
static void the_only_waiter_keeps_the_order(void)
{
	open_set((struct qwait_config){.queues = 64, .one_waiter = true});
	for (uint32_t q = 0; q < 64; q += 2)
		UNIT_EQUAL(qwait_add(f.set, q, &f.bells[q], 1), 0);
	UNIT_EQUAL(qwait_next(&f.waiter), 0);
	UNIT_EQUAL(qwait_add(f.set, 1, &f.bells[1], 1), 0);
	UNIT_EQUAL(qwait_disable(f.set, 4), 0); /* it is taken, but not yet returned */
	for (uint32_t q = 2; q < 64; q += q == 2 ? 4 : 2)
		UNIT_EQUAL(qwait_next(&f.waiter), q);
	UNIT_EQUAL(qwait_next(&f.waiter), 1);
	UNIT_EQUAL(qwait_next(&f.waiter), QWAIT_NONE);
	UNIT_EQUAL(qwait_enable(f.set, 4), 0);
	UNIT_EQUAL(qwait_next(&f.waiter), 4);
	close_set();
}

/* A waiter's own queues come first, and a stolen queue returns to its own set. */
static void a_waiter_steals_when_its_own_set_is_empty(void)
{
	const struct qwait_config config = {.queues = 4};
	struct qwait *own = lines(qwait_bytes(config.queues));
	struct qwait_doorbell *bells = lines(config.queues * sizeof(*bells));
	struct qwait_waiter first, victim;
	uint32_t at;

	open_full_set(4, QWAIT_ROUND_ROBIN, QWAIT_HIERARCHICAL, 1);
	UNIT_EQUAL(qwait_init(own, &config), 0);
	qwait_waiter_init(&first, own);
	qwait_waiter_init(&victim, f.set);
	UNIT_EQUAL(qwait_steal(&victim, 1, &at), QWAIT_NONE);
	UNIT_EQUAL(qwait_add(own, 2, &bells[2], 1), 0);
	qwait_ring(&f.bells[3], 2);
	UNIT_EQUAL(qwait_next(&first), 2);
	UNIT_EQUAL(qwait_next(&first), QWAIT_NONE);
	UNIT_EQUAL(qwait_steal(&victim, 1, &at), 3);
	UNIT_EQUAL(at, 0);
	UNIT_EQUAL(qwait_next(&f.waiter), QWAIT_NONE); /* its own waiter does not get it meanwhile */
	UNIT_CHECK(qwait_verify(&victim, 3));
	qwait_took(&victim, 3, 1);
	qwait_reconsider(&victim, 3);
	UNIT_EQUAL(serve_one(), 3);
	UNIT_EQUAL(qwait_steal(&victim, 1, &at), QWAIT_NONE);
	UNIT_EQUAL(victim.returned, 1);
	qwait_close(own);
	close_set();
	free(own);
	free(bells);
}

/* Opens a set of one waiter and one producer that writes events. */
static void open_events(uint32_t queues, enum qwait_policy policy)
{
	open_full(
	        (struct qwait_config){
	                .queues = queues, .policy = policy, .one_waiter = true, .one_poster = true},
	        1);
}

/* Return false if the bell was rung because all events are unread. */
static bool post(uint32_t q)
{
	qwait_fetch_add(&f.bells[q].rung, 1);
	if (qwait_post(&f.bells[q]))
		return true;
	qwait_notify_at_once(&f.bells[q]);
	return false;
}

/* Several wraps; it makes no difference whether the queue is armed, ready or served. */
static void an_event_makes_its_queue_ready(void)
{
	open_events(QUEUES, QWAIT_ROUND_ROBIN);
	UNIT_CHECK(!qwait_look(&f.waiter));
	for (uint32_t i = 0; i < 5 * QWAIT_EVENTS; i += 3) {
		const uint32_t q = i * 7 % (QUEUES - 1);

		UNIT_CHECK(post(q + 1) && post(q) && post(q));
		UNIT_CHECK(qwait_look(&f.waiter));
		for (int n = 0; n < 3; n++)
			serve_one();
		UNIT_EQUAL(qwait_items(f.set, q) + qwait_items(f.set, q + 1), 0);
		UNIT_CHECK(!qwait_look(&f.waiter));
		UNIT_EQUAL(serve_one(), QWAIT_NONE);
	}
	UNIT_EQUAL(f.waiter.spurious, 0);
	close_set();
}

static void an_event_of_a_queue_that_comes_first_comes_first(void)
{
	open_events(QUEUES, QWAIT_STRICT);
	for (int i = 0; i < 3; i++)
		post(900);
	UNIT_EQUAL(serve_one(), 900);
	post(2);
	UNIT_EQUAL(serve_one(), 2);
	UNIT_EQUAL(serve_one(), 900);
	close_set();
}

/* A sleeping waiter would not see an event, several waiters would each need one, and several writers have no order. */
static void other_sets_take_no_events(void)
{
	static const struct qwait_config others[] = {
	        {.queues = 1, .one_waiter = true},
	        {.queues = 1, .one_poster = true},
	        {.queues = 1, .one_waiter = true, .one_poster = true, .idle = QWAIT_SLEEP},
	        {.queues = 1, .one_waiter = true, .one_poster = true, .ready_set = QWAIT_LINEAR},
	};

	for (unsigned int i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		open_set(others[i]);
		UNIT_EQUAL(qwait_add(f.set, 0, &f.bells[0], 1), 0);
		UNIT_EQUAL(serve_one(), QWAIT_NONE);
		UNIT_CHECK(!post(0));
		UNIT_EQUAL(serve_one(), 0);
		close_set();
	}
	open_events(1, QWAIT_ROUND_ROBIN);
	qwait_close(f.set);
	UNIT_CHECK(!qwait_post(&f.bells[0]));
	free(f.set);
	free(f.bells);
}

static void weights_are_kept(void)
{
	const uint32_t weights = 4, round = QUEUES / 4 * (1 + 2 + 3 + 4);

	open_full_set(QUEUES, QWAIT_WEIGHTED, QWAIT_HIERARCHICAL, weights);
	for (uint32_t q = 0; q < QUEUES; q++)
		qwait_ring(&f.bells[q], BACKLOG);
	serve(10 * round);
	for (uint32_t q = 0; q < QUEUES; q++)
		UNIT_EQUAL(f.served[q], 10 * (1 + q % weights));
	close_set();
}

/* A queue that runs out of items passes its turn on, and does not save up the rest. */
static void a_weight_is_lost_when_its_queue_runs_empty(void)
{
	open_full_set(4, QWAIT_WEIGHTED, QWAIT_HIERARCHICAL, 4);
	qwait_ring(&f.bells[3], 2); /* of weight 4 */
	qwait_ring(&f.bells[1], 3); /* of weight 2 */
	UNIT_EQUAL(serve_one(), 1);
	UNIT_EQUAL(serve_one(), 1);
	UNIT_EQUAL(serve_one(), 3);
	UNIT_EQUAL(serve_one(), 3);
	UNIT_EQUAL(serve_one(), 1);
	UNIT_EQUAL(serve_one(), QWAIT_NONE);
	close_set();
}

static void strict_priority_starves(void)
{
	open_full_set(QUEUES, QWAIT_STRICT, QWAIT_HIERARCHICAL, 1);
	for (uint32_t q = 0; q < QUEUES; q++)
		qwait_ring(&f.bells[q], q == 0 ? 500 : BACKLOG);
	serve(1500);
	UNIT_EQUAL(f.served[0], 500);
	UNIT_EQUAL(f.served[1], 1000);
	for (uint32_t q = 2; q < QUEUES; q++)
		UNIT_EQUAL(f.served[q], 0);
	qwait_ring(&f.bells[0], 1);
	UNIT_EQUAL(serve_one(), 0); /* at once */
	close_set();
}

/* A queue's items left with an earlier batch, and then its delayed producer rings. */
static void spurious_wake_ups_are_filtered_and_counted(void)
{
	open_full_set(QUEUES, QWAIT_ROUND_ROBIN, QWAIT_HIERARCHICAL, 1);
	qwait_notify(&f.bells[77]);
	UNIT_EQUAL(qwait_next(&f.waiter), 77);
	UNIT_CHECK(!qwait_verify(&f.waiter, 77));
	UNIT_EQUAL(f.waiter.spurious, 1);
	UNIT_EQUAL(qwait_next(&f.waiter), QWAIT_NONE);
	qwait_ring(&f.bells[77], 1); /* armed again */
	UNIT_EQUAL(serve_one(), 77);
	UNIT_EQUAL(f.waiter.returned, 2);
	close_set();
}

static void a_disabled_queue_is_kept_for_later(void)
{
	open_full_set(100, QWAIT_ROUND_ROBIN, QWAIT_HIERARCHICAL, 1);
	UNIT_EQUAL(qwait_disable(f.set, 5), 0);
	qwait_ring(&f.bells[5], 3);
	qwait_ring(&f.bells[6], 1);
	UNIT_EQUAL(serve_one(), 6);
	UNIT_EQUAL(serve_one(), QWAIT_NONE);
	UNIT_EQUAL(qwait_enable(f.set, 5), 0);
	UNIT_EQUAL(serve_one(), 5);
	UNIT_EQUAL(qwait_items(f.set, 5), 2);
	UNIT_EQUAL(qwait_disable(f.set, 100), -ENOENT);
	UNIT_EQUAL(qwait_enable(f.set, 100), -ENOENT);
	close_set();
}

static void a_doorbell_in_use_is_refused(void)
{
	open_set((struct qwait_config){.queues = 10});
	UNIT_EQUAL(qwait_add(f.set, 3, &f.bells[0], 1), 0);
	UNIT_EQUAL(qwait_add(f.set, 4, &f.bells[0], 1), -EBUSY);
	UNIT_EQUAL(qwait_add(f.set, 4, &f.bells[1], 1), 0); /* the next one is tried */
	UNIT_EQUAL(qwait_add(f.set, 3, &f.bells[2], 1), -EEXIST);
	UNIT_EQUAL(qwait_add(f.set, 10, &f.bells[2], 1), -EINVAL);
	UNIT_EQUAL(qwait_add(f.set, 5, &f.bells[2], 0), -EINVAL);
	UNIT_EQUAL(qwait_remove(f.set, 5), -ENOENT);
	UNIT_EQUAL(qwait_remove(f.set, 3), 0);
	qwait_ring(&f.bells[0], 1); /* a late producer */
	UNIT_EQUAL(qwait_next(&f.waiter), 4);
	UNIT_EQUAL(qwait_next(&f.waiter), QWAIT_NONE);
	UNIT_EQUAL(qwait_add(f.set, 6, &f.bells[0], 1), 0);
	UNIT_EQUAL(qwait_next(&f.waiter), 6);
	close_set();
}

/* The waiter owns the queue from qwait_next() until qwait_verify() or qwait_reconsider() returns it. */
static void a_queue_that_is_served_is_not_removed(void)
{
	for (int kind = 0; kind < QWAIT_READY_SETS; kind++) {
		open_full_set(10, QWAIT_ROUND_ROBIN, (enum qwait_ready_set)kind, 1);
		qwait_ring(&f.bells[3], 2);
		UNIT_EQUAL(qwait_next(&f.waiter), 3);
		UNIT_EQUAL(qwait_remove(f.set, 3), -EBUSY);
		UNIT_CHECK(qwait_verify(&f.waiter, 3));
		qwait_took(&f.waiter, 3, 1);
		UNIT_EQUAL(qwait_remove(f.set, 3), -EBUSY);
		qwait_reconsider(&f.waiter, 3); /* ready, and disabled */
		UNIT_EQUAL(qwait_next(&f.waiter), QWAIT_NONE);
		UNIT_EQUAL(qwait_remove(f.set, 3), 0);
		UNIT_EQUAL(qwait_remove(f.set, 3), -ENOENT);
		qwait_ring(&f.bells[4], 1); /* ready, and not yet taken */
		UNIT_EQUAL(qwait_remove(f.set, 4), 0);
		UNIT_EQUAL(qwait_next(&f.waiter), QWAIT_NONE);
		close_set();
	}
}

/* The producer has taken the arming when the queue is removed. */
static void a_queue_that_is_being_rung_is_not_removed(void)
{
	open_full_set(10, QWAIT_ROUND_ROBIN, QWAIT_HIERARCHICAL, 1);
	UNIT_CHECK(qwait_disarm(&f.bells[3]));
	UNIT_EQUAL(qwait_remove(f.set, 3), -EBUSY);
	qwait_activate(f.bells[3].set, f.bells[3].qid);
	UNIT_EQUAL(qwait_remove(f.set, 3), 0);
	close_set();
}

static void items_outlast_adding_and_removing(void)
{
	open_set((struct qwait_config){.queues = 10});
	qwait_ring(&f.bells[0], 3);
	UNIT_EQUAL(qwait_add(f.set, 5, &f.bells[0], 1), 0);
	UNIT_EQUAL(serve_one(), 5);
	UNIT_EQUAL(qwait_items(f.set, 5), 2);
	UNIT_EQUAL(qwait_remove(f.set, 5), 0);
	qwait_ring(&f.bells[0], 1);
	UNIT_EQUAL(qwait_add(f.set, 6, &f.bells[0], 1), 0);
	UNIT_EQUAL(qwait_items(f.set, 6), 3);
	serve(3);
	UNIT_EQUAL(f.served[6], 3);
	UNIT_EQUAL(serve_one(), QWAIT_NONE);
	qwait_close(f.set);
	UNIT_EQUAL(f.bells[0].rung, 0);
	free(f.set);
	free(f.bells);
}

/* Without a cleared summary (config.one_waiter, few queues) the leaves decide. */
static void any_says_when_nothing_is_ready(void)
{
	for (int one_waiter = 0; one_waiter < 2; one_waiter++) {
		open_set((struct qwait_config){.queues = 70, .one_waiter = one_waiter});
		UNIT_EQUAL(qwait_add(f.set, 69, &f.bells[0], 1), 0);
		UNIT_CHECK(qwait_any(f.set));
		UNIT_EQUAL(serve_one(), QWAIT_NONE);
		UNIT_EQUAL(serve_one(), QWAIT_NONE);
		UNIT_CHECK(!qwait_any(f.set));
		qwait_ring(&f.bells[0], 1);
		UNIT_CHECK(qwait_any(f.set));
		close_set();
	}
}

/* The memory of the set can belong to others by then. */
static void a_removed_doorbell_writes_no_events(void)
{
	open_events(2, QWAIT_ROUND_ROBIN);
	UNIT_CHECK(post(1));
	UNIT_EQUAL(qwait_remove(f.set, 1), 0);
	UNIT_CHECK(!post(1)); /* a late producer */
	UNIT_EQUAL(f.set->events.posted, 1);
	UNIT_EQUAL(qwait_next(&f.waiter), QWAIT_NONE); /* its number is still read */
	UNIT_EQUAL(f.set->events.next, 1);
	close_set();
}

static void a_doorbell_outlives_its_set(void)
{
	const struct qwait_config config = {.queues = 10};
	struct qwait *other = lines(qwait_bytes(config.queues));

	open_set(config);
	UNIT_EQUAL(qwait_init(other, &config), 0);
	UNIT_EQUAL(qwait_add(f.set, 3, &f.bells[0], 1), 0);
	qwait_close(f.set);
	UNIT_EQUAL(qwait_add(other, 5, &f.bells[0], 1), 0);
	qwait_close(other);
	free(other);
	free(f.set);
	free(f.bells);
}

static void what_makes_no_sense_is_refused(void)
{
	static const struct qwait_config wrong[] = {
	        {.queues = 0},
	        {.queues = QWAIT_QUEUES_MAX + 1},
	        {.queues = 1, .policy = QWAIT_POLICIES},
	        {.queues = 1, .ready_set = QWAIT_READY_SETS},
	        {.queues = 1, .idle = QWAIT_IDLES},
	};
	const struct qwait_config umwait = {.queues = 1, .idle = QWAIT_UMWAIT};
	struct qwait *set = lines(qwait_bytes(QWAIT_QUEUES_MAX + 1));

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		UNIT_EQUAL(qwait_init(set, &wrong[i]), -EINVAL);
	UNIT_EQUAL(qwait_init(set, &umwait), qwait_has_umwait() ? 0 : -ENOTSUP);
	free(set);
}

static void *ring_later(void *bell)
{
	nanosleep(&(struct timespec){.tv_nsec = 20 * (long)NS_PER_MS}, NULL);
	qwait_ring(bell, 1);
	return NULL;
}

static void a_waiter_is_woken_in_every_idle_state(void)
{
	for (int idle = 0; idle < QWAIT_IDLES; idle++) {
		pthread_t thread;

		if (idle == QWAIT_UMWAIT && !qwait_has_umwait())
			continue;
		open_set((struct qwait_config){
		        .queues = 70, .idle = (enum qwait_idle)idle, .sleep_after_ns = 1000});
		UNIT_EQUAL(qwait_add(f.set, 69, &f.bells[0], 1), 0);
		UNIT_EQUAL(serve_one(), QWAIT_NONE);
		UNIT_EQUAL(qwait(&f.waiter, NO_TIME_NS), QWAIT_NONE);
		UNIT_EQUAL(qwait(&f.waiter, NS_PER_MS), QWAIT_NONE);
		pthread_create(&thread, NULL, ring_later, &f.bells[0]);
		UNIT_EQUAL(qwait(&f.waiter, FOR_EVER_NS), 69);
		pthread_join(thread, NULL);
		UNIT_CHECK((f.waiter.sleeps > 0) == (idle == QWAIT_SLEEP));
		close_set();
	}
}

static void a_waiter_that_serves_waits_anew_before_it_sleeps(void)
{
	open_set((struct qwait_config){.queues = 1, .idle = QWAIT_SLEEP, .sleep_after_ns = 2 * NS_PER_MS});
	UNIT_EQUAL(qwait_add(f.set, 0, &f.bells[0], 1), 0);
	UNIT_EQUAL(serve_one(), QWAIT_NONE);
	UNIT_EQUAL(qwait(&f.waiter, NS_PER_MS), QWAIT_NONE);
	nanosleep(&(struct timespec){.tv_nsec = 3 * (long)NS_PER_MS}, NULL);
	qwait_ring(&f.bells[0], 1);
	UNIT_EQUAL(serve_one(), 0);
	UNIT_EQUAL(qwait(&f.waiter, NS_PER_MS), QWAIT_NONE);
	UNIT_EQUAL(f.waiter.sleeps, 0);
	for (int i = 0; i < 1000 && f.waiter.sleeps == 0; i++)
		UNIT_EQUAL(qwait(&f.waiter, NS_PER_MS), QWAIT_NONE);
	UNIT_CHECK(f.waiter.sleeps > 0);
	close_set();
}

#define CASE(run) {#run, run}

static const struct unit_case cases[] = {
        CASE(only_what_was_rung_is_returned),
        CASE(both_ready_sets_have_one_order),
        CASE(round_robin_is_fair),
        CASE(the_only_waiter_keeps_the_order),
        CASE(a_waiter_steals_when_its_own_set_is_empty),
        CASE(an_event_makes_its_queue_ready),
        CASE(an_event_of_a_queue_that_comes_first_comes_first),
        CASE(other_sets_take_no_events),
        CASE(weights_are_kept),
        CASE(a_weight_is_lost_when_its_queue_runs_empty),
        CASE(strict_priority_starves),
        CASE(spurious_wake_ups_are_filtered_and_counted),
        CASE(a_disabled_queue_is_kept_for_later),
        CASE(a_doorbell_in_use_is_refused),
        CASE(a_queue_that_is_served_is_not_removed),
        CASE(a_queue_that_is_being_rung_is_not_removed),
        CASE(items_outlast_adding_and_removing),
        CASE(any_says_when_nothing_is_ready),
        CASE(a_removed_doorbell_writes_no_events),
        CASE(a_doorbell_outlives_its_set),
        CASE(what_makes_no_sense_is_refused),
        CASE(a_waiter_is_woken_in_every_idle_state),
        CASE(a_waiter_that_serves_waits_anew_before_it_sleeps),
        {NULL, NULL},
};

const struct unit_suite unit_qwait = {"qwait", cases};
