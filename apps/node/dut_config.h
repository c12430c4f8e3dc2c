/* SPDX-License-Identifier: BSD-3-Clause */
/* The "dut" object of a `configure` request (docs/node-protocol.md), checked and turned into numbers. */
#ifndef DUT_CONFIG_H
#define DUT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <rte_lcore.h>

#include "delays.h"
#include "frame_sizes.h"
#include "handoff.h"
#include "node_error.h"
#include "poller.h"
#include "ports.h"

enum organisation { SCALE_OUT, SCALE_UP, LOCKED };

extern const char *const handoff_sync_names[]; /* by enum handoff_sync */

struct lcore_list {
	unsigned int lcores[RTE_MAX_LCORE];
	unsigned int n;
};

struct dut_config {
	struct lcore_list workers;
	struct lcore_list dispatchers;
	uint16_t rx_port; /* POLLER_NO_PORT: workload tx */
	uint16_t tx_port; /* POLLER_NO_PORT: none */
	enum organisation organisation;
	enum handoff_sync ring_sync;
	uint32_t ring_slots;
	unsigned int notification;
	unsigned int workload; /* index of workloads[] */
	enum accounting accounting;
	unsigned int encapsulation; /* enum encapsulation */
	struct frame_sizes frame;
	uint64_t flows;
	uint64_t routes;
	uint64_t burst;
	uint64_t sample_every;
	uint64_t longest;
	bool has_service; /* also when all it adds is 0 */
	bool has_hiccup;
	struct delays_config delays;
};

/*
 * Read and check `object`. Ports are set up and lcores exist when it succeeds. Returns 0, or -1 with err (where begins with
 * "dut").
 */
int dut_config_read(json_t *object, struct dut_config *config, struct node_error *err);

/* Number of rings between dispatchers and workers. */
unsigned int dut_config_rings(const struct dut_config *config);

/*
 * What rings can hold and of which port, from an object that was not checked yet: the pools of the ports are made before it can
 * be. What is malformed counts as its default here and is refused later.
 */
struct ports_held dut_config_held(const json_t *object);

#endif
