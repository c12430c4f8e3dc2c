/* SPDX-License-Identifier: BSD-3-Clause */
/* What a task (HyperPlane section V-A) keeps for one lcore from one packet to the next. */
#ifndef TASK_H
#define TASK_H

#include <jansson.h>

#include "queue_data.h"
#include "workload.h"

struct task {
	struct queue_data *data; /* NULL: none */
	struct rte_ether_hdr next_hop;
	void *own; /* of the workload */
	void (*free_own)(void *own);
	json_t *(*report_own)(const void *own); /* an object; NULL: nothing to report */
};

/* With queue data as `spec` says, and nothing of the workload's own yet. Main lcore. NULL with err. */
struct task *task_new(const struct workload_spec *spec, unsigned int lcore, struct node_error *err);

/* NULL is allowed. */
void task_free(struct task *task);

/* The object `task` of a worker's report (docs/node-protocol.md), or NULL: there is nothing to say. */
json_t *task_report(const struct task *task);

#endif
