/* SPDX-License-Identifier: BSD-3-Clause */
/* The request of `ports` in a configure request; nothing is set up yet. */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <rte_config.h>

#include "node_error.h"
#include "spec.h"

#define NO_PORT UINT16_MAX

struct ports_plan {
	struct {
		bool wanted; /* is in the list */
		struct port_spec spec;
		char at[32]; /* JSON path of its object */
	} ports[RTE_MAX_ETHPORTS];
	/* Mbufs of a port that wait in rings outside ports; its pool must have them in addition. */
	uint16_t held_port; /* NO_PORT: none */
	uint32_t held_mbufs;
};

/* Read the list. Returns 0, or -1 with err (where begins with "ports"). */
int ports_plan_parse(const json_t *list, struct ports_plan *plan, struct node_error *err);

/* Find the port of this name if it is wanted: 0 and *port, or -1 with err at `where`. Without a name (NULL): 0 and NO_PORT. */
int ports_plan_find(const struct ports_plan *plan, const char *name, const char *where, uint16_t *port,
                    struct node_error *err);

#endif
