/* SPDX-License-Identifier: BSD-3-Clause */
/* How a port of this node spreads frames over its RX queues, read from the port itself through the ethdev
 * API. */
#ifndef GEN_TARGET_H
#define GEN_TARGET_H

#include <stdint.h>

#include "../lib/node_error.h"
#include "../lib/rss.h"

/*
 * Read key, hash types and RETA of a configured port. A port with one RX queue needs none of them (reta_size
 * 0). Returns 0, or -1 with err (where "gen.target_port") when frames for this port cannot be steered, and
 * why.
 */
int gen_target_read(uint16_t port, struct rss_target *target, struct node_error *err);

#endif
