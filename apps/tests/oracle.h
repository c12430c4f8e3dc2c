/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The truth that the accounting of cycles is held against: a DUT lcore polls by a script. The script says of every poll
 * which queue it asks and how many packets it gets; the generator's lcore puts just these into the RX rings, by the wire,
 * before each pass. So the same packets can be received in the same order with the empty polls between them, without
 * them, and the empty polls alone. What the empty polls cost is a difference of two measured times, which no estimator has
 * touched. The loops, the driver and the accounting are those of trials; the time in which the rings are filled is set aside.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <jansson.h>

#include "node_error.h"

/*
 * Request {"burst": [packets of poll 0, 1, ...; poll i asks queue i modulo queues], "queues": of the script, default all,
 * "passes": N, "work_cycles": W}. Where the DUT has twice as many queues, empty polls ask those that the script does not fill. A
 * pass of empty polls has as many as the script has polls in all: the sweep has no gaps.
 * A pass runs the script `chunks` times. Passes with all polls, with the busy ones and with the empty ones take turns. Needs a
 * DUT lcore that reads RX queues of its own and sends, and a generator whose frames reach them. Returns {"chunks",
 * "polls":{"all": of a chunk,"busy","empty"}, "cycles":{"all":[of each pass, without interruptions],"busy","empty"}, "work":[cycles of a packet's work,
 * timed behind each pass with all polls], "slices":[[polls, visits, switches, packets, cycles], ...], "lcore": of the passes with all polls} or NULL.
 */
json_t *oracle(json_t *request, struct node_error *err);

#endif
