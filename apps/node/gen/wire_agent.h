/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A generator that is the agent of apps/gpu: it plays the NIC of ports with feed=external (wire.h) on its lcore, as a device would. It fills
 * the receive rings of target_port, and empties the transmit rings of reads_port. What it sends, and to which queues, are the lists and flows of
 * traffic.h, so that it can be compared with an lcore that sends through the driver; results are those of engine.h.
 */
#ifndef WIRE_AGENT_H
#define WIRE_AGENT_H

#include <stdbool.h>
#include <jansson.h>

#include "config.h"
#include "engine.h"
#include "node_error.h"
#include "pacing.h"
#include "trial.h"

struct gen_agent;

/* Check what the parsed configuration says of an agent, which cannot do all that an lcore can. Returns 0, or -1 with err. */
int gen_agent_check(const struct gen_config *config, struct node_error *err);

/* Check that an agent can play the NIC of a port, or of NO_PORT; `where` is the key that names it. Returns 0, or -1 with err. */
int gen_agent_check_port(uint16_t port, const char *where, struct node_error *err);

/* Make the agent of an engine whose traffic is made and whose ports run. Returns 0, or -1 with err. */
int gen_agent_make(const struct gen_config *config, struct gen_engine *engine, struct node_error *err);

/*
 * Prepare for engine->trial; `pps` as in gen_start(), and `pacer` makes the slots of arrivals that are not constant. Returns 0, or -1 with err.
 */
int gen_agent_start(const struct gen_config *config, struct gen_engine *engine, double pps,
                    struct pacer *pacer, struct node_error *err);

/* The whole trial on the agent's lcore: as gen_engine_run(). */
void gen_agent_run(struct gen_engine *engine);

/* Bring counters and histograms of the engine up to date, on the main lcore alone. Each counter is whole, also while the agent runs. */
void gen_agent_count(struct gen_engine *engine);

/* Return the `sequence` of the result, as a new reference. */
json_t *gen_agent_sequence(const struct gen_engine *engine);

/* Return whether frames of the DUT wait for the agent. */
bool gen_agent_frames_waiting(const struct gen_engine *engine);

/* Free what gen_agent_make() made; nothing if there is no agent. */
void gen_agent_free(struct gen_engine *engine);

#endif
