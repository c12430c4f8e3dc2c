/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Organisation rebalanced: while a trial runs, entries of the RX port's RETA go from queues with much load to queues with little
 * (lib/rebalance.h), through ethdev, so with any driver that has a RETA. The workers count packets by entry. Main lcore only.
 */
#ifndef DUT_REBALANCER_H
#define DUT_REBALANCER_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "config.h"
#include "trial.h"

/* Counters for the n pollers of a configuration that rebalances; else nothing. Returns 0, or -1 with err and nothing made. */
int dut_rebalancer_make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                        struct node_error *err);

/* Restores the RETA and frees the memory. No lcore may run. */
void dut_rebalancer_free(void);

/* A trial begins: nothing is counted yet, and the RETA is what it was when the DUT was set up. */
void dut_rebalancer_begin(const struct trial *trial);

/* Looks at the loads, and moves entries, when that is due. */
void dut_rebalancer_step(void);

/* Until it is due; -1: never. */
int dut_rebalancer_timeout_ms(void);

/* The object `rebalancing` of a result; NULL: there is none. */
json_t *dut_rebalancer_json(void);

#endif
