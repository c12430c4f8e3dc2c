/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the generator sends, worked out before the trial so that its loop only walks a list: the flows, placed
 * on RX queues of the target port, and the order of flows and sizes.
 *
 * Flow f has source address 172.16.0.0/12 with f in the low 16 bits, so no two flows are alike, and a
 * destination inside route number (random below `routes`) of the DUT's table. Source port, the 4 other source
 * bits and the host part of the destination are what steers it to its queue.
 *
 * Shapes are those of shape.h. When saturating, hot queues get runs of `burst` packets one after another, as fast as
 * the port takes them, so that none runs dry; cold queues get packets by chance, at the rate that the engine
 * finds. At a given rate all queues keep the proportions that they have at saturation: with weight 1 for
 * `busy_poll_packets`, which a visit of a hot queue takes there, a cold queue has the weight of the packets that
 * come to it between two visits.
 *
 * Several lcores share the traffic by flows: flow f is that of lcore number f modulo their number. At a given rate they
 * share one play list and its schedule, so that together they send what one would.
 */
#ifndef GEN_TRAFFIC_H
#define GEN_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "node_error.h"
#include "packets.h"
#include "rss.h"
#include "config.h"

/* One packet of the play list: which flow, and which entry of gen_config.frame. */
struct gen_entry {
	uint16_t flow;
	uint16_t size;
};

/* A play list, played again and again. */
struct gen_list {
	struct gen_entry *entries;
	uint32_t count; /* GEN_BURST_MAX more follow, a copy of the first ones: a burst never wraps */
	bool is_lent;   /* the entries are those of a trace */
};

enum gen_list_kind {
	GEN_MIXED, /* at a given rate: a random order in which each flow and size has its share */
	GEN_HOT, /* saturating: hot queues one after another; empty where all packets go to one queue, or are not placed */
	GEN_COLD, /* saturating: flows of cold queues, each drawn for itself; empty without cold queues */
	GEN_LISTS
};

struct gen_trace;

/* The traffic of one lcore. */
struct gen_traffic {
	struct packet_flow *flows; /* of all lcores; each with its number among the flows of its lcore */
	struct gen_list lists[GEN_LISTS];
	uint32_t first; /* of the slots of the schedule, the first that is this lcore's */
	uint32_t *
	        turns; /* for pacer_share(), as many as GEN_MIXED has entries; NULL: all slots are this lcore's */
	struct gen_shape_queues queues;
	double hot_part; /* the hot queues that this lcore's flows make up: of each its share of the queue's flows */
	double cold_part;
};

/*
 * Make the traffic of lcore number `place` of `config`, steered through `target` (NULL: flows are not placed).
 * With a trace (else NULL) its packets are the one play list; it outlives the traffic.
 * Returns 0, or -1 with err (where begins with "gen") when a queue cannot be reached.
 */
int gen_traffic_make(const struct gen_config *config, unsigned int place, const struct rss_target *target,
                     const struct gen_trace *trace, struct gen_traffic *traffic, struct node_error *err);

/* How many of the first `sent` packets of a list belong to each flow: adds to counts[0..flows-1]. */
void gen_list_count_flows(const struct gen_list *list, uint64_t sent, uint64_t *counts);

/* Free the memory; a zeroed or freed traffic may be freed again. */
void gen_traffic_free(struct gen_traffic *traffic);

#endif
