/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The destination port of a generator's frames: its distribution over RX queues, and its MAC address. A port of this node is
 * read through ethdev; that of another node comes as JSON, which that node wrote (docs/internals/node-protocol.md).
 */
#ifndef GEN_TARGET_H
#define GEN_TARGET_H

#include <stdint.h>
#include <jansson.h>
#include <rte_ether.h>

#include "node_error.h"
#include "rss.h"

struct gen_target {
	struct rss_target rss;
	struct rte_ether_addr mac;
};

/*
 * Read key, hash types, RETA and MAC address of a configured port. A port with one RX queue needs no RSS (reta_size 0). Returns
 * 0, or -1 with err (where "gen.target_port") and the reason if frames for this port cannot be steered.
 */
int gen_target_read(uint16_t port, struct gen_target *target, struct node_error *err);

/* Return a port as a `target` object; {"absent": reason} if frames for it cannot be steered. */
json_t *gen_target_json(uint16_t port);

/* Check and take over a `target` object. Returns 0, or -1 with err (where begins with "gen.target"). */
int gen_target_parse(const json_t *object, struct gen_target *target, struct node_error *err);

#endif
