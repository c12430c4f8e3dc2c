/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of net_crossover beyond the ethdev API. All functions return 0 or a negative error: -ENODEV if the port does not belong to this
 * driver, -EINVAL if the queue does not exist or is not set up, -EBUSY if another control thread holds the pair, and what is said below.
 *
 * The work of a sender's core per frame depends on the receiving port's configuration: frames are not read for a single
 * promiscuous queue without hash, types or checksums; frames for up to four queues are classified and sorted by queue;
 * frames for more are classified only. Curves over the number of queues therefore compare three programs of the wire.
 * rte_eth_tx_burst_mode_get() names the one that runs, and the statistics tx_qN_wire_sampled_* show its cost.
 */
#ifndef NET_CROSSOVER_H
#define NET_CROSSOVER_H

#include <stdbool.h>
#include <stdint.h>

#define NET_CROSSOVER_DRIVER_NAME "net_crossover"

/*
 * Counter of failed refills of an RX queue: one step per poll whose refill the mempool could not serve. A poll that returns nothing has two causes
 * that its return value does not tell apart: nothing had arrived, or the mempool could not refill the ring. This counter moves in the second case.
 * The queue's polling lcore writes it, in a cache line that every poll of the queue touches, so a reader on the same lcore pays an L1 hit. Valid
 * until the queue is released or set up again. A secondary process may read it as well.
 */
int net_crossover_refill_failures(uint16_t port_id, uint16_t queue_id, const uint64_t **counter);

/*
 * feed=infinite: from now on a poll (one rte_eth_rx_burst()) of an RX queue finds packets with this probability. 1, as after set-up: as many as it asks
 * for, at every poll. Less: one packet, at polls drawn independently with 'seed'. 0: never any. Holds until the queue is set up again. Nobody may
 * poll the queue during the call.
 *
 * -EINVAL also if the value is no probability; -ENOTSUP if the pair has another feed.
 */
int net_crossover_feed_queue_polls(uint16_t port_id, uint16_t queue_id, double probability, uint64_t seed);

/*
 * Lets several lcores poll an RX queue at once (device argument rx=corec), or only one again: for all queues of the port that start from now on. Nobody
 * may poll the port during the call. A secondary process that is already attached must be attached again before it polls.
 *
 * -EBUSY also if the port is started; -ENOTSUP if the pair has feed=infinite.
 */
int net_crossover_rx_corec(uint16_t port_id, bool on);

/* Where empty buffers of a port lie, see crossover.h. */
enum net_crossover_buffers {
	NET_CROSSOVER_POSTED, /* in the descriptors of each RX queue */
	NET_CROSSOVER_SHARED, /* in one buffer pool for all RX queues */
	NET_CROSSOVER_SPLIT,  /* in one buffer pool per RX queue, from which all others may borrow */
};

/*
 * Sets this for all queues of the port that start from now on, with `buffer_pool` (64 to 4096, no more than a queue has descriptors) buffers in a
 * pool. Each queue is polled by one lcore, as always. All RX queues have one mempool and start and stop with the port. Nobody may poll the port during the
 * call. A secondary process that is already attached must be attached again before it polls.
 *
 * -EINVAL also for another number of buffers; -EBUSY also if the port is started or has doorbells; -ENOTSUP if the pair has feed=infinite,
 * feed=external or dma=swap.
 */
int net_crossover_rx_buffers(uint16_t port_id, enum net_crossover_buffers buffers, uint16_t buffer_pool);

/*
 * From now on each sender to this port rings bells[q % count] (qwait_notify(), see qwait.h) after the DD bits of RX queue q, once per burst of at most
 * 32 frames. NULL: no sender rings, and sending costs what it did before. With one doorbell per RX queue a ring says which queue has packets;
 * with fewer it says as much as an interrupt vector that several queues share. `bells` lies in memory that all processes share, and stays in place
 * until a call with NULL has returned 0. May be called while the port runs.
 *
 * -EINVAL for bells with count 0; -ENOTSUP if the pair has feed=infinite or feed=external (there are no senders) or the port's
 * buffers lie in pools; -EBUSY also if a sender does not leave its burst.
 */
struct qwait_doorbell;
int net_crossover_notify(uint16_t port_id, struct qwait_doorbell *bells, uint16_t count);

/*
 * Assigns RX ring i of the port `rx_port_id` to TX queue senders[i] of its peer `tx_port_id`, for i < count: that queue alone sends there from now
 * on, so its core writes the ring without atomic operations although the port has other senders. Frames for this ring from another TX queue are
 * missed. UINT16_MAX: all TX queues may send. `count` 0 ends all assignments; so does a change of RSS, and the start or stop of a TX
 * queue. An RX queue that is set up again has no assignment. May be called while the ports run.
 *
 * -EINVAL for another number of rings than the port has RX queues, or for a TX queue that the peer does not have; -ENOTSUP if the two are not the ends of one pair, the
 * pair has feed=external, or the buffers lie in pools;
 * -EBUSY also if a sender does not leave its burst.
 */
int net_crossover_assign(uint16_t rx_port_id, uint16_t tx_port_id, const uint16_t *senders, uint16_t count);

/*
 * rx=corec: counter of this lcore's polls of this queue that returned nothing because another core reserved the
 * descriptors first. Valid while the queue is started. -ENOTSUP if the queue is not in this mode or not started.
 */
int net_crossover_race_lost(uint16_t port_id, uint16_t queue_id, unsigned int lcore,
                            const uint64_t **counter);

#endif
