/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * feed=infinite: RX descriptors are always ready. Buffers are filled with a frame and DD is set when they are posted, by
 * the polling core itself, so no generator core is needed and no other core writes the descriptors.
 */
#ifndef CROSSOVER_FEED_H
#define CROSSOVER_FEED_H

#include "crossover_port.h"

#define CROSSOVER_TEMPLATE_BYTES 64

/* Ethernet, IPv4 and UDP header of a flow, and the write-back word that goes with it. */
struct crossover_template {
	uint8_t head[CROSSOVER_TEMPLATE_BYTES];
	uint64_t writeback;
};

/*
 * Makes the frames of a queue: flow i of the port goes to queue i modulo the number of queues; a queue beyond the number
 * of flows repeats one. Returns 0, -EINVAL if the frame does not fit one buffer (logged), or -ENOMEM.
 */
int crossover_feed_init(struct crossover_rx_queue *rxq);
void crossover_feed_release(struct crossover_rx_queue *rxq);

/* Fills 'count' descriptors, whose buffers are in place, with frames and sets DD. Bytes behind the headers stay. */
void crossover_feed_fill(struct crossover_rx_queue *rxq, struct crossover_rx_desc *desc, uint32_t count);

/* Counts frames handed to the application. */
void crossover_feed_count(struct crossover_rx_queue *rxq, struct rte_mbuf *const *pkts, uint16_t count);

#endif
