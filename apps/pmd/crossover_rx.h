/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CROSSOVER_RX_H
#define CROSSOVER_RX_H

#include <ethdev_driver.h>

#include "crossover_port.h"

/*
 * The burst function of the driver side. 'described': one that tells types and checksums if they are wanted; without it
 * nothing is spent on them.
 */
eth_rx_burst_t crossover_rx_burst(const struct crossover_port *port, bool described);

/* Fast-path queries of the driver side; signatures are ethdev's. */
int crossover_rx_descriptor_status(void *queue, uint16_t offset);
int crossover_get_monitor_addr(void *queue, struct rte_power_monitor_cond *condition);

/* Descriptors that are filled and not polled yet. */
uint32_t crossover_rx_filled(const struct crossover_rx_queue *rxq);

/*
 * Empties the ring's state and posts a buffer in every descriptor. The NIC side must not be running.
 * Returns 0, or -ENOMEM if the mempool has too few buffers; then nothing is posted.
 */
int crossover_rx_fill(struct crossover_rx_queue *rxq);

/* Gives all buffers of the ring back to their pools. The NIC side must not be running, nor anybody polling. */
void crossover_rx_drain(struct crossover_rx_queue *rxq);

#endif
