/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CROSSOVER_TX_H
#define CROSSOVER_TX_H

#include <ethdev_driver.h>

#include "crossover_port.h"

/*
 * Sends frames to the peer port; the caller's core does what the NIC's DMA engine would. Frames that find no posted
 * descriptor are sent and missed by the peer, as on a wire. All are taken, or none if there is no carrier or the queue is
 * stopped.
 */
uint16_t crossover_tx_burst(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts);

int crossover_tx_descriptor_status(void *queue, uint16_t offset);

/* Frees at most 'frames' sent frames (0: all), oldest first. Returns how many were freed. */
int crossover_tx_done_cleanup(void *queue, uint32_t frames);

#endif
