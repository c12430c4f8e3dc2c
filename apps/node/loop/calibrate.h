/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measure what accounting and polling cost on this machine, port and number of queues when no packet comes.
 *
 * The DUT's own lcore measures. The results are medians over rounds; a round is long against the clock and short
 * against host gaps. The neighbour, an lcore that will be busy in trials (LCORE_ID_ANY: none), spins meanwhile,
 * because the clock of a core and what two hardware threads share depend on their neighbours (17 cycles beside an
 * idle thread, 28 beside a busy one were seen).
 *
 *   tsc_read             one of many plain rdtsc in a row
 *   tsc_read_serialised  one of many rdtscp with fences in a row
 *   stamp                what one stamp per poll adds to a sweep, per poll
 *   empty_poll_overlapped  a sweep over the queues, per poll: polls overlap out of order
 *   empty_poll_serialised  the same with a fence after each poll, less the fence: the latency of a poll
 *   idle_iteration       one iteration of the loop that trials run, in the configured accounting mode
 *   sweep                one bare sweep over the queues
 */
#ifndef CALIBRATE_H
#define CALIBRATE_H

#include <jansson.h>

#include "node_error.h"
#include "poller.h"

/*
 * Measure what the loops of n pollers need to know of their own cost, on their lcores (about 2 ms). Ports may hold `most_left`
 * packets of an earlier trial.
 */
void calibrate_stamps(struct poller *const *pollers, unsigned int n, unsigned int neighbour,
                      uint32_t most_left);

/* Return the object `costs` of a calibrate request for this poller (NULL: there is none), or NULL with err. */
json_t *calibrate(struct poller *poller, unsigned int neighbour, json_t *request, struct node_error *err);

#endif
