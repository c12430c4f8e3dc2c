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

static struct {
	uint16_t port;
	struct qwait_doorbell *bells; /* qwait: by RX queue of the port; otherwise by poller; NULL: none */
	bool notified;                /* qwait */
	struct qwait *sets[RTE_MAX_LCORE];           /* qwait: by group; otherwise by poller */
	struct qwait_waiter *victims[RTE_MAX_LCORE]; /* by poller; NULL: it does not steal */
	struct rte_power_monitor_cond
	        *lines[RTE_MAX_LCORE]; /* by poller; NULL: it does not halt on several lines */
	unsigned int n;
} notify;

void dut_notify_free(void)
{
	/* the port may be gone; a sender stuck in a burst may still ring, so bells and eventfd must stay */
	const bool stuck = notify.bells != NULL && net_crossover_notify(notify.port, NULL, 0) == -EBUSY;

	for (unsigned int i = 0; i < notify.n && !stuck; i++) {
		qwait_close(notify.sets[i]);
		rte_free(notify.sets[i]);
	}
	for (unsigned int i = 0; i < RTE_MAX_LCORE; i++) {
		rte_free(notify.victims[i]);
		notify.victims[i] = NULL;
		rte_free(notify.lines[i]);
		notify.lines[i] = NULL;
	}
	if (!stuck)
		rte_free(notify.bells);
	notify.bells = NULL;
	notify.n = 0;
}

/* Notified workers have a set of their queues. */
static struct qwait_config set_of_queues(const struct dut_config *config, const struct poller *p)
{
	return (struct qwait_config){
	        .queues = p->queues,
	        .policy = (enum qwait_policy)config->service_order,
	        .ready_set = (enum qwait_ready_set)config->ready_set,
	        .idle = (enum qwait_idle)config->idle,
	        .sleep_after_ns = config->wait_after_ns,
	        .one_waiter = p->alone,
	        .one_poster = true, /* the port has one sender, see crossover_tx.c */
	};
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
	qwait_next(&p->waiter); /* it was made ready once; the lcore polls on its own */
	return 0;
}

static uint32_t weight_of(const struct dut_config *config, uint32_t queue)
{
	return config->nb_weights ? config->queue_weights[queue % config->nb_weights] : 1;
}

static int add_queues(const struct dut_config *config, const struct poller *p, struct qwait *set,
                      struct node_error *err)
{
	for (uint32_t qid = 0; qid < p->queues; qid++) {
		const uint32_t queue = p->first_queue + qid * p->queue_step;

		if (qwait_add(set, qid, &notify.bells[queue], weight_of(config, queue)) != 0)
			return node_fail(err, "dut.notification", "RX queue %u has no doorbell", queue);
	}
	return 0;
}

/* Add the sets of the next workers in order (steal() in loop/notified.h relies on that order). */
static int add_victims(struct poller *const *pollers, unsigned int n, struct node_error *err)
{
	for (unsigned int i = 0; i < n && n > 1; i++) {
		struct poller *p = pollers[i];

		notify.victims[i] =
		        rte_zmalloc_socket("victims", (n - 1) * sizeof(*notify.victims[i]),
		                           RTE_CACHE_LINE_SIZE, (int)rte_lcore_to_socket_id(p->lcore));
		if (notify.victims[i] == NULL)
			return node_fail(err, "dut", "out of memory");
		for (unsigned int v = 0; v < n - 1; v++)
			qwait_waiter_init(&notify.victims[i][v], notify.sets[(i + 1 + v) % n]);
		p->victims = notify.victims[i];
		p->nb_victims = n - 1;
	}
	return 0;
}

static const char no_set[] = "no memory or no eventfd for %u queues";

/* Make one set per group; the group's first worker adds the queues. */
static int make_sets_of_groups(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                               struct node_error *err)
{
	for (unsigned int i = 0; i < n; i++) {
		const unsigned int group = dut_config_group(config, i);

		if (group == notify.n) {
			const struct qwait_config wanted = set_of_queues(config, pollers[i]);

			notify.sets[group] = make_set(&wanted, pollers[i]);
			if (notify.sets[group] == NULL)
				return node_fail(err, "dut.notification", no_set, pollers[i]->queues);
			notify.n++;
			if (add_queues(config, pollers[i], notify.sets[group], err))
				return -1;
		}
		qwait_waiter_init(&pollers[i]->waiter, notify.sets[group]);
	}
	return config->sharing == SHARING_STEALING ? add_victims(pollers, n, err) : 0;
}

