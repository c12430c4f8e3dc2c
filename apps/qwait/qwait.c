/* SPDX-License-Identifier: BSD-3-Clause */
#include "qwait.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define PAUSES_PER_LOOK 32 /* at the clock */

/* Two cache lines of leaves: their only waiter looks at all of them, and needs no summary. */
#define FEW_LEAVES (2 * QWAIT_LINE_BYTES / sizeof(qwait_u64))

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t deadline_after_ns(uint64_t ns)
{
	const uint64_t now_ns = monotonic_ns();

	return ns < UINT64_MAX - now_ns ? now_ns + ns : UINT64_MAX;
}

size_t qwait_bytes(uint32_t queues)
{
	const size_t bytes = sizeof(struct qwait) + queues * (sizeof(struct qwait_queue) + sizeof(uint32_t));

	return (bytes + QWAIT_LINE_BYTES - 1) / QWAIT_LINE_BYTES * QWAIT_LINE_BYTES;
}

int qwait_init(struct qwait *set, const struct qwait_config *config)
{
	if (config->queues == 0 || config->queues > QWAIT_QUEUES_MAX || config->policy >= QWAIT_POLICIES ||
	    config->ready_set >= QWAIT_READY_SETS || config->idle >= QWAIT_IDLES)
		return -EINVAL;
	if (config->idle == QWAIT_UMWAIT && !qwait_has_umwait())
		return -ENOTSUP;
	memset(set, 0, qwait_bytes(config->queues));
	set->config = *config;
	set->leaves = (config->queues + QWAIT_LEAF_QUEUES - 1) / QWAIT_LEAF_QUEUES;
	set->lowers = !config->one_waiter || config->idle == QWAIT_UMWAIT || set->leaves > FEW_LEAVES;
	set->posts = config->one_waiter && config->one_poster && config->ready_set == QWAIT_HIERARCHICAL &&
	             config->idle == QWAIT_PAUSE;
	set->list.qids = (uint32_t *)&set->queues[config->queues];
	for (uint32_t qid = 0; qid < config->queues; qid++)
		set->queues[qid].disabled = 1;
	set->process = getpid();
	set->event_fd = config->idle == QWAIT_SLEEP ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
	return config->idle == QWAIT_SLEEP && set->event_fd < 0 ? -errno : 0;
}

static bool is_added(const struct qwait *set, uint32_t qid)
{
	return qid < set->config.queues && set->queues[qid].added;
}

/* Nobody serves the queue. Items that were not taken stay in the doorbell's count, for the next queue that it joins. */
static void free_bell(struct qwait_queue *queue)
{
	qwait_fetch_add(&queue->bell->rung, -queue->taken);
	qwait_store(&queue->bell->armed, 0);
	queue->bell->set = NULL;
	if (queue->bell->events != NULL)
		queue->bell->events = NULL;
	queue->added = false; /* keep `bell`: a waiter that has just armed it reads it once more */
}

void qwait_close(struct qwait *set)
{
	for (uint32_t qid = 0; qid < set->config.queues; qid++)
		if (is_added(set, qid))
			free_bell(&set->queues[qid]);
	if (set->event_fd >= 0)
		close(set->event_fd);
	set->event_fd = -1;
}

int qwait_add(struct qwait *set, uint32_t qid, struct qwait_doorbell *bell, uint32_t weight)
{
	struct qwait_queue *queue;

	if (qid >= set->config.queues || weight == 0)
		return -EINVAL;
	if (is_added(set, qid))
		return -EEXIST;
	if (bell->set != NULL)
		return -EBUSY;
	bell->set = set;
	bell->qid = qid;
	if (set->posts)
		bell->events = &set->events;
	queue = &set->queues[qid];
	if (queue->bell != bell) /* see free_bell() */
		queue->bell = bell;
	queue->weight = weight;
	queue->taken = 0;
	queue->added = true;
	qwait_store(&queue->parked, 0);
	qwait_store(&queue->disabled, 0);
	qwait_activate(set, qid);
	return 0;
}

/*
 * Takes the disabled queue out of the state it is in: armed, kept for qwait_enable(), or ready. A late producer then finds the doorbell not
 * armed and does not touch the set. False: a waiter serves the queue or is about to find it disabled, or a producer has taken the
 * arming and has not made the queue ready yet. Each of these ends in one of the three states.
 */
static bool take_queue(struct qwait *set, uint32_t qid)
{
	struct qwait_queue *queue = &set->queues[qid];

	if (qwait_exchange(&queue->bell->armed, 0) || qwait_exchange(&queue->parked, 0))
		return true;
	return set->config.ready_set == QWAIT_LINEAR ? qwait_list_take_one(set, qid)
	                                             : qwait_bitmap_take_one(&set->ready, qid);
}

int qwait_remove(struct qwait *set, uint32_t qid)
{
	if (!is_added(set, qid))
		return -ENOENT;
	qwait_store(&set->queues[qid].disabled, 1);
	if (!take_queue(set, qid) && !set->posts)
		return -EBUSY;
	/* With events a queue may be ready beside being armed. */
	if (set->posts)
		qwait_bitmap_take_one(&set->ready, qid);
	free_bell(&set->queues[qid]);
	return 0;
}

int qwait_disable(struct qwait *set, uint32_t qid)
{
	if (!is_added(set, qid))
		return -ENOENT;
	qwait_store(&set->queues[qid].disabled, 1);
	return 0;
}

