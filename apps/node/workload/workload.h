/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work of a DUT on a packet. One workload is one file NAME.c with a constant struct; it is chosen before the loop. Names are in
 * pollscope/base/names.py, from which the build makes WORKLOADS(X): X(symbol, "name", "key"...) for each, with the keys of the
 * "dut" object that not all workloads have.
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
enum checksum { CHECKSUM_NONE, CHECKSUM_UDP };

/* Parameters of the request first (dut/config.c), then what follows from the rest of it. */
struct workload_spec {
	uint32_t routes;
	uint32_t lookups;       /* of one packet */
	enum checksum checksum; /* to compute again */
	uint32_t flows;
	struct frame_sizes frame;
	enum encapsulation encapsulation;
	enum esp_transform transform;
	uint32_t sessions;       /* in the table */
	uint32_t task_buffers;   /* data buffers of a task */
	uint32_t parity_buffers; /* of a task */
	uint32_t task_data;      /* bytes per RX queue; 0: none */
	unsigned int shared_by;  /* workers that share the pools of prepared packets; 1: each has its own */
	const struct sender *pools_of; /* owner of the pools; NULL: this worker */
	uint16_t rx_port;              /* NO_PORT: none */
	uint16_t tx_port;
	int socket;
};

struct workload {
	bool receives;           /* has an RX port; otherwise the source is SOURCE_MADE */
	bool sends;              /* needs a TX port */
	const loop_table *loops; /* with `process` inlined; NULL: called_loops */
	process_fn process;      /* for called_loops and wire-bench; NULL: neither calls it */
	bool resizes;            /* `process` changes the size of packets */
	process_fn
	        process_further; /* `process` with more than one look-up or a checksum; NULL: has neither */
	/* Fill the poller's fields that the process function reads; may be NULL. Main lcore. Returns 0, or -1 with err. */
	int (*prepare)(const struct workload_spec *spec, struct poller *poller, struct node_error *err);
};

/* The loops of all workloads whose work is large against one call per burst, or that do none. */
extern const loop_table *const called_loops;

/* workload_NAME and index WORKLOAD_NAME of each name. */
#define DECLARE_WORKLOAD(symbol, ...) extern const struct workload workload_##symbol;
#define WORKLOAD_INDEX(symbol, ...)   WORKLOAD_##symbol,
WORKLOADS(DECLARE_WORKLOAD)
enum workload_index { WORKLOADS(WORKLOAD_INDEX) };

/* All workloads, NULL-terminated; in the same order their names, and the keys that not all workloads have. */
extern const struct workload *const workloads[];
extern const char *const workload_names[];
extern const char *const *const workload_keys[];

/* Fill the Ethernet header for the one next hop behind `tx_port`. Returns 0, or -1 with err. */
int workload_next_hop(uint16_t tx_port, uint16_t ether_type, struct rte_ether_hdr *header,
                      struct node_error *err);

#endif
