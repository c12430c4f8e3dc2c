/* SPDX-License-Identifier: BSD-3-Clause */
/* The "gen" object of a `configure` request (docs/node-protocol.md), parsed by itself, then resolved beside the ports. */
#ifndef GEN_CONFIG_H
#define GEN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "node_error.h"
#include "frame_sizes.h"
#include "ports/plan.h"
#include "shape.h"
#include "target.h"

#define GEN_BURST_MAX      256
#define GEN_DEPARTURES_MAX 1000000
#define GEN_LCORES_MAX     8

/* When packets leave, at a given rate. */
enum gen_arrivals {
	GEN_CONSTANT,
	GEN_POISSON,
	GEN_TRACE,  /* as far apart as in the trace, all distances stretched alike */
	GEN_BURSTS, /* burst_packets of them together */
	GEN_ON_OFF, /* on_ns long at a constant rate, off_ns long none */
};

struct gen_config {
	unsigned int lcores
	        [GEN_LCORES_MAX]; /* number i sends on TX queue i, and receives on RX queues i, i + lcores_n... */
	unsigned int lcores_n;
	const char *tx_name; /* names live as long as the request */
	const char *rx_name;
	const char *target_name;
	uint16_t tx_port;     /* resolved */
	uint16_t rx_port;     /* NO_PORT: does not receive */
	uint16_t target_port; /* of this node; NO_PORT: none */
	bool has_target;      /* of another node; with neither of both flows are not placed */
	struct gen_target target;
	struct frame_sizes frame;
	uint32_t flows;
	uint32_t routes;
	struct gen_shape shape;
	uint32_t busy_poll_packets; /* what a visit of a backlogged queue takes: the DUT's burst */
	const char *
	        trace; /* path of a trace that takes the place of frame and flows; NULL: none. Lives as long as the request */
	uint32_t frame_max; /* resolved: what the MTU lets through, FCS included */
	enum gen_arrivals arrivals;
	uint32_t burst_packets;
	uint64_t on_ns;
	uint64_t off_ns;
	uint64_t seed;
	unsigned int burst;
	uint64_t late_max_ns;
	uint64_t sleep_ns;      /* after each iteration; 0: never, and the CPU is the generator's own */
	uint32_t departures;    /* departures of which the stamps are kept */
	uint64_t nic_stamps_ns; /* between two frames that the NICs stamp (stamps.h); 0: there are none */
};

/* Read `spec`, and check what can be told from it alone. Returns 0, or -1 with err (where begins with "gen"). */
int gen_config_parse(const json_t *spec, struct gen_config *config, struct node_error *err);

/* Each lcore needs a flow, and each queue that the shape loads. As above. */
int gen_config_check_flows(const struct gen_config *config, unsigned int queues, struct node_error *err);

/*
 * Find its ports among those of `plan`, check that sizes fit the MTU and flows the queues, and ask of the ports what it needs. As
 * above.
 */
int gen_config_resolve(struct gen_config *config, struct ports_plan *plan, struct node_error *err);

#endif