int qwait_enable(struct qwait *set, uint32_t qid)
{
	if (!is_added(set, qid))
		return -ENOENT;
	qwait_store(&set->queues[qid].disabled, 0);
	if (qwait_exchange(&set->queues[qid].parked, 0))
		qwait_activate(set, qid);
	return 0;
}

/*
 * Keeps a queue that was taken while it was disabled for qwait_enable(). Returns false if it was enabled since then and
 * no other thread has it: then it is the caller's. The stores and loads of `parked` and `disabled` here and there are
 * SC: one of the two threads sees the other's.
 */
bool qwait_park(struct qwait *set, uint32_t qid)
{
	struct qwait_queue *queue = &set->queues[qid];

	qwait_store(&queue->parked, 1);
	return qwait_load(&queue->disabled) || !qwait_exchange(&queue->parked, 0);
}

void qwait_wake(const struct qwait *set)
{
	const uint64_t one = 1;

	if (set->event_fd < 0 || set->process != getpid())
		return;
	/* The counter is full only if the sleeper has 2^64 - 2 wake-ups to read: then it is awake. */
	if (write(set->event_fd, &one, sizeof(one)) < 0)
		return;
}

static bool look_until(struct qwait_waiter *waiter, uint64_t deadline_ns)
{
	while (monotonic_ns() < deadline_ns)
		for (int i = 0; i < PAUSES_PER_LOOK; i++) {
			if (qwait_look(waiter))
				return true;
			qwait_pause();
		}
	return qwait_look(waiter);
}

static bool sleep_until(struct qwait_waiter *waiter, uint64_t deadline_ns)
{
	struct qwait *set = waiter->set;
	struct pollfd event = {.fd = set->event_fd, .events = POLLIN};
	const uint64_t now_ns = monotonic_ns();
	uint64_t wake_ups;

	if (now_ns >= deadline_ns)
		return qwait_look(waiter);
	qwait_fetch_add(&set->ready.sleepers, 1);
	/* After the increment, see qwait_protocol.h: activation against sleep. */
	if (!qwait_look(waiter)) {
		const struct timespec left = {.tv_sec = (time_t)((deadline_ns - now_ns) / 1000000000u),
		                              .tv_nsec = (long)((deadline_ns - now_ns) % 1000000000u)};

		waiter->sleeps++;
		if (ppoll(&event, 1, &left, NULL) > 0 && read(set->event_fd, &wake_ups, sizeof(wake_ups)) < 0)
			wake_ups = 0; /* another waiter of the set has read it */
	}
	qwait_fetch_add(&set->ready.sleepers, (uint32_t)-1);
	return qwait_look(waiter);
}

/* Waits that end by time count as one wait: if the time to sleep has come, the next one sleeps at once. */
static bool look_or_sleep_until(struct qwait_waiter *waiter, uint64_t deadline_ns)
{
	if (waiter->sleep_at_ns == 0)
		waiter->sleep_at_ns = deadline_after_ns(waiter->set->config.sleep_after_ns);
	return look_until(waiter, waiter->sleep_at_ns < deadline_ns ? waiter->sleep_at_ns : deadline_ns) ||
	       sleep_until(waiter, deadline_ns);
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>

#define CPUID_7_ECX_WAITPKG (1u << 5)
#define UMWAIT_C01          1 /* the lighter of its two states */

bool qwait_has_umwait(void)
{
	unsigned int a, b, c = 0, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & CPUID_7_ECX_WAITPKG);
}

__attribute__((target("waitpkg"))) static void halt_until(struct qwait *set, uint64_t tsc)
{
	_umonitor(set->config.ready_set == QWAIT_LINEAR ? (void *)&set->list.count
	                                                : (void *)&set->ready.summary);
	if (!qwait_any(set))
		_umwait(UMWAIT_C01, tsc);
}

#define HALT_CYCLES 100000 /* the kernel's own limit, umwait_control/max_time */

static bool halt(struct qwait_waiter *waiter, uint64_t deadline_ns)
{
	struct qwait *set = waiter->set;

	while (!qwait_any(set) && monotonic_ns() < deadline_ns)
		halt_until(set, __rdtsc() + HALT_CYCLES);
	return qwait_any(set);
}
#else
bool qwait_has_umwait(void)
{
	return false;
}

static bool halt(struct qwait_waiter *waiter, uint64_t deadline_ns)
{
	return look_until(waiter, deadline_ns);
}
#endif

bool qwait_idle(struct qwait_waiter *waiter, uint64_t max_ns)
{
	struct qwait *set = waiter->set;
	const uint64_t deadline_ns = deadline_after_ns(max_ns);

	switch (set->config.idle) {
	case QWAIT_SLEEP:
		return look_or_sleep_until(waiter, deadline_ns);
	case QWAIT_UMWAIT:
		return halt(waiter, deadline_ns);
	default:
		return look_until(waiter, deadline_ns);
	}
}

uint32_t qwait(struct qwait_waiter *waiter, uint64_t max_ns)
{
	const uint64_t deadline_ns = deadline_after_ns(max_ns);
	uint32_t qid = qwait_next(waiter);

	while (qid == QWAIT_NONE) {
		const uint64_t now_ns = monotonic_ns();

		if (now_ns >= deadline_ns)
			return QWAIT_NONE;
		qwait_idle(waiter, deadline_ns - now_ns);
		qid = qwait_next(waiter);
	}
	return qid;
}
