/* SPDX-License-Identifier: BSD-3-Clause */
/* The "gen" object of a `configure` request (docs/node-protocol.md), checked and turned into numbers. */
#ifndef GEN_CONFIG_H
#define GEN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "../lib/node_error.h"
#include "frame_sizes.h"
#include "gen_shape.h"
#include "gen_target.h"

#define GEN_BURST_MAX      256
#define GEN_DEPARTURES_MAX 1000000
#define GEN_NO_PORT        UINT16_MAX

struct gen_config {
	unsigned int lcore;
	uint16_t tx_port;
	uint16_t rx_port;     /* GEN_NO_PORT: does not receive */
	uint16_t target_port; /* of this node; GEN_NO_PORT: none */
	bool has_target;      /* of another node; with neither of both flows are not placed */
	struct gen_target target;
	struct frame_sizes frame;
	uint32_t flows;
	uint32_t routes;
	struct gen_shape shape;
	uint32_t visit_packets; /* what a visit of a backlogged queue takes: the DUT's burst */
	bool poisson;
	uint64_t seed;
	unsigned int burst;
	uint64_t late_max_ns;
	uint32_t departures; /* departures of which the stamps are kept */
};

/*
 * Read and check `spec`. Ports are set up and the lcore exists when it succeeds; sizes fit the TX port's MTU.
 * Returns 0, or -1 with err (where begins with "gen").
 */
int gen_config_read(const json_t *spec, struct gen_config *config, struct node_error *err);

#endif
