/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of an RX queue on which each task of the queue works, like the state of a tenant: a task reads all of it and writes
 * its first line. The queue of a packet follows from its RSS hash and the port's RETA. Each lcore has its own memory, so none
 * writes what another reads.
 */
#ifndef QUEUE_DATA_H
#define QUEUE_DATA_H

#include <stdint.h>
#include <jansson.h>
#include <rte_mbuf.h>

#include "node_error.h"

#define QUEUE_DATA_BYTES_MAX (1u << 20)
#define QUEUE_DATA_RETA_MAX  4096

/* The beginning of a queue's memory. */
struct queue_state {
	uint64_t tasks; /* of this queue so far */
	uint64_t sum;   /* of what the last task read */
};

struct queue_data {
	uint8_t *memory;
	uint32_t bytes; /* per queue, in whole lines */
	uint16_t queues;
	uint16_t reta_entries; /* 0: one queue */
	uint16_t reta[QUEUE_DATA_RETA_MAX];
};

struct queue_data_spec {
	uint32_t bytes; /* rounded up to whole lines */
	uint16_t rx_port;
	unsigned int lcore;
};

/* Main lcore, after the port was set up. NULL with err when out of memory, or if the port does not tell its RETA. */
struct queue_data *queue_data_new(const struct queue_data_spec *spec, struct node_error *err);

/* NULL is allowed. */
void queue_data_free(struct queue_data *data);

/* {"queues": number with a task so far, "tasks": of all queues so far}. */
json_t *queue_data_json(const struct queue_data *data);

static inline uint16_t queue_data_queue(const struct queue_data *data, const struct rte_mbuf *packet)
{
	if (data->reta_entries == 0 || !(packet->ol_flags & RTE_MBUF_F_RX_RSS_HASH))
		return 0;
	return data->reta[packet->hash.rss % data->reta_entries];
}

/* Run the tasks of a burst on the memory of their queues. `data` NULL: there is none. */
static inline void queue_data_use(struct queue_data *data, struct rte_mbuf **packets, uint16_t n)
{
	for (uint16_t i = 0; data && i < n; i++) {
		uint8_t *memory = data->memory + (size_t)queue_data_queue(data, packets[i]) * data->bytes;
		struct queue_state *state = (struct queue_state *)memory;
		const uint64_t *words = (const uint64_t *)(state + 1);
		uint64_t sum = 0;

		for (uint32_t word = 0; word < (data->bytes - sizeof(*state)) / sizeof(*words); word++)
			sum += words[word];
		state->sum = sum;
		state->tasks++;
	}
}

#endif
