/* SPDX-License-Identifier: BSD-3-Clause */
#include "notify.h"

#include <errno.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "net_crossover.h"
#include "ports/ports.h"
#include "qwait.h"

#define PAUSES_BEFORE_SLEEP 10000 /* some 100 us: about what a sleep and a wake-up cost */

static struct {
	uint16_t port;
	struct qwait_doorbell *bells; /* by RX queue of the port; NULL: there is none */
	struct qwait *sets[RTE_MAX_LCORE];
	unsigned int n;
} notify;

void dut_notify_free(void)
{
	/* the port may be gone; what a sender that is stuck in a burst may still ring has to stay, the eventfd too */
	const bool stuck = notify.bells != NULL && net_crossover_notify(notify.port, NULL) == -EBUSY;

	for (unsigned int i = 0; i < notify.n && !stuck; i++) {
		qwait_close(notify.sets[i]);
		rte_free(notify.sets[i]);
	}
	if (!stuck)
		rte_free(notify.bells);
	notify.bells = NULL;
	notify.n = 0;
}

static struct qwait *make_set(const struct dut_config *config, const struct poller *p)
{
	const struct qwait_config wanted = {
	        .queues = p->queues,
	        .policy = (enum qwait_policy)config->service_order,
	        .ready_set = (enum qwait_ready_set)config->ready_set,
	        .idle = (enum qwait_idle)config->idle,
	        .pauses = PAUSES_BEFORE_SLEEP,
	};
	struct qwait *set = rte_zmalloc_socket("qwait", qwait_bytes(p->queues), RTE_CACHE_LINE_SIZE,
	                                       (int)rte_lcore_to_socket_id(p->lcore));

	if (set == NULL || qwait_init(set, &wanted) == 0)
		return set;
	rte_free(set);
	return NULL;
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
	notify.port = config->rx_port;
	notify.bells =
	        rte_zmalloc_socket("doorbells", ports_rx_queues(config->rx_port) * sizeof(*notify.bells),
	                           RTE_CACHE_LINE_SIZE, rte_eth_dev_socket_id(config->rx_port));
	if (notify.bells == NULL)
		return node_fail(err, "dut", "out of memory");
	for (unsigned int i = 0; i < n; i++) {
		notify.sets[i] = make_set(config, pollers[i]);
		if (notify.sets[i] == NULL)
			return node_fail(err, "dut.notification", "no memory or no eventfd for %u queues",
			                 pollers[i]->queues);
		notify.n++;
		if (add_queues(pollers[i], notify.sets[i], err))
			return -1;
	}
	switch (net_crossover_notify(notify.port, notify.bells)) {
	case 0:
		return 0;
	case -ENOTSUP:
		return node_fail(err, "dut.notification",
		                 "qwait: with feed=infinite nobody sends, so nobody rings; use feed=wire");
	case -ENODEV:
		return node_fail(
		        err, "dut.notification",
		        "qwait: whoever sends to the RX port has to ring, and only net_crossover does");
	default:
		return node_fail(err, "dut.notification", "qwait: another process keeps the port busy");
	}
}

int dut_notify_make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                    struct node_error *err)
{
	dut_notify_free();
	if (config->source != SOURCE_NOTIFIED || make(config, pollers, n, err) == 0)
		return 0;
	dut_notify_free();
	return -1;
}
