/* SPDX-License-Identifier: BSD-3-Clause */
/* State of a task (HyperPlane section V-A) that one lcore keeps between packets. */
#ifndef TASK_H
#define TASK_H

#include <jansson.h>

#include "queue_data.h"
#include "workload.h"

struct task {
	struct queue_data *data; /* NULL: none */
	struct rte_ether_hdr next_hop;
	void *own; /* state of the workload itself */
	void (*free_own)(void *own);
	json_t *(*report_own)(const void *own); /* an object; NULL: nothing to report */
};

/* Return a task with queue data as `spec` requests, without state of the workload itself. Main lcore. NULL with err. */
struct task *task_new(const struct workload_spec *spec, unsigned int lcore, struct node_error *err);

/* NULL is allowed. */
void task_free(struct task *task);

/* Return the object `task` of a worker's report (node-protocol.md), or NULL if there is nothing to report. */
json_t *task_report(const struct task *task);

#endif
