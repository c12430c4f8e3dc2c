/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The truth to which the accounting of cycles is compared: a DUT lcore polls by a script. The script gives the queue and the
 * number of packets of every poll, and before each pass the generator's lcore puts exactly these into the RX rings, over the
 * wire. So the same packets can be received in the same order with the empty polls between them and without, and the empty
 * polls can run alone. The cost of the empty polls is then a difference of two measured times, without any estimator. Loops,
 * driver and accounting are those of trials; the time for filling rings is set aside.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <jansson.h>

#include "node_error.h"

/*
 * Handle the request {"burst": [packets of poll 0, 1, ...; poll i asks queue i modulo queues], "queues": of the script, default
 * all, "passes": N, "work_cycles": W}. If the DUT has twice as many queues, empty polls ask those that the script does not
 * fill. A pass of empty polls has as many polls as the whole script, so that the sweep has no gaps. A pass runs the script
 * `chunks` times. Passes with all polls, the busy ones and the empty ones alternate.
 *
 * Needs a DUT lcore that reads RX queues of its own and sends, and a generator whose frames reach them. Returns NULL, or
 * {"chunks", "polls": {"all": of a chunk, "busy", "empty"}, "cycles": {"all": [of each pass, without interruptions], "busy",
 * "empty"}, "work": [cycles of a packet's work, timed after each pass with all polls], "timed_intervals": [[polls, busy polls,
 * transitions, packets, cycles], ...], "lcore": of the passes with all polls}.
 */
json_t *oracle(json_t *request, struct node_error *err);

#endif
