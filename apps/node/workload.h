/* SPDX-License-Identifier: BSD-3-Clause */
/* What a DUT does with a packet. One workload is one file workload_NAME.c with a constant struct; it is chosen before the loop. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>

#include "frame_sizes.h"
#include "node_error.h"
#include "poller.h"

enum encapsulation { ENCAPSULATION_GRE_IPV6, ENCAPSULATION_IPIP };

struct workload_spec {
	uint32_t routes;
	uint32_t flows;
	struct frame_sizes frame;
	enum encapsulation encapsulation;
	uint16_t tx_port; /* POLLER_NO_PORT: none */
	int socket;
};

/* Loops of one source of packets: without and with delays, each indexed by enum accounting. */
typedef const poll_loop_fn *const source_loops[2];

struct workload {
	const char *name;
	bool receives;             /* has an RX port; otherwise its source is SOURCE_MADE */
	bool sends;                /* needs a TX port */
	const source_loops *loops; /* by enum poller_source; NULL inside: cannot have that source */
	/* Fill what the process function reads from the poller; may be NULL. Main lcore. Returns 0, or -1 with err. */
	int (*prepare)(const struct workload_spec *spec, struct poller *poller, struct node_error *err);
};

extern const struct workload workload_io;
extern const struct workload workload_drop;
extern const struct workload workload_l3fwd_lpm;
extern const struct workload workload_encap;
extern const struct workload workload_tx;
extern const struct workload workload_rx;

/* All of them, NULL-terminated, and their names in the same order. */
extern const struct workload *const workloads[];
extern const char *const workload_names[];

/* What dispatchers do instead: hand packets on through poller->ring. By enum accounting. */
extern const poll_loop_fn *const dispatcher_loops;

/* The Ethernet header of what leaves `tx_port` for the one next hop there is. Returns 0, or -1 with err. */
int workload_next_hop(uint16_t tx_port, uint16_t ether_type, struct rte_ether_hdr *header,
                      struct node_error *err);

#endif
