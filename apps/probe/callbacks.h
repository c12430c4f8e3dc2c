/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Callbacks on all queues of all ports of the program, for the time of a window.
 *
 * DPDK never frees a removed callback, because a polling thread may still be inside. The probe frees it after a grace period (grace.h).
 * If too many wait for it, probe_callbacks_add() refuses, which bounds their memory.
 *
 * A port may come, stop, start, change its queues or go at any time. Ports are looked at when a window opens. When one goes, DPDK says so
 * before (RTE_ETH_EVENT_DESTROY): its callbacks are removed then. One that cannot be removed, because its queue is gone, stays
 * where it is until a port with that queue exists again; it records nothing outside windows.
 *
 * Without any port nothing of DPDK is called, because the program may be in rte_eal_cleanup().
 *
 * The caller holds a lock around every call but probe_queue_at(), and the same lock is taken when a port comes or goes.
 */
#ifndef PROBE_CALLBACKS_H
#define PROBE_CALLBACKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "record.h"

enum probe_direction { PROBE_RX, PROBE_TX, PROBE_RX_SHADOW, PROBE_DIRECTIONS };

/* Follow ports that are added and removed, under `lock`. Returns 0 or -errno. The second call does nothing. */
int probe_callbacks_init(pthread_mutex_t *lock);

/* Add callbacks to every queue; a second one for reception if `doubled`. Returns false if too many removed ones wait. */
bool probe_callbacks_add(bool doubled);

/* Remove all, and begin to wait for those inside. */
void probe_callbacks_remove(void);

/* Free what can be freed. Returns whether removed callbacks wait for it. */
bool probe_callbacks_reclaim(void);

/* Return the callbacks that are installed. */
uint32_t probe_callbacks_count(void);

/*
 * Return a queue by its place in the order of ports, directions (RX, TX) and queue numbers, or NULL after the last one. Queues that never
 * had a callback are left out.
 */
const struct probe_queue *probe_queue_at(uint32_t place, uint16_t *port, enum probe_direction *direction,
                                         uint16_t *id);

#endif
