/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The generator role, on one lcore or on several that share its traffic by flows. The main lcore calls all functions except
 * gen_lcore_main, and never while gen_lcore_main runs, unless stated otherwise. Only gen_lcore_main is hot; it allocates and
 * logs nothing.
 */
#ifndef GEN_H
#define GEN_H

#include <stdbool.h>
#include <jansson.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

#include "node_error.h"
#include "trial.h"

/*
 * Set up a resolved generator, or none (NULL). Called after the ports are set up and started, whenever ports or "gen" changed:
 * keys and RETA of target_port are read here. Keeps its mempool if it is large enough. Returns 0, or -1 with err (where: JSON
 * path beginning with "gen"); then the node has no generator.
 */
struct gen_config;
int gen_apply(const struct gen_config *wanted, struct node_error *err);

/* The lcores of the configured generator. Returns their number; 0: no generator. */
unsigned int gen_lcores(const unsigned int **lcores);

/* Return the first of them, or LCORE_ID_ANY. */
unsigned int gen_lcore(void);

/* The same if it never sleeps, so that its CPU is busy in every trial; otherwise LCORE_ID_ANY. */
unsigned int gen_spinning_lcore(void);

/* Return the port that the generator sends on; *pool becomes its mempool. */
uint16_t gen_tx_port(struct rte_mempool **mempool);

/*
 * Prepare for `trial` (valid until the next gen_start): resolve the rate, clear counters and histograms. Returns 0, or -1 with
 * err (where: "rate"...).
 */
int gen_start(const struct trial *trial, struct node_error *err);

/*
 * Handle the request `queue_polls` {"per_s": N}: how often the DUT of another node polls each of its queues (queue_polls.h).
 * Accepted also while gen_lcore_main runs, and kept until the next gen_apply(). Returns 0, or -1 with err.
 */
int gen_set_queue_polls(const json_t *request, struct node_error *err);

/*
 * The main function of the lcore at `place` of gen_lcores(), launched after gen_start(). Sends in [begin_tsc, end_tsc), calls
 * trial_wake() when its window is closed, receives until TRIAL_OVER, returns 0.
 */
int gen_lcore_main(void *place);

/*
 * Return the array G of node-protocol.md ("gen":{"lcores":[...]}) for the last trial, as a new reference. The main lcore
 * may call it while the trial runs (live read). Counters may then be inconsistent with each other, but each is whole.
 */
json_t *gen_report(void);

/* Return whether frames wait in an RX queue of the generator; false also if the driver cannot tell. */
bool gen_frames_waiting(void);

/* Return whether packets are out that a DUT elsewhere has not sent back. Packets lost on the way stay out forever. */
bool gen_packets_out(void);

/* Free what gen_apply() made. */
void gen_close(void);

#endif
