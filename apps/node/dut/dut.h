/* SPDX-License-Identifier: BSD-3-Clause */
/* The DUT role: lcores that poll RX queues, composed of organisation x notification x workload x accounting. Main lcore only. */
#ifndef DUT_H
#define DUT_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "node_error.h"
#include "loop/poller.h"
#include "trial.h"

/*
 * Set up a DUT (resolved), or NULL: none. Called after the ports are set up, while no lcore runs. Returns 0, or -1 with err;
 * then the node has no DUT.
 */
struct dut_config;
int dut_apply(const struct dut_config *config, struct node_error *err);

/* Its lcores: *pollers becomes the array; returns their number (0: no DUT). */
unsigned int dut_pollers(struct poller ***pollers);

/* The port that the DUT receives on. Returns 0, or -1 when no DUT is configured or it receives nothing. */
int dut_rx_port(uint16_t *port);

/*
 * True while frames wait in an RX queue that a DUT lcore polls (false also where the driver cannot tell), in a ring, or in a
 * burst that is being delayed.
 */
bool dut_frames_waiting(void);

/* The first of its lcores that polls RX queues, or NULL. */
struct poller *dut_rx_poller(void);

/* Clear the accounts for a trial. */
void dut_start(const struct trial *trial);

/* While a trial runs: what the main lcore does for it from time to time, and until when there is nothing to do (-1: ever). */
void dut_step(void);
int dut_timeout_ms(void);

/* The main function of poller's lcore, for rte_eal_remote_launch; arg: struct poller *. */
int dut_lcore_main(void *arg);

/* The object `dut` of a result (docs/node-protocol.md) for the window of the last trial; while a trial runs, counters so far. */
json_t *dut_report(bool running);

/* One poller's window: the object L of docs/node-protocol.md. */
json_t *dut_window(const struct poller *poller);

/* Counters of one poller so far, all stages together: what live readers see. */
json_t *dut_live(const struct poller *poller);

void dut_close(void);

#endif
