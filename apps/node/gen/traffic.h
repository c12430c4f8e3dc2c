/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The generator's traffic, made before the trial so that its loop only walks a list: the flows, placed on RX queues of the
 * target port, and the order of flows and sizes.
 *
 * Flow f has source address 172.16.0.0/12 with f in the low 16 bits, so no two flows are equal, and a destination inside a
 * route (random below `routes`) of the DUT's table. Source port, the other 4 source bits and the host part of the destination
 * steer it to its queue.
 *
 * Shapes are those of shape.h. When saturating, hot queues get runs of `burst` packets in turn, as fast as the port takes them,
 * so that none runs dry; cold queues get random packets at the rate that the engine finds. At a given rate all queues keep the
 * proportions of saturation: a hot queue has weight 1 for `busy_poll_packets`, which a poll takes there, and a cold queue has
 * the weight of its arrivals between two polls.
 *
 * Several lcores share the traffic by flows, and by whole queues if there are enough (gen_config_sender()). At a given rate they share one play
 * list and its schedule, so that together they send what one would.
 */
#ifndef GEN_TRAFFIC_H
#define GEN_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "node_error.h"
#include "packets.h"
#include "rss.h"
#include "config.h"

/* One packet of the play list: its flow, and its entry of gen_config.frame. */
struct gen_entry {
	uint16_t flow;
	uint16_t size;
};

/* A play list, repeated over and over. */
struct gen_list {
	struct gen_entry *entries;
	uint32_t count; /* GEN_BURST_MAX more follow, a copy of the first ones, so that a burst never wraps */
	bool is_lent;   /* the entries belong to a trace */
};

enum gen_list_kind {
	GEN_MIXED, /* at a given rate: a random order in which each flow and size has its share */
	GEN_HOT, /* saturating: hot queues in turn; empty if all packets go to one queue, or are not placed */
	GEN_COLD, /* saturating: flows of cold queues, drawn independently; empty without cold queues */
	GEN_LISTS
};

struct gen_trace;

/* The traffic of one lcore. */
struct gen_traffic {
	struct packet_flow *flows; /* of all lcores; each with its number among the flows of its lcore */
	struct gen_list lists[GEN_LISTS];
	uint32_t first; /* the first slot of the schedule that is this lcore's */
	uint32_t *
	        turns; /* for pacer_share(), as many as GEN_MIXED has entries; NULL: all slots are this lcore's */
	struct gen_shape_queues queues;
	double hot_part; /* the number of hot queues that this lcore's flows make up, counting its share of each queue's flows */
	double cold_part;
};

/*
 * Make the traffic of lcore number `place` of `config`, steered through `target` (NULL: flows are not placed). With a trace
 * (else NULL) its packets are the only play list; it must outlive the traffic. Returns 0, or -1 with err (where begins with
 * "gen") if a queue cannot be reached.
 */
int gen_traffic_make(const struct gen_config *config, unsigned int place, const struct rss_target *target,
                     const struct gen_trace *trace, struct gen_traffic *traffic, struct node_error *err);

/* Add to counts[0..flows-1] how many of the first `sent` packets of a list belong to each flow. */
void gen_list_count_flows(const struct gen_list *list, uint64_t sent, uint64_t *counts);

/* Free the memory; a zeroed or freed traffic may be freed again. */
void gen_traffic_free(struct gen_traffic *traffic);

#endif
