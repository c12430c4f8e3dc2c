/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue_data.h"

#include <rte_ethdev.h>
#include <rte_malloc.h>

#include "ports/ports.h"
#include "ports/reta.h"

static int read_reta(struct queue_data *data, uint16_t port, struct node_error *err)
{
	struct rte_eth_dev_info info;

	if (data->queues == 1)
		return 0;
	if (rte_eth_dev_info_get(port, &info) < 0 || info.reta_size == 0 ||
	    info.reta_size > QUEUE_DATA_RETA_MAX || port_reta_read(port, data->reta, info.reta_size) < 0)
		return node_fail(err, "dut.task_data", "the RX port does not report its RETA");
	data->reta_entries = info.reta_size;
	return 0;
}

struct queue_data *queue_data_new(const struct queue_data_spec *spec, struct node_error *err)
{
	const int socket = (int)rte_lcore_to_socket_id(spec->lcore);
	struct queue_data *data =
	        rte_zmalloc_socket("queue_data", sizeof(*data), RTE_CACHE_LINE_SIZE, socket);

	if (!data) {
		node_fail(err, "dut", "out of memory");
		return NULL;
	}
	data->bytes = RTE_ALIGN_CEIL(spec->bytes, (uint32_t)RTE_CACHE_LINE_SIZE);
	data->queues = ports_rx_queues(spec->rx_port);
	data->memory = rte_zmalloc_socket("task_data", (size_t)data->queues * data->bytes,
	                                  RTE_CACHE_LINE_SIZE, socket);
	if (!data->memory)
		node_fail(err, "dut.task_data", "no memory for %u bytes of each of %u queues", data->bytes,
		          data->queues);
	else if (read_reta(data, spec->rx_port, err) == 0)
		return data;
	queue_data_free(data);
	return NULL;
}

void queue_data_free(struct queue_data *data)
{
	if (!data)
		return;
	rte_free(data->memory);
	rte_free(data);
}

json_t *queue_data_json(const struct queue_data *data)
{
	uint64_t queues = 0, tasks = 0;

	for (uint16_t q = 0; q < data->queues; q++) {
		const struct queue_state *state =
		        (const struct queue_state *)(data->memory + (size_t)q * data->bytes);

		queues += state->tasks > 0;
		tasks += state->tasks;
	}
	return json_pack("{s:I,s:I}", "queues", (json_int_t)queues, "tasks", (json_int_t)tasks);
}
