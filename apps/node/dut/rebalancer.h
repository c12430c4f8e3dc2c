/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Organisation rebalanced: while a trial runs, move entries of the RX port's RETA from loaded queues to others
 * (lib/rebalance.h), through ethdev, so with any driver that has a RETA. The workers count packets by entry. Main lcore only.
 */
#ifndef DUT_REBALANCER_H
#define DUT_REBALANCER_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "config.h"
#include "trial.h"

/* Make counters for the n pollers of a configuration that rebalances. Returns 0, or -1 with err and nothing made. */
int dut_rebalancer_make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                        struct node_error *err);

/* Restore the RETA and free the memory. No lcore may run. */
void dut_rebalancer_free(void);

/* Begin a trial: counters are zero, and the RETA is that of the set-up. */
void dut_rebalancer_begin(const struct trial *trial);

/* Look at the loads and move entries, if that is due. */
void dut_rebalancer_step(void);

/* Return the time until it is due; -1: never. */
int dut_rebalancer_timeout_ms(void);

/* Return the object `rebalancing` of a result; NULL: none. */
json_t *dut_rebalancer_json(void);

#endif
