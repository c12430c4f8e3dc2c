/* SPDX-License-Identifier: BSD-3-Clause */
#include "notify.h"

#include <errno.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "clock.h"
#include "net_crossover.h"
#include "ports/ports.h"
#include "qwait.h"

#define PAUSES_BEFORE_SLEEP 10000 /* some 100 us: about what a sleep and a wake-up cost */

static struct {
	uint16_t port;
	struct qwait_doorbell
	        *bells; /* qwait: by RX queue of the port; else by poller; NULL: there is none */
	struct qwait *sets[RTE_MAX_LCORE];
	unsigned int n;
} notify;

void dut_notify_free(void)
{
	/* the port may be gone; what a sender that is stuck in a burst may still ring has to stay, the eventfd too */
	const bool stuck = notify.bells != NULL && net_crossover_notify(notify.port, NULL, 0) == -EBUSY;

	for (unsigned int i = 0; i < notify.n && !stuck; i++) {
		qwait_close(notify.sets[i]);
		rte_free(notify.sets[i]);
	}
	if (!stuck)
		rte_free(notify.bells);
	notify.bells = NULL;
	notify.n = 0;
}

/* A worker that is told has a set of its queues. */
static struct qwait_config set_of_queues(const struct dut_config *config, const struct poller *p)
{
	return (struct qwait_config){
	        .queues = p->queues,
	        .policy = (enum qwait_policy)config->service_order,
	        .ready_set = (enum qwait_ready_set)config->ready_set,
	        .idle = (enum qwait_idle)config->idle,
	        .pauses = PAUSES_BEFORE_SLEEP,
	};
}

/* One that is woken has a set of one, which says no more than that something came; it has spun before it sleeps. */
static struct qwait_config set_of_one(void)
{
	return (struct qwait_config){.queues = 1, .idle = QWAIT_SLEEP};
}

static struct qwait *make_set(const struct qwait_config *wanted, const struct poller *p)
{
	struct qwait *set = rte_zmalloc_socket("qwait", qwait_bytes(wanted->queues), RTE_CACHE_LINE_SIZE,
	                                       (int)rte_lcore_to_socket_id(p->lcore));

	if (set == NULL || qwait_init(set, wanted) == 0)
		return set;
	rte_free(set);
	return NULL;
}

/* Poller i of n has the queues i, i + n ..., which share bell i. */
static int add_shared_bell(struct poller *p, struct qwait *set, unsigned int i, struct node_error *err)
{
	if (qwait_add(set, 0, &notify.bells[i], 1) != 0)
		return node_fail(err, "dut.notification", "lcore %u has no doorbell", p->lcore);
	qwait_waiter_init(&p->waiter, set);
	qwait_next(&p->waiter); /* which was made ready once; the lcore looks by itself */
	return 0;
}

static int add_queues(struct poller *p, struct qwait *set, struct node_error *err)
{
	for (uint32_t qid = 0; qid < p->queues; qid++)
		if (qwait_add(set, qid, &notify.bells[p->first_queue + qid * p->queue_step], 1) != 0)
			return node_fail(err, "dut.notification", "RX queue %u has no doorbell",
			                 p->first_queue + qid * p->queue_step);
	qwait_waiter_init(&p->waiter, set);
	return 0;
}

static int make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                struct node_error *err)
{
	const bool told = config->source == SOURCE_NOTIFIED;
	const uint16_t bells = told ? ports_rx_queues(config->rx_port) : (uint16_t)n;
	const char *name = dut_config_notification(config);

	notify.port = config->rx_port;
	notify.bells = rte_zmalloc_socket("doorbells", bells * sizeof(*notify.bells), RTE_CACHE_LINE_SIZE,
	                                  rte_eth_dev_socket_id(config->rx_port));
	if (notify.bells == NULL)
		return node_fail(err, "dut", "out of memory");
	for (unsigned int i = 0; i < n; i++) {
		const struct qwait_config wanted = told ? set_of_queues(config, pollers[i]) : set_of_one();

		notify.sets[i] = make_set(&wanted, pollers[i]);
		if (notify.sets[i] == NULL)
			return node_fail(err, "dut.notification", "no memory or no eventfd for %u queues",
			                 pollers[i]->queues);
		notify.n++;
		if (told ? add_queues(pollers[i], notify.sets[i], err)
		         : add_shared_bell(pollers[i], notify.sets[i], i, err))
			return -1;
	}
	switch (net_crossover_notify(notify.port, notify.bells, bells)) {
	case 0:
		return 0;
	case -ENOTSUP:
		return node_fail(err, "dut.notification",
		                 "%s: with feed=infinite nobody sends, so nobody rings; use feed=wire", name);
	case -ENODEV:
		return node_fail(err, "dut.notification",
		                 "%s: whoever sends to the RX port has to ring, and only net_crossover does",
		                 name);
	default:
		return node_fail(err, "dut.notification", "%s: another process keeps the port busy", name);
	}
}

/* What the loops of SOURCE_WAITING look at (loop/quiet.h). */
static void set_waits(const struct dut_config *config, struct poller *p)
{
	static const enum poller_wait waits[] = {
	        [NOTIFICATION_INTERRUPT] = WAIT_INTERRUPT,
	        [NOTIFICATION_ADAPTIVE] = WAIT_INTERRUPT,
	        [NOTIFICATION_MONITOR] = WAIT_MONITOR,
	        [NOTIFICATION_SLEEP_RAMP] = WAIT_RAMP,
	};
	const bool adaptive = config->notification == NOTIFICATION_ADAPTIVE;

	p->wait = waits[config->notification];
	p->wait_after_cycles = adaptive ? cycles_of_ns(config->wait_after_ns, clock_tsc_hz()) : 0;
	p->nap_ns = 0;
	qwait_waiter_init(&p->waiter, NULL);
}

static bool needs_bells(const struct dut_config *config)
{
	return config->source == SOURCE_NOTIFIED ||
	       (config->source == SOURCE_WAITING && config->notification != NOTIFICATION_SLEEP_RAMP);
}

int dut_notify_make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                    struct node_error *err)
{
	dut_notify_free();
	for (unsigned int i = 0; i < n && config->source == SOURCE_WAITING; i++)
		set_waits(config, pollers[i]);
	if (!needs_bells(config) || make(config, pollers, n, err) == 0)
		return 0;
	dut_notify_free();
	return -1;
}
