/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RX modes in which buffers are not posted where frames are delivered. Each RX queue is a ring of deliveries: the NIC side writes
 * handle and write-back word, the driver side clears the word and moves TAIL. Empty buffers lie in supply rings (rte_ring):
 *
 *   shared   one supply for all RX queues of the port; who receives a frame puts a fresh buffer in its place
 *            (ShRing: Pismenny, Morrison, Tsafrir, OSDI'23: one ring of buffers for several cores).
 *   split    one supply for each RX queue, which its core keeps full; the NIC side takes from that of the queue first, and then
 *            from those of the others (rxBisect: Pismenny, Morrison, Tsafrir, OSDI'25; idpf's split queues have this form).
 *
 * By writer: descriptors and HEAD by senders, as ever; write-back words when they are taken, TAIL and `owed` by the polling lcore.
 * A supply has several takers (senders) and, if shared, several givers; rte_ring's own compare-and-swap and its acquire and
 * release keep them apart. A handle that was taken from a supply belongs to the sender until DD is set with release; what the
 * driver side wrote into that buffer before is seen because the ring's tail was read with acquire.
 * Mode shared has as many buffers in circulation as were posted at the start: a sender that took more than it found descriptors for
 * puts them back, so what is in the supply and what was delivered and not polled yet are together never more.
 *
 * A frame is one buffer: there is no RTE_ETH_RX_OFFLOAD_SCATTER. All RX queues have the same mempool, and frames are copied.
 */
#ifndef CROSSOVER_BUFFER_POOL_H
#define CROSSOVER_BUFFER_POOL_H

#include <ethdev_driver.h>

#include "crossover_port.h"

#define CROSSOVER_BUFFER_POOL_MIN 64

static inline bool crossover_has_buffer_pool(const struct crossover_port *port)
{
	return port->rx_mode == CROSSOVER_RX_SHARED || port->rx_mode == CROSSOVER_RX_SPLIT;
}

/* The burst function; 'described' as in crossover_rx_burst(). */
eth_rx_burst_t crossover_buffer_pool_burst(bool described);

/*
 * Puts a queue whose buffers are all posted into the mode, queue 0 first, before the NIC side runs. Returns 0, -EINVAL with a
 * message (scattered frames wanted, dma=swap, another mempool than queue 0's, fewer descriptors than buffers to supply) or -ENOMEM.
 */
int crossover_buffer_pool_init(struct crossover_rx_queue *rxq, const struct rte_eth_dev *dev);

/* Takes it out again, with nothing posted, when neither NIC side nor pollers of any queue run. Nothing if it is not in the mode. */
void crossover_buffer_pool_release(struct crossover_rx_queue *rxq);

/* Delivers 'count' (at most CROSSOVER_CHUNK) frames as crossover_dma_copy() does. Returns how many were missed. */
uint32_t crossover_buffer_pool_deliver(struct crossover_tx_queue *txq, struct crossover_rx_queue *rxq,
                                       struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count);

#endif
