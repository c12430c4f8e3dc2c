/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storage tasks (HyperPlane section V-A): a packet's payload is cut into data buffers and leaves with parity buffers behind it.
 * rs is Reed-Solomon erasure coding with a Cauchy matrix; raid is P+Q (coder.h).
 */
#include "coder.h"
#include "prefetch.h"
#include "task.h"

#define RAID_PARITY 2

static uint16_t process_encode(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	struct coder *coder = p->task->own;
	uint16_t kept = 0;

	queue_data_use(p->task->data, packets, n);
	prefetch_first(packets, n);
	for (uint16_t i = 0; i < n; i++) {
		prefetch_ahead(packets, i, n);
		if (likely(coder_encode(coder, packets[i])))
			packets[kept++] = packets[i];
		else
			rte_pktmbuf_free(packets[i]);
	}
	return kept;
}

static void free_coder(void *coder)
{
	coder_free(coder);
}

static int prepare(const struct workload_spec *spec, enum coder_kind kind, uint32_t parity,
                   struct poller *poller, struct node_error *err)
{
	struct coder_spec coder = {
	        .kind = kind, .data = spec->task_buffers, .parity = parity, .lcore = poller->lcore};

	poller->task = task_new(spec, poller->lcore, err);
	if (!poller->task)
		return -1;
	coder.next_hop = poller->task->next_hop;
	poller->task->free_own = free_coder;
	poller->task->own = coder_new(&coder, err);
	return poller->task->own ? 0 : -1;
}

static int prepare_rs(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	return prepare(spec, CODER_REED_SOLOMON, spec->parity_buffers, poller, err);
}

static int prepare_raid(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	return prepare(spec, CODER_P_Q, RAID_PARITY, poller, err);
}

const struct workload workload_rs = {
        .receives = true,
        .sends = true,
        .process = process_encode,
        .resizes = true,
        .prepare = prepare_rs,
};
const struct workload workload_raid = {
        .receives = true,
        .sends = true,
        .process = process_encode,
        .resizes = true,
        .prepare = prepare_raid,
};
