/* SPDX-License-Identifier: BSD-3-Clause */
/* The "gen" object of a `configure` request (node-protocol.md), first parsed alone, then resolved with the ports. */
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

enum gen_kind {
	GEN_CORE,  /* its lcores send through the driver (engine.h) */
	GEN_AGENT, /* it writes rings itself (wire_agent.h) */
};

/* Departure times at a given rate. */
enum gen_arrivals {
	GEN_CONSTANT,
	GEN_POISSON,
	GEN_TRACE,  /* as in the trace, with all distances stretched alike */
	GEN_BURSTS, /* burst_packets at a time */
	GEN_ON_OFF, /* on_ns at a constant rate, then off_ns of silence */
};

struct gen_config {
	unsigned int lcores
	        [GEN_LCORES_MAX]; /* number i sends on TX queue i, and receives on RX queues i, i + lcores_n... */
	unsigned int lcores_n;
	const char *tx_name; /* names are valid as long as the request */
	const char *rx_name;
	const char *target_name;
	const char *reads_name;
	uint16_t tx_port;     /* resolved */
	uint16_t rx_port;     /* NO_PORT: does not receive */
	uint16_t target_port; /* a port of this node, or of the program beside it; NO_PORT: none */
	enum gen_kind kind;
	uint16_t reads_port; /* agent: whose transmit rings it empties; NO_PORT: none */
	bool has_target;     /* a port of another node; with neither, flows are not placed */
	struct gen_target target;
	struct frame_sizes frame;
	uint32_t flows;
	uint32_t dealt; /* resolved: see gen_config_sender() */
	uint32_t routes;
	struct gen_shape shape;
	uint32_t busy_poll_packets; /* packets that a poll of a backlogged queue takes: the DUT's burst */
	const char *
	        trace; /* path of a trace that replaces frame and flows; NULL: none. Valid as long as the request */
	uint32_t frame_max; /* resolved: largest frame that the MTU allows, FCS included */
	enum gen_arrivals arrivals;
	uint32_t burst_packets;
	uint64_t on_ns;
	uint64_t off_ns;
	uint64_t seed;
	unsigned int burst;
	uint64_t late_max_ns;
	uint64_t
	        sleep_ns; /* after each iteration; 0: never, because the CPU belongs to the generator alone */
	uint32_t departures;    /* departures whose stamps are kept */
	uint64_t nic_stamps_ns; /* distance of frames that the NICs stamp (stamps.h); 0: none */
};

/*
 * Return the place of the lcore that sends a flow. Flow f goes to queue number f modulo the number of queues with traffic. If there
 * are at least as many as lcores, `dealt` is that number, so that each queue has one sender. Otherwise it is 0.
 */
static inline unsigned int gen_config_sender(const struct gen_config *config, uint32_t flow)
{
	return (config->dealt > 0 ? flow % config->dealt : flow) % config->lcores_n;
}

/* Read `spec`, and check what it alone determines. Returns 0, or -1 with err (where begins with "gen"). */
int gen_config_parse(const json_t *spec, struct gen_config *config, struct node_error *err);

/* Check that each lcore has a flow, and each queue that the shape loads. Returns as above. */
int gen_config_check_flows(const struct gen_config *config, unsigned int queues, struct node_error *err);

/*
 * Find the ports among those of `plan`, check sizes against the MTU and flows against the queues, and request what it needs of
 * the ports. Returns as above.
 */
int gen_config_resolve(struct gen_config *config, struct ports_plan *plan, struct node_error *err);

#endif
