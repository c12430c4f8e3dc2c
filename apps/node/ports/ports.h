/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of the node: set-up from the `ports` of a configure request, and their counters over a trial.
 * Main lcore only, and (but for counters) only while no lcore uses a port.
 */
#ifndef PORTS_H
#define PORTS_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "node_error.h"
#include "plan.h"

/* All ports that EAL found: the `ports` of hello. What cannot be told is null there and explained in `absent`. */
json_t *ports_hello(json_t *absent);

/*
 * Bring the ports into the state that `plan` asks for. A port that is already so goes on undisturbed; one that is not wanted is
 * stopped. Returns 0, or -1 with err; then the port named in err and those after it are stopped and will be set up anew by the
 * next call.
 */
int ports_apply(const struct ports_plan *plan, struct node_error *err);

uint16_t ports_rx_queues(uint16_t port);

/* Descriptors of all TX queues of a port, and of all RX queues of all ports. */
uint32_t ports_tx_descriptors(uint16_t port);
uint32_t ports_rx_descriptors(void);

/* held_mbufs of the present plan. */
uint32_t ports_held_mbufs(void);

/*
 * A driver that hands buffers over instead of copying them (net_crossover with dma=swap) leaves those of the sender in the
 * rings of the port that receives.
 */
bool ports_buffers_change_hands(uint16_t port);

/* {port name: bytes of the buffers posted to its RX queues}: descriptors x stride of a buffer. */
json_t *ports_footprint(void);

/* {port name: whether its link is up} of the ports that run. */
json_t *ports_links(void);

/* Whether the port stamps PTP frames, as its spec asked: 0, or the negative error number of the driver that does not. */
int ports_timesync(uint16_t port);

/* Remember the counters of all running ports: the zero of ports_report(). */
void ports_mark(void);

/* The `ports` of a result: counters since ports_mark(). */
json_t *ports_report(void);

/* Grows with each frame received, missed or sent by any running port. */
uint64_t ports_movement(void);

/* Stop and close everything. */
void ports_close(void);

#endif
