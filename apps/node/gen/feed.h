/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The "feed" object of a `configure` request (node-protocol.md): the shape of the traffic of a virtual NIC with
 * feed=infinite. Main lcore only, while no lcore polls.
 */
#ifndef GEN_FEED_H
#define GEN_FEED_H

#include <jansson.h>

#include "node_error.h"
#include "shape.h"

struct gen_feed {
	const char *port_name; /* valid as long as the request */
	uint16_t port;         /* resolved */
	struct gen_shape shape;
	uint64_t seed;
};

/* Read `spec`. Returns 0, or -1 with err (where begins with "feed"), like the next function. */
int gen_feed_parse(const json_t *spec, struct gen_feed *parsed, struct node_error *err);

/* Apply the shape once the ports are set up. NULL: all queues of the port named before are hot again. */
int gen_feed_apply(const struct gen_feed *wanted, struct node_error *err);

/* Return the `feed` of a result, as a new reference; NULL if none is configured. */
json_t *gen_feed_report(void);

#endif
