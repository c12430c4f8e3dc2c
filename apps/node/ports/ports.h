/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of the node: set-up from the `ports` of a configure request, and their counters over a trial. Main lcore only, and
 * (except counters) only while no lcore uses a port.
 */
#ifndef PORTS_H
#define PORTS_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "node_error.h"
#include "plan.h"

/* Return all ports that EAL found: the `ports` of hello. Unknown values are null there and explained in `absent`. */
json_t *ports_hello(json_t *absent);

/*
 * Bring the ports into the state that `plan` requests. A port that is already in that state continues undisturbed; an unwanted
 * one is stopped. Returns 0, or -1 with err; then the port named in err and those after it are stopped, and the next call sets
 * them up again.
 */
int ports_apply(const struct ports_plan *plan, struct node_error *err);

uint16_t ports_rx_queues(uint16_t port);

/* Return the descriptors of all TX queues of a port, or of all RX queues of all ports. */
uint32_t ports_tx_descriptors(uint16_t port);
uint32_t ports_rx_descriptors(void);

/* Return held_mbufs of the present plan. */
uint32_t ports_held_mbufs(void);

/*
 * Return whether the driver passes buffers on instead of copying them (net_crossover with dma=swap): buffers of the sender then
 * lie in the rings of the receiving port.
 */
bool ports_buffers_change_hands(uint16_t port);

/* Return {port name: bytes of the buffers posted to its RX queues}: descriptors x distance of buffers. */
json_t *ports_footprint(void);

/* Return {port name: whether its link is up} for the running ports. */
json_t *ports_links(void);

/* Return 0 if the port stamps PTP frames as its spec requested, or the negative error number of the driver. */
int ports_timesync(uint16_t port);

/* Remember the counters of all running ports as the zero of ports_report(). */
void ports_mark(void);

/* Return the `ports` of a result: counters since ports_mark(). */
json_t *ports_report(void);

/* Return a number that grows with each frame received, missed or sent by any running port. */
uint64_t ports_movement(void);

/* Stop all ports that run. */
void ports_stop(void);

/* Stop and close everything. */
void ports_close(void);

#endif
