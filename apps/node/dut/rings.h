/* SPDX-License-Identifier: BSD-3-Clause */
/* The rings between dispatchers and workers of the present configuration. Main lcore only, while no lcore uses them. */
#ifndef DUT_RINGS_H
#define DUT_RINGS_H

#include <jansson.h>

#include "config.h"

/* Rings as `config` needs them; those that suit already are kept. Returns 0, or -1 with err and no ring. */
int dut_rings_make(const struct dut_config *config, struct node_error *err);

/* Ring number i (modulo the number of rings: there may be one for all), or NULL when there is none. */
struct rte_ring *dut_ring(unsigned int i);

/* Packets wait in a ring; also while lcores run. */
bool dut_rings_waiting(void);

/* After a trial: free what is left in the rings and remember how much it was. */
void dut_rings_end(void);

/* The array R of docs/node-protocol.md, or NULL when there is no ring. */
json_t *dut_rings_json(void);

void dut_rings_free(void);

#endif
