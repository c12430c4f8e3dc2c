/* SPDX-License-Identifier: BSD-3-Clause */
#include "poller.h"

#include <stdlib.h>

#include <rte_lcore.h>
#include <rte_malloc.h>

void poller_free(struct poller *p)
{
	if (!p)
		return;
	for (int i = 0; i < STAGES; i++)
		account_free(&p->accounts[i]);
	free(p->busy_poll_stamps);
	free(p->refill_counters);
	free(p->race_counters);
	rte_free(p);
}

static bool allocate_parts(struct poller *p)
{
	p->busy_poll_stamps = calloc(RTE_MAX_QUEUES_PER_PORT, sizeof(*p->busy_poll_stamps));
	p->refill_counters = calloc(RTE_MAX_QUEUES_PER_PORT, sizeof(*p->refill_counters));
	p->race_counters = calloc(RTE_MAX_QUEUES_PER_PORT, sizeof(*p->race_counters));
	for (int i = 0; i < STAGES; i++)
		if (account_init(&p->accounts[i]) < 0)
			return false;
	return p->busy_poll_stamps && p->refill_counters && p->race_counters;
}

struct poller *poller_new(unsigned int lcore)
{
	struct poller *p = rte_zmalloc_socket("poller", sizeof(*p), RTE_CACHE_LINE_SIZE,
	                                      (int)rte_lcore_to_socket_id(lcore));

	if (!p)
		return NULL;
	p->lcore = lcore;
	p->account = &p->accounts[STAGE_WARMUP];
	for (int i = 0; i < PMU_COUNTERS; i++)
		p->pmu.fd[i] = -1;
	if (allocate_parts(p))
		return p;
	poller_free(p);
	return NULL;
}
