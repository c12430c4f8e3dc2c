/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RX queue mode corec: several lcores call rte_eth_rx_burst() on the same queue at once (corec_protocol.h). What a poll does
 * differs from the standard path in that every descriptor it takes gets its new buffer at once, from the poller's own mempool
 * cache, and that a frame is one descriptor: there is no RTE_ETH_RX_OFFLOAD_SCATTER.
 *
 * The NIC side is the same as ever: it fills posted descriptors in order and knows one TAIL.
 */
#ifndef CROSSOVER_COREC_H
#define CROSSOVER_COREC_H

#include <ethdev_driver.h>

#include "crossover_port.h"

/* The burst function; 'described' as in crossover_rx_burst(). */
eth_rx_burst_t crossover_corec_burst(bool described);

/* Returns 0, or -EINVAL with a message: a queue of so many descriptors cannot be in this mode. */
int crossover_corec_check_size(const struct crossover_port *port, uint16_t queue_id, uint32_t size);

/*
 * Puts a queue whose buffers are all posted into the mode, before the NIC side runs. Returns 0, -EINVAL with a message
 * (number of descriptors, scattered frames wanted) or -ENOMEM.
 */
int crossover_corec_init(struct crossover_rx_queue *rxq, const struct rte_eth_dev *dev);

/*
 * Stops it, when neither NIC side nor pollers run: statistics go to the queue, and its position becomes that of the standard
 * path, with buffers in all descriptors. Polls find nothing. Does nothing to a queue that is not in the mode.
 */
void crossover_corec_release(struct crossover_rx_queue *rxq);

/* Takes it out of the mode after that; nothing to a queue that is not in it. */
void crossover_corec_free(struct crossover_rx_queue *rxq);

/* Adds what all consumers counted. */
void crossover_corec_count(const struct crossover_rx_queue *rxq, struct crossover_rx_counts *sum);

/* The next descriptor to be taken, and how many are posted from there on; a snapshot while others poll. */
void crossover_corec_place(const struct crossover_rx_queue *rxq, uint32_t *position, uint32_t *posted);

/* For a core that halts until the next descriptor is filled: which that is, and, once its line is armed, whether it still is. */
uint32_t crossover_corec_halt_place(struct crossover_rx_queue *rxq);
bool crossover_corec_may_halt(const struct crossover_rx_queue *rxq, uint32_t place);

/* The counter of lost claims that this lcore alone writes. */
const uint64_t *crossover_corec_race_lost(const struct crossover_rx_queue *rxq, unsigned int lcore);

#endif
