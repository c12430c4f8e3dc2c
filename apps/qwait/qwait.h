/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NAME
 *   qwait - wait for the next of many queues, in software
 *
 * SYNOPSIS
 *   #include "qwait.h"            cc -D_GNU_SOURCE PROGRAM.c qwait.c qwait_linear.c -pthread
 *
 *   control:   size_t qwait_bytes(queues);              int qwait_init(set, config);   void qwait_close(set);
 *              int qwait_add(set, qid, bell, weight);   int qwait_remove(set, qid);
 *              int qwait_enable(set, qid);              int qwait_disable(set, qid);
 *   producer:  void qwait_ring(bell, items);
 *   consumer:  void qwait_waiter_init(waiter, set);     uint32_t qwait_items(set, qid);
 *              uint32_t qwait_next(waiter);             uint32_t qwait(waiter, max_ns);
 *              bool qwait_verify(waiter, qid);          void qwait_took(waiter, qid, items);
 *              void qwait_reconsider(waiter, qid);
 *              uint32_t qwait_steal(victims, n, at);    bool qwait_idle(waiter, max_ns);
 *              bool qwait_look(waiter);                 bool qwait_any(set);                 bool qwait_has_umwait(void);
 *   by DD:     void qwait_notify(bell);                 void qwait_notify_at_once(bell);      (producer)
 *              bool qwait_post(bell);
 *              bool qwait_stays_armed(set, qid);        void qwait_rearm(set, qid);
 *              bool qwait_take_back(set, qid);          void qwait_activate(set, qid);           (consumer)
 *
 * DESCRIPTION
 *   The programming model of HyperPlane (MICRO'20, algorithm 1) without its hardware. Each queue has a doorbell in memory. A producer
 *   rings it after it enqueued items. A consumer asks for the next queue that has items, and never looks at empty queues:
 *
 *       qid = qwait(&waiter, max_ns);             the next ready queue, in the order of the policy
 *       if (qid == QWAIT_NONE) continue;          time is up
 *       if (!qwait_verify(&waiter, qid)) continue;   it was empty after all; it is armed again
 *       n = dequeue a batch of queue qid;
 *       qwait_took(&waiter, qid, n);              the matching decrement of the doorbell's counter
 *       qwait_reconsider(&waiter, qid);           arms the queue, or makes it ready again if there is more
 *       process the batch;
 *
 *   Without verify or reconsider arrivals are lost: a queue that was returned is neither armed nor ready until one of the two makes it so.
 *   With the order above another consumer of the set can have the queue's next batch while this one is processed. To keep the
 *   order of flows (ordered mode) call qwait_reconsider() after the processing: until then no other waiter gets the
 * queue.
 *
 *   A queue whose emptiness is visible otherwise (the DD bit of a NIC's descriptor) needs no counter. The producer calls qwait_notify() after a
 *   full barrier. A queue's only producer may call qwait_notify_at_once() without a barrier. A set's only producer calls qwait_post()
 *   first, and rings only if that returns false. The consumer's poll replaces verify, and these calls after it replace reconsider:
 *
 *       if (qwait_stays_armed(set, qid)) continue;     with events only, after a poll that left nothing
 *       qwait_rearm(set, qid);
 *       if (the queue is not empty after all && qwait_take_back(set, qid)) qwait_activate(set, qid);
 *
 * FUNCTIONS
 *   qwait_bytes()   Size of a set for this many queues. The caller provides the memory, aligned to QWAIT_LINE_BYTES; shared
 *                   memory works if all processes map it at one address.
 *   qwait_init()    0, or -EINVAL: no queue, more than QWAIT_QUEUES_MAX, or no such policy, ready set or idle state; -ENOTSUP:
 *                   this processor has no UMWAIT; or -errno of eventfd(2).
 *   qwait_close()   Releases the system resources of the set, and frees the doorbells that are still joined, whose memory must still exist.
 *                   Nobody may use the set any more.
 *   qwait_add()     Joins queue and doorbell, and makes the queue ready once, so that items that wait already are seen. The doorbell
 *                   keeps its count: items that were rung before the call or during it are served. A new doorbell is all zero.
 *                   `weight`: busy polls in a row under QWAIT_WEIGHTED, at least 1. 0, or -EINVAL: no such queue, or weight 0;
 *                   -EEXIST: the queue has a doorbell already; -EBUSY: the doorbell is another queue's: try another one.
 *   qwait_remove()  Disables the queue and frees its doorbell, which keeps the count of items that were not taken. 0, or -ENOENT, or
 *                   -EBUSY: a waiter serves the queue, or a producer is making it ready. The queue stays disabled; call again until
 *                   it returns 0. The thread that serves the queue calls qwait_reconsider() first. A producer that still rings
 *                   does no harm while the doorbell's memory is there. A waiter may have armed the doorbell at this very moment,
 *                   and then looks at it once more: let it join another queue, or free its memory, only after all waiters of the
 *                   set have called qwait_next() again.
 *   qwait_disable() The queue is not returned, even if it is ready, until qwait_enable(): for example to slow a queue down. Items that are
 *                   rung meanwhile are kept. A waiter that is being given the queue at this moment still gets it. 0, or -ENOENT.
 *   qwait_enable()  0, or -ENOENT. By any thread.
 *   qwait_ring()    `items` more are in the queue. By any thread; orders what was written before it. At most 2^32 - 1 may wait.
 *   qwait_waiter_init()  A thread's place in the order of the set, at its beginning.
 *   qwait_items()   Items that were rung and not taken, for the waiter that serves the queue.
 *   qwait_next()    Non-blocking: a ready queue's number, or QWAIT_NONE.
 *   qwait_steal()   The same for the sets of others, for a thread that has nothing to do: `victims` are its waiters of these sets. The queue
 *                   belongs to victims[*at]; pass that waiter to verify, took and reconsider.
 *   qwait()         The same as qwait_next(), but waits up to max_ns (UINT64_MAX: without limit) as config.idle says. No signal ends it.
 *   qwait_idle()    Waits the same way, up to max_ns, and takes nothing. True: something may be ready; call qwait_next(). False: time is up,
 *                   or another waiter was quicker.
 *   qwait_look()    One look at the ready bits, for a waiter that idles in its own way. True: something may be ready, and the next
 *                   qwait_next() begins there.
 *   qwait_any()     The same for a set of which the thread has no waiter. It reads the summary (the leaves if the summary is never
 *                   cleared), and no events that the set's waiter has not read. Not for a thread that is about to sleep.
 *   qwait_has_umwait()  This processor has UMONITOR and UMWAIT, which QWAIT_UMWAIT needs.
 *   qwait_verify()  True: there are items. False: there are none (counted in waiter.spurious), and the queue is armed.
 *   qwait_took()    `items` were dequeued.
 *   qwait_reconsider()  Arms the queue if it is empty, else makes it ready; atomic against arrivals.
 *
 * POLICIES
 *   QWAIT_ROUND_ROBIN  the first ready queue after the one returned last.
 *   QWAIT_WEIGHTED     the same, but a queue is returned up to its weight in a row while it stays ready.
 *   QWAIT_STRICT       the ready queue with the lowest number. Queues after a busy one starve.
 *   The place in the order belongs to the waiter: with several waiters on a set each goes round by itself.
 *
 * READY SETS
 *   QWAIT_HIERARCHICAL  words of bits and a summary of them (qwait_protocol.h): O(1).
 *   QWAIT_LINEAR        an unsorted list that the iterator searches, under a lock: O(ready queues). It is the software ready set
 *                       that the paper compares with (section V-E).
 *
 * SEVERAL CORES
 *   shared          one set, one waiter per core: any core serves any queue, one core at a time.
 *   partitioned     one set per group of cores, for example per NUMA node: lines that are often written stay there.
 *   with stealing   one set per core, and waiters of the other sets beside it: a core with nothing to do serves others' queues. A sleeping core
 *                   is not woken for that: its doorbells are those of its own set.
 *   alone           one set per core with config.one_waiter: under QWAIT_ROUND_ROBIN the waiter takes the ready queues of a leaf at once and
 *                   returns them one by one. Nobody else may have a waiter of the set. If the waiter pauses, and the set is hierarchical and
 *                   has a single producer (config.one_poster), that producer writes events with qwait_post(). An event costs it a
 *                   store instead of a locked exchange and a change of the ready bits.
 *
 * IDLE STATES, when nothing is ready
 *   QWAIT_PAUSE   looks at the ready bits, eight words per line, with pauses.
 *   QWAIT_SLEEP   the same until nothing was ready for config.sleep_after_ns, then sleeps on an eventfd(2). A producer that finds it asleep
 *                 pays a system call. A producer in another process cannot wake it: it then sleeps up to max_ns.
 *   QWAIT_UMWAIT  halts in UMONITOR and UMWAIT on the summary's line (C0.1), for processors with WAITPKG.
 *
 * THREADS
 *   Any number of producers and of waiters; a waiter belongs to one thread. Control functions are called by one thread at a
 *   time, beside running producers and waiters. With config.one_poster a queue is added or removed only while the producer rests
 *   and the waiter does not serve it: events do not show whether a waiter serves a queue.
 *
 * EXAMPLE
 *   example.c: one thread rings 100 doorbells, another serves what is ready; 40 lines.
 *
 * SEE ALSO
 *   qwait_protocol.h: why no arrival is lost. docs/queue-sharing-and-notification.md: gain and cost. eventfd(2), epoll(7): the same
 *   for file descriptors.
 */
#ifndef QWAIT_H
#define QWAIT_H

#include <stddef.h>

#include "qwait_protocol.h"

#define QWAIT_POLLS_PER_LOOK 8 /* at events, while other queues are ready */

enum qwait_policy { QWAIT_ROUND_ROBIN, QWAIT_WEIGHTED, QWAIT_STRICT, QWAIT_POLICIES };
enum qwait_ready_set { QWAIT_HIERARCHICAL, QWAIT_LINEAR, QWAIT_READY_SETS };
enum qwait_idle { QWAIT_PAUSE, QWAIT_SLEEP, QWAIT_UMWAIT, QWAIT_IDLES };

struct qwait_config {
	uint32_t queues; /* they have the numbers 0 to queues - 1 */
	enum qwait_policy policy;
	enum qwait_ready_set ready_set;
	enum qwait_idle idle;
	uint64_t sleep_after_ns; /* QWAIT_SLEEP: without anything ready */
	bool one_waiter;         /* the set has a single waiter, which may take many queues at once */
	/* no two threads at a time call qwait_post() for queues of the set, and while one does none is added or removed */
	bool one_poster;
};

struct qwait_queue {
	struct qwait_doorbell *bell;
	uint32_t weight;
	uint32_t taken; /* items; by the waiter that serves the queue */
	qwait_u32 disabled;
	qwait_u32 parked; /* it was ready while it was disabled */
	bool added;       /* by control functions alone */
};

struct qwait_list {
	alignas(QWAIT_LINE_BYTES) qwait_u32 lock;
	qwait_u32 count;
	uint32_t *qids;
};

struct qwait {
	struct qwait_bitmap ready; /* QWAIT_LINEAR: `sleepers` only */
	struct qwait_list list;
	alignas(QWAIT_LINE_BYTES) struct qwait_config config;
	int event_fd;    /* -1: no thread sleeps */
	int process;     /* process in which event_fd is open */
	uint32_t leaves; /* of `ready` that are in use */
	bool lowers;     /* bits of the summary are cleared (qwait_protocol.h) */
	bool posts;      /* `events` is in use */
	struct qwait_events events;
	struct qwait_queue queues[];
};

/* A consumer's place in the order, and its counts. */
struct qwait_waiter {
	struct qwait *set;
	uint32_t from;     /* where to look next */
	uint32_t credit;   /* QWAIT_WEIGHTED: how often queue `from` is still returned */
	uint64_t seen;     /* leaves in which qwait_look() saw something; for the next take */
	uint32_t leaf;     /* config.one_waiter: of this leaf ... */
	uint64_t held;     /* ... these queues are taken and not returned yet */
	uint32_t unlooked; /* config.one_poster: queues returned since it looked at events */
	uint64_t returned; /* queues, spurious ones among them */
	uint64_t spurious; /* of these, empty ones */
	uint64_t sleeps;   /* QWAIT_SLEEP: system calls that waited */
	uint64_t
	        sleep_at_ns; /* QWAIT_SLEEP: it waits already, and sleeps from then on; 0: it does not wait */
};

size_t qwait_bytes(uint32_t queues);
int qwait_init(struct qwait *set, const struct qwait_config *config);
void qwait_close(struct qwait *set);
int qwait_add(struct qwait *set, uint32_t qid, struct qwait_doorbell *bell, uint32_t weight);
int qwait_remove(struct qwait *set, uint32_t qid);
int qwait_enable(struct qwait *set, uint32_t qid);
int qwait_disable(struct qwait *set, uint32_t qid);
uint32_t qwait(struct qwait_waiter *waiter, uint64_t max_ns);

/* This processor has UMONITOR, UMWAIT and TPAUSE. */
bool qwait_has_umwait(void);

/* Wait up to max_ns for something to be ready, as config.idle says. True: something may be. */
bool qwait_idle(struct qwait_waiter *waiter, uint64_t max_ns);

/* Slow paths of the inline functions below. */
void qwait_list_set(struct qwait *set, uint32_t qid);
uint32_t qwait_list_take(struct qwait *set, uint32_t from);
bool qwait_list_take_one(struct qwait *set, uint32_t qid);
bool qwait_park(struct qwait *set, uint32_t qid);

/* Wakes a sleeper. Here, because a driver that rings is a library of its own. */
void qwait_wake(const struct qwait *set);

static inline void qwait_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

static inline void qwait_waiter_init(struct qwait_waiter *waiter, struct qwait *set)
{
	*waiter = (struct qwait_waiter){.set = set};
}

/* Returns whether something may be ready. */
static inline bool qwait_any(struct qwait *set)
{
	if (set->config.ready_set == QWAIT_LINEAR)
		return qwait_load(&set->list.count) != 0;
	return set->lowers ? qwait_bitmap_any(&set->ready) : qwait_bitmap_look(&set->ready, set->leaves) != 0;
}

/* The same for a waiter that has nothing to do; the next qwait_next() begins where something was seen. */
static inline bool qwait_look(struct qwait_waiter *waiter)
{
	struct qwait *set = waiter->set;

	if (set->config.ready_set == QWAIT_LINEAR)
		return qwait_any(set);
	waiter->seen = set->posts ? qwait_events_take(&set->events, &set->ready, set->lowers) : 0;
	if (waiter->seen == 0)
		waiter->seen = qwait_bitmap_look(&set->ready, set->leaves);
	return waiter->seen != 0;
}

/* Makes the queue ready; a queue that is so already stays so. */
static inline void qwait_activate(struct qwait *set, uint32_t qid)
{
	if (__builtin_expect(set->config.ready_set == QWAIT_LINEAR, 0))
		qwait_list_set(set, qid);
	else
		qwait_bitmap_set(&set->ready, qid, set->lowers);
	if (__builtin_expect(qwait_load(&set->ready.sleepers) != 0, 0))
		qwait_wake(set);
}

/* Rings without counting. A full barrier lies between the store that shows that the queue is not empty and this call. */
static inline void qwait_notify(struct qwait_doorbell *bell)
{
	if (qwait_disarm(bell))
		qwait_activate(bell->set, bell->qid);
}

/* The same without a barrier in between, by the only producer of the queue. */
static inline void qwait_notify_at_once(struct qwait_doorbell *bell)
{
	if (qwait_disarm_at_once(bell))
		qwait_activate(bell->set, bell->qid);
}

/* The same as an event. Returns false if this set takes no events, or not one more at this moment. */
static inline bool qwait_post(const struct qwait_doorbell *bell)
{
	return bell->events != NULL && qwait_events_post(bell->events, bell->qid);
}

static inline void qwait_ring(struct qwait_doorbell *bell, uint32_t items)
{
	qwait_fetch_add(&bell->rung, items);
	qwait_notify(bell);
}

/* Round-robin goes through a leaf in this order anyway; the other policies decide again each time. */
static inline bool qwait_takes_many(const struct qwait_config *config)
{
	return config->one_waiter && config->policy == QWAIT_ROUND_ROBIN;
}

/*
 * Takes the ready queues of the next leaf. The producer writes the events' lines, so while bits are set the waiter reads them only now and then: at
 * the latest after the queues of a leaf and QWAIT_POLLS_PER_LOOK more.
 */
static inline void qwait_hold(struct qwait_waiter *waiter, uint64_t seen)
{
	struct qwait *set = waiter->set;

	if (set->posts && waiter->unlooked >= QWAIT_POLLS_PER_LOOK) {
		waiter->unlooked = 0;
		qwait_events_take(&set->events, &set->ready, set->lowers);
	}
	waiter->held = qwait_bitmap_take_leaf(&set->ready, waiter->from, seen, set->lowers, &waiter->leaf);
	if (waiter->held != 0 || !set->posts)
		return;
	seen = qwait_events_take(&set->events, &set->ready, set->lowers);
	if (seen)
		waiter->held =
		        qwait_bitmap_take_leaf(&set->ready, waiter->from, seen, set->lowers, &waiter->leaf);
}

static inline uint32_t qwait_take(struct qwait_waiter *waiter)
{
	struct qwait *set = waiter->set;
	const uint64_t seen = waiter->seen;

	if (__builtin_expect(set->config.ready_set == QWAIT_LINEAR, 0))
		return qwait_list_take(set, waiter->from);
	waiter->seen = 0;
	if (!qwait_takes_many(&set->config)) {
		if (set->posts)
			qwait_events_take(&set->events, &set->ready, set->lowers);
		return qwait_bitmap_take(&set->ready, waiter->from, seen, set->lowers);
	}
	if (waiter->held == 0)
		qwait_hold(waiter, seen);
	if (waiter->held == 0)
		return QWAIT_NONE;
	const uint32_t at = qwait_first(waiter->held);

	waiter->held &= waiter->held - 1;
	waiter->unlooked++;
	return (waiter->leaf << QWAIT_LEAF_LOG2) + at;
}

/* Sets where the waiter looks next, after queue qid. */
static inline void qwait_pass(struct qwait_waiter *waiter, uint32_t qid)
{
	const struct qwait_config *config = &waiter->set->config;

	if (config->policy == QWAIT_STRICT)
		return;
	if (config->policy == QWAIT_WEIGHTED) {
		if (qid != waiter->from || waiter->credit == 0)
			waiter->credit = waiter->set->queues[qid].weight;
		waiter->from = qid;
		if (--waiter->credit > 0)
			return;
	}
	waiter->from = qid + 1 == config->queues ? 0 : qid + 1;
}

static inline uint32_t qwait_next(struct qwait_waiter *waiter)
{
	struct qwait *set = waiter->set;
	uint32_t qid;

	do {
		qid = qwait_take(waiter);
		if (qid == QWAIT_NONE)
			return QWAIT_NONE;
	} while (__builtin_expect(qwait_load(&set->queues[qid].disabled), 0) && qwait_park(set, qid));
	qwait_pass(waiter, qid);
	waiter->returned++;
	waiter->sleep_at_ns = 0;
	return qid;
}

/*
 * Non-blocking, for a thread that has nothing to do: looks at `victims`, the thread's waiters of other sets, in this order. Returns the number of a
 * ready queue in the set of victims[*at], or QWAIT_NONE.
 */
static inline uint32_t qwait_steal(struct qwait_waiter *victims, uint32_t n, uint32_t *at)
{
	for (*at = 0; *at < n; (*at)++) {
		/* Reads first: most sets have nothing, and a write would take the line from their own waiters. */
		const uint32_t qid = qwait_any(victims[*at].set) ? qwait_next(&victims[*at]) : QWAIT_NONE;

		if (qid != QWAIT_NONE)
			return qid;
	}
	return QWAIT_NONE;
}

/* Returns whether a queue that seemed empty is still armed: then there is nothing to do. */
static inline bool qwait_stays_armed(const struct qwait *set, uint32_t qid)
{
	return set->posts && qwait_is_armed(set->queues[qid].bell);
}

/* Arms a queue that seemed empty. The caller looks at it once more. */
static inline void qwait_rearm(struct qwait *set, uint32_t qid)
{
	qwait_arm(set->queues[qid].bell);
}

/* Takes the queue back after that look found something. Returns true if it is the caller's again, false if it was made ready meanwhile. */
static inline bool qwait_take_back(struct qwait *set, uint32_t qid)
{
	return qwait_disarm(set->queues[qid].bell);
}

/* Returns the items in the queue by its doorbell's count. */
static inline uint32_t qwait_items(struct qwait *set, uint32_t qid)
{
	const struct qwait_queue *queue = &set->queues[qid];

	return qwait_load(&queue->bell->rung) - queue->taken;
}

/* Arms an empty queue. Returns true if something came meanwhile and the queue is the caller's, false if it is armed or ready. */
static inline bool qwait_arm_and_look(struct qwait *set, uint32_t qid)
{
	const struct qwait_queue *queue = &set->queues[qid];
	/* Read first: once the doorbell is armed, another waiter may serve the queue. */
	struct qwait_doorbell *bell = queue->bell;
	const uint32_t taken = queue->taken;

	if (qwait_stays_armed(set, qid))
		return false;
	qwait_arm(bell);
	return qwait_load(&bell->rung) != taken && qwait_disarm(bell);
}

static inline bool qwait_verify(struct qwait_waiter *waiter, uint32_t qid)
{
	if (qwait_items(waiter->set, qid) != 0)
		return true;
	waiter->spurious++;
	return qwait_arm_and_look(waiter->set, qid);
}

static inline void qwait_took(struct qwait_waiter *waiter, uint32_t qid, uint32_t items)
{
	waiter->set->queues[qid].taken += items;
}

static inline void qwait_reconsider(struct qwait_waiter *waiter, uint32_t qid)
{
	if (qwait_items(waiter->set, qid) != 0 || qwait_arm_and_look(waiter->set, qid))
		qwait_activate(waiter->set, qid);
}

#endif
