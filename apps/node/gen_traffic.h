/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the generator sends, worked out before the trial so that its loop only walks a list: the flows, placed
 * on RX queues of the target port, and the order in which flows and sizes take turns.
 *
 * Flow f has source address 172.16.0.0/12 with f in the low 16 bits, so no two flows are alike, and a
 * destination inside route number (random below `routes`) of the DUT's table. Source port, the 4 other source
 * bits and the host part of the destination are what steers it to its queue.
 *
 * Shapes (HyperPlane, MICRO'20, section II-C). Hot queues have weight 1, the others weight
 * `background_probability`; a queue gets packets in proportion to its weight. FB: all queues hot. PC:
 * concentrated_share of the queues hot (at least one). NC: concentrated_queues of them. SQ: one hot queue,
 * the others get nothing. Hot queues are drawn with shape_seed.
 */
#ifndef GEN_TRAFFIC_H
#define GEN_TRAFFIC_H

#include <stdint.h>

#include "../lib/node_error.h"
#include "../lib/packets.h"
#include "../lib/rss.h"
#include "gen_config.h"

/* One packet of the play list: which flow, and which entry of gen_config.frame. */
struct gen_turn {
	uint16_t flow;
	uint16_t size;
};

struct gen_traffic {
	struct packet_flow *flows;
	struct gen_turn
	        *turns; /* a random order in which each flow and size has its share, played again and again */
	uint32_t turns_count; /* GEN_BURST_MAX more follow, a copy of the first ones: a burst never wraps */
};

/*
 * Make traffic for `config`, steered through `target` (NULL: flows are not placed).
 * Returns 0, or -1 with err (where begins with "gen") when a queue cannot be reached or there are fewer flows
 * than queues that should get traffic.
 */
int gen_traffic_make(const struct gen_config *config, const struct rss_target *target,
                     struct gen_traffic *traffic, struct node_error *err);

/* How many of the first `sent` packets of a trial belong to each flow: adds to counts[0..flows-1]. */
void gen_traffic_count_flows(const struct gen_traffic *traffic, uint64_t sent, uint64_t *counts);

/* Give the memory back; a zeroed or freed traffic may be freed again. */
void gen_traffic_free(struct gen_traffic *traffic);

#endif
