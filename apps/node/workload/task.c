/* SPDX-License-Identifier: BSD-3-Clause */
#include "task.h"

#include <rte_malloc.h>

struct task *task_new(const struct workload_spec *spec, unsigned int lcore, struct node_error *err)
{
	const struct queue_data_spec data = {
	        .bytes = spec->task_data, .rx_port = spec->rx_port, .lcore = lcore};
	struct task *task = rte_zmalloc_socket("task", sizeof(*task), RTE_CACHE_LINE_SIZE,
	                                       (int)rte_lcore_to_socket_id(lcore));

	if (!task) {
		node_fail(err, "dut", "out of memory");
		return NULL;
	}
	if (workload_next_hop(spec->tx_port, RTE_ETHER_TYPE_IPV4, &task->next_hop, err) == 0) {
		task->data = spec->task_data ? queue_data_new(&data, err) : NULL;
		if (task->data || !spec->task_data)
			return task;
	}
	task_free(task);
	return NULL;
}

void task_free(struct task *task)
{
	if (!task)
		return;
	if (task->own)
		task->free_own(task->own);
	queue_data_free(task->data);
	rte_free(task);
}

json_t *task_report(const struct task *task)
{
	json_t *object = task && task->report_own ? task->report_own(task->own) : NULL;

	if (!task || !task->data)
		return object;
	if (!object)
		object = json_object();
	json_object_set_new(object, "queue_data", queue_data_json(task->data));
	return object;
}
