/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What net_crossover tells beyond the ethdev API. Everything else goes through ethdev.
 *
 * A poll that returns nothing has two causes that the return value cannot tell apart: nothing had arrived, or the
 * mempool could not refill the ring. The counter below moves in the second case.
 */
#ifndef NET_CROSSOVER_H
#define NET_CROSSOVER_H

#include <stdbool.h>
#include <stdint.h>

#define NET_CROSSOVER_DRIVER_NAME "net_crossover"

/*
 * Counter of failed refills of an RX queue, one step per poll whose refill the mempool could not serve. The queue's
 * polling lcore writes it; it lies in a cache line that every poll of the queue touches, so a reader on the same lcore
 * pays an L1 hit. Valid until the queue is released or set up again. In a secondary process it may be read as well.
 *
 * Returns 0, or -ENODEV if the port is none of this driver's, -EINVAL if the queue does not exist or is not set up.
 */
int net_crossover_refill_failures(uint16_t port_id, uint16_t queue_id, const uint64_t **counter);

/*
 * feed=infinite: from now on a visit (one rte_eth_rx_burst()) of an RX queue finds packets with this probability: 1, as after set-up,
 * as many as it asks for at every visit; less, one packet at visits drawn independently with 'seed'; 0, never any. Holds
 * until the queue is set up again. Nobody may poll the queue during the call.
 *
 * Returns 0, or -ENODEV if the port is none of this driver's, -EINVAL if the queue does not exist or is not set up, or the
 * probability is none, -ENOTSUP if the pair has feed=wire, -EBUSY if another control thread keeps the pair.
 */
int net_crossover_feed_queue_polls(uint16_t port_id, uint16_t queue_id, double probability, uint64_t seed);

/*
 * RX queues that several lcores may poll at once (device argument rx=corec), or one lcore each again: holds for all queues of
 * the port that start from now on. Nobody may poll the port during the call. A secondary process that is there already must
 * be attached again before it polls.
 *
 * Returns 0, or -ENODEV if the port is none of this driver's, -EBUSY if it is started or another control thread keeps the
 * pair, -ENOTSUP if the pair has feed=infinite.
 */
int net_crossover_rx_corec(uint16_t port_id, bool on);

/* Where empty buffers of a port lie, see crossover_buffer_pool.h. */
enum net_crossover_buffers {
	NET_CROSSOVER_POSTED, /* in the descriptors of each RX queue */
	NET_CROSSOVER_SHARED, /* in one supply for all RX queues */
	NET_CROSSOVER_SPLIT,  /* in a supply of each RX queue, from which all others may borrow */
};

/*
 * Holds for all queues of the port that start from now on, with `buffer_pool` (64 to 4096, no more than a queue has descriptors)
 * buffers in a supply. One lcore polls a queue, as ever. All RX queues have one mempool and start and stop with the port.
 * Nobody may poll the port during the call. A secondary process that is there already must be attached again before it polls.
 *
 * Returns 0, or -ENODEV if the port is none of this driver's, -EINVAL for another supply, -EBUSY if it is started, has
 * doorbells, or another control thread keeps the pair, -ENOTSUP if the pair has feed=infinite or dma=swap.
 */
int net_crossover_rx_buffers(uint16_t port_id, enum net_crossover_buffers buffers, uint16_t buffer_pool);

/*
 * From now on whoever sends to this port rings bells[q % count] (qwait_notify(), see qwait.h) behind the DD bits of RX queue q, once
 * a burst of at most 32 frames; NULL: nobody does, and sending costs what it did before. With a bell for each RX queue a ring says
 * which queue has packets; with fewer it says as much as an interrupt vector that several queues share. `bells` is in memory that
 * all processes share, and stays where it is until a call with NULL has returned 0. May be called while the port is running.
 *
 * Returns 0, or -ENODEV if the port is none of this driver's, -ENOTSUP if the pair has feed=infinite (there nobody sends) or
 * buffers lie apart from the descriptors. -EINVAL:
 * bells, but none of them. -EBUSY if another control thread keeps the pair, or a sender does not leave its burst.
 */
struct qwait_doorbell;
int net_crossover_notify(uint16_t port_id, struct qwait_doorbell *bells, uint16_t count);

/*
 * rx=corec: counter of polls of this lcore, of this queue, that returned nothing because another core was quicker. Valid while
 * the queue is started.
 *
 * Returns 0, or -ENODEV, -EINVAL as above, -ENOTSUP if the queue is not in this mode or not started.
 */
int net_crossover_race_lost(uint16_t port_id, uint16_t queue_id, unsigned int lcore,
                            const uint64_t **counter);

#endif
