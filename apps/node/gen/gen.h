/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The generator role, on one lcore or on several that share its traffic by flows. All functions but gen_lcore_main are called by the main lcore, never while gen_lcore_main runs,
 * unless said otherwise. Only gen_lcore_main is hot; it allocates nothing and logs nothing.
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
 * Set up a generator (resolved), or NULL: none. Called after the ports are set up and started, whenever ports or "gen" changed:
 * keys and RETA of target_port are read here. Keeps its mempool when it is large enough. Returns 0, or -1 with err (where: JSON
 * path beginning with "gen"); then the node has no generator.
 */
struct gen_config;
int gen_apply(const struct gen_config *wanted, struct node_error *err);

/* The lcores of the configured generator; returns how many, 0: there is none. */
unsigned int gen_lcores(const unsigned int **lcores);

/* The first of them, or LCORE_ID_ANY when there is none. */
unsigned int gen_lcore(void);

/* The same where it never sleeps: then its CPU is busy in every trial, else LCORE_ID_ANY. */
unsigned int gen_spinning_lcore(void);

/* The port that the configured generator sends on; *pool becomes its mempool. */
uint16_t gen_tx_port(struct rte_mempool **mempool);

/* Prepare for `trial` (valid until the next gen_start): resolve the rate, clear counters and histograms.
 * Returns 0, or -1 with err (where: "rate"...). */
int gen_start(const struct trial *trial, struct node_error *err);

/*
 * Request `queue_polls` {"per_s": N}: how often the DUT of another node visits each of its queues (visits.h). Taken also while
 * gen_lcore_main runs, and held until the next gen_apply(). Returns 0, or -1 with err.
 */
int gen_set_queue_polls(const json_t *request, struct node_error *err);

/* The main function of the lcore at `place` of gen_lcores(), launched by the node after gen_start(). Sends in [begin_tsc, end_tsc), calls
 * trial_wake() when its window is closed, goes on receiving until TRIAL_OVER, returns 0. */
int gen_lcore_main(void *place);

/* The array G of docs/node-protocol.md ("gen":{"lcores":[...]}) for the last trial, as a new reference. While the trial
 * runs (live read) it may be called from the main lcore: counters may then be torn between each other, not within. */
json_t *gen_report(void);

/* True while frames wait in an RX queue of the generator; false also where the driver cannot tell. */
bool gen_frames_waiting(void);

/* True while packets are out that a DUT elsewhere has not sent back. What is lost on the way stays out for ever. */
bool gen_packets_out(void);

/* Free what gen_apply() made. */
void gen_close(void);

#endif
