/* SPDX-License-Identifier: BSD-3-Clause */
/* What a DUT does with a packet. One workload is one file workload_NAME.c with a constant struct; it is chosen before the loop. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdbool.h>

#include "node_error.h"
#include "poller.h"

struct workload_spec {
	uint32_t routes;
	uint16_t tx_port; /* POLLER_NO_PORT: none */
	int socket;
};

struct workload {
	const char *name;
	bool sends;                /* needs a TX port */
	const poll_loop_fn *loops; /* by enum accounting */
	/* Fill what the process function reads from the poller; may be NULL. Main lcore. Returns 0, or -1 with err. */
	int (*prepare)(const struct workload_spec *spec, struct poller *poller, struct node_error *err);
};

extern const struct workload workload_io;
extern const struct workload workload_drop;
extern const struct workload workload_l3fwd_lpm;

/* All of them, NULL-terminated, and their names in the same order. */
extern const struct workload *const workloads[];
extern const char *const workload_names[];

#endif
