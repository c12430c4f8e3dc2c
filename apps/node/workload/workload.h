/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a DUT does with a packet. One workload is one file NAME.c with a constant struct; it is chosen before the loop.
 * Names stand in pollscope/base/names.py, of which the build makes WORKLOADS(X): X(symbol, "name") for each.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>

#include "esp.h"
#include "frame_sizes.h"
#include "node_error.h"
#include "loop/poller.h"
#include "workload_names.h"

enum encapsulation { ENCAPSULATION_GRE_IPV6, ENCAPSULATION_IPIP };

struct workload_spec {
	uint32_t routes;
	uint32_t lookups; /* of a packet */
	bool checksum;    /* UDP's is made anew */
	uint32_t flows;
	unsigned int shared_by; /* workers that share the pools of prepared packets; 1: each has its own */
	const struct sender *pools_of; /* whose they are; NULL: this worker's */
	struct frame_sizes frame;
	enum encapsulation encapsulation;
	enum esp_transform transform;
	uint32_t sessions;       /* of a table of them */
	uint32_t task_buffers;   /* data buffers of a task */
	uint32_t parity_buffers; /* of a task */
	uint32_t task_data;      /* bytes of each RX queue; 0: none */
	uint16_t rx_port;        /* NO_PORT: none */
	uint16_t tx_port;
	int socket;
};

struct workload {
	bool receives;              /* has an RX port; otherwise its source is SOURCE_MADE */
	bool sends;                 /* needs a TX port */
	const loop_table *loops;    /* with `process` inlined; NULL: called_loops */
	process_fn process;         /* for called_loops and wire-bench; NULL: for neither */
	bool resizes;               /* `process` changes the size of packets */
	process_fn process_further; /* the same with more than one look-up or a checksum; NULL: has neither */
	/* Fill what the process function reads from the poller; may be NULL. Main lcore. Returns 0, or -1 with err. */
	int (*prepare)(const struct workload_spec *spec, struct poller *poller, struct node_error *err);
};

/* The loops of all workloads beside whose work a call per burst does not show. */
extern const loop_table *const called_loops;

/* workload_NAME of each name, and its index WORKLOAD_NAME. */
#define DECLARE_WORKLOAD(symbol, name) extern const struct workload workload_##symbol;
#define WORKLOAD_INDEX(symbol, name)   WORKLOAD_##symbol,
WORKLOADS(DECLARE_WORKLOAD)
enum workload_index { WORKLOADS(WORKLOAD_INDEX) };

/* All of them, NULL-terminated, and their names in the same order. */
extern const struct workload *const workloads[];
extern const char *const workload_names[];

/* The Ethernet header of what leaves `tx_port` for the one next hop there is. Returns 0, or -1 with err. */
int workload_next_hop(uint16_t tx_port, uint16_t ether_type, struct rte_ether_hdr *header,
                      struct node_error *err);

#endif
