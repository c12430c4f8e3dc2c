/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The "feed" object of a `configure` request (docs/node-protocol.md): the shape of what a virtual NIC with feed=infinite hands
 * out. Main lcore only, while no lcore polls.
 */
#ifndef GEN_FEED_H
#define GEN_FEED_H

#include <jansson.h>

#include "../lib/node_error.h"

/*
 * Take a new object, or NULL: all queues of the port named before are hot again. Called after the ports are set up.
 * Returns 0, or -1 with err (where begins with "feed").
 */
int gen_feed_configure(const json_t *spec, struct node_error *err);

/* The `feed` of a result, as a new reference; NULL when none is configured. */
json_t *gen_feed_report(void);

#endif
