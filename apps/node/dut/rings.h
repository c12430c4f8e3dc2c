/* SPDX-License-Identifier: BSD-3-Clause */
/* The rings between dispatchers and workers of the present configuration. Main lcore only, while no lcore uses them. */
#ifndef DUT_RINGS_H
#define DUT_RINGS_H

#include <jansson.h>

#include "config.h"

/* Make rings as `config` needs them; suitable ones are kept. Returns 0, or -1 with err and no ring. */
int dut_rings_make(const struct dut_config *config, struct node_error *err);

/* Return ring number i modulo the number of rings, or NULL if there is none. */
struct rte_ring *dut_ring(unsigned int i);

/* Return whether packets wait in a ring; also while lcores run. */
bool dut_rings_waiting(void);

/* After a trial: free the packets left in the rings and remember their number. */
void dut_rings_end(void);

/* Return the array R of docs/internals/node-protocol.md, or NULL if there is no ring. */
json_t *dut_rings_json(void);

void dut_rings_free(void);

#endif