/* A worker that is woken has a set of one queue, which only says that something came; it has spun before it sleeps. */
static int make_sets_of_one(struct poller *const *pollers, unsigned int n, struct node_error *err)
{
	const struct qwait_config wanted = {.queues = 1, .idle = QWAIT_SLEEP};

	for (unsigned int i = 0; i < n; i++) {
		notify.sets[i] = make_set(&wanted, pollers[i]);
		if (notify.sets[i] == NULL)
			return node_fail(err, "dut.notification", no_set, pollers[i]->queues);
		notify.n++;
		if (add_shared_bell(pollers[i], notify.sets[i], i, err))
			return -1;
	}
	return 0;
}

static int make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                struct node_error *err)
{
	const uint16_t bells =
	        config->source == SOURCE_NOTIFIED ? ports_rx_queues(config->rx_port) : (uint16_t)n;
	const char *name = dut_config_notification(config);

	notify.port = config->rx_port;
	notify.notified = config->source == SOURCE_NOTIFIED;
	notify.bells = rte_zmalloc_socket("doorbells", bells * sizeof(*notify.bells), RTE_CACHE_LINE_SIZE,
	                                  rte_eth_dev_socket_id(config->rx_port));
	if (notify.bells == NULL)
		return node_fail(err, "dut", "out of memory");
	if (notify.notified ? make_sets_of_groups(config, pollers, n, err)
	                    : make_sets_of_one(pollers, n, err))
		return -1;
	switch (net_crossover_notify(notify.port, notify.bells, bells)) {
	case 0:
		return 0;
	case -ENOTSUP:
		return node_fail(err, "dut.notification",
		                 "%s: with feed=infinite no sender rings the doorbell (use feed=wire)", name);
	case -ENODEV:
		return node_fail(err, "dut.notification",
		                 "%s: only net_crossover rings doorbells (use it as RX port)", name);
	default:
		return node_fail(err, "dut.notification", "%s: another process is sending to the port", name);
	}
}

static int make_lines(struct poller *const *pollers, unsigned int n, struct node_error *err)
{
	for (unsigned int i = 0; i < n; i++) {
		struct poller *p = pollers[i];

		p->lines = rte_zmalloc_socket("lines", p->queues * sizeof(*p->lines), RTE_CACHE_LINE_SIZE,
		                              (int)rte_lcore_to_socket_id(p->lcore));
		notify.lines[i] = p->lines;
		if (p->lines == NULL)
			return node_fail(err, "dut", "out of memory");
		if (rte_eth_get_monitor_addr(p->rx_port, p->first_queue, p->lines) != 0)
			return node_fail(
			        err, "dut.notification",
			        "monitor-multi: the RX port's driver names no address to halt on, or "
			        "it has no sender (feed=infinite)");
	}
	return 0;
}

/* Set what the loops of SOURCE_WAITING need (loop/quiet.h). */
static void set_waits(const struct dut_config *config, struct poller *p)
{
	static const enum poller_wait waits[] = {
	        [NOTIFICATION_INTERRUPT] = WAIT_INTERRUPT, [NOTIFICATION_ADAPTIVE] = WAIT_INTERRUPT,
	        [NOTIFICATION_MONITOR] = WAIT_MONITOR,     [NOTIFICATION_MONITOR_MULTI] = WAIT_MONITORS,
	        [NOTIFICATION_SLEEP_RAMP] = WAIT_RAMP,     [NOTIFICATION_PAUSE] = WAIT_PAUSE,
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
	       (config->source == SOURCE_WAITING && !notification_is_timed(config->notification) &&
	        config->notification != NOTIFICATION_MONITOR_MULTI);
}

static int make_for(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                    struct node_error *err)
{
	if (needs_bells(config))
		return make(config, pollers, n, err);
	return config->notification == NOTIFICATION_MONITOR_MULTI ? make_lines(pollers, n, err) : 0;
}

int dut_notify_make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                    struct node_error *err)
{
	dut_notify_free();
	for (unsigned int i = 0; i < n; i++) {
		pollers[i]->nb_victims = 0;
		if (config->source == SOURCE_WAITING)
			set_waits(config, pollers[i]);
	}
	if (make_for(config, pollers, n, err) == 0)
		return 0;
	dut_notify_free();
	return -1;
}

void dut_notify_begin(struct poller *const *pollers, unsigned int n)
{
	for (unsigned int i = 0; i < n && notify.n > 0 && notify.notified; i++)
		pollers[i]->waiter.held = 0;
	for (unsigned int i = 0; i < notify.n && notify.notified; i++)
		for (uint32_t qid = 0; qid < notify.sets[i]->config.queues; qid++) {
			/* one that is armed and ready at once could be rung while it is served, and be given to two */
			qwait_take_back(notify.sets[i], qid);
			qwait_activate(notify.sets[i], qid);
		}
}
