/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of a port over a trial, since the last mark. Main lcore only. */
#ifndef PORT_COUNTERS_H
#define PORT_COUNTERS_H

#include <stdint.h>
#include <jansson.h>

#include "node_error.h"

/*
 * Learn the names of the port's extended statistics, which change only with the number of queues. `at` is the JSON path of the
 * port's object. Returns 0, or -1 with err.
 */
int port_counters_learn(uint16_t port, const char *at, struct node_error *err);

void port_counters_forget(uint16_t port);

/* Remember the counters as the zero of port_counters_report(). */
void port_counters_mark(uint16_t port);

/* Return the counters since the mark: the P object of node-protocol.md for a port with this many RX queues. */
json_t *port_counters_report(uint16_t port, uint16_t rx_queues);

/* Return a number that grows with each frame received, missed or sent. */
uint64_t port_counters_movement(uint16_t port);

#endif
