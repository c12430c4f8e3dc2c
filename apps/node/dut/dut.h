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
 * Set up a resolved DUT, or none (NULL). Called after the ports are set up, while no lcore runs. Returns 0, or -1 with err;
 * then the node has no DUT.
 */
struct dut_config;
int dut_apply(const struct dut_config *config, struct node_error *err);

/* *pollers becomes the array of its lcores. Returns their number; 0: no DUT. */
unsigned int dut_pollers(struct poller ***pollers);

/* Return the port that the DUT receives on: 0, or -1 if no DUT is configured or it does not receive. */
int dut_rx_port(uint16_t *port);

/*
 * Return whether frames wait in an RX queue that a DUT lcore polls (false if the driver cannot tell), in a ring, or in a
 * delayed burst.
 */
bool dut_frames_waiting(void);

/* Return the first lcore that polls RX queues, or NULL. */
struct poller *dut_rx_poller(void);

/* Clear the accounts for a trial. */
void dut_start(const struct trial *trial);

/* While a trial runs: do the periodic work of the main lcore, and return the time until the next (-1: never). */
void dut_step(void);
int dut_timeout_ms(void);

/* The main function of a poller's lcore, for rte_eal_remote_launch; arg: struct poller *. */
int dut_lcore_main(void *arg);

/*
 * Return the object `dut` of a result (node-protocol.md) for the window of the last trial; while a trial runs, counters so
 * far.
 */
json_t *dut_report(bool running);

/* Return one poller's window: the object L of docs/internals/node-protocol.md. */
json_t *dut_window(const struct poller *poller);

/* Return one poller's counters so far, over all stages, for live readers. */
json_t *dut_live(const struct poller *poller);

void dut_close(void);

#endif
