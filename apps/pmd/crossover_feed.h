/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * feed=infinite: the polling core itself fills buffers with frames and sets DD, so no generator core is needed and no other
 * core writes the descriptors. A visit is one call of the receive burst function for a queue.
 *
 * A queue is hot, as all are at first: buffers are filled when they are posted, and every visit gets as many packets as it asks
 * for. Or it is cold: a visit finds one packet with a given probability, independently of all other visits, and nothing
 * otherwise. Descriptors of a cold queue are posted without DD. How many visits pass until the next packet is drawn from the
 * geometric distribution when the packet before it was put into the ring; at the end of the last of them the frame is written
 * and DD set. So an empty visit reads the descriptor as always and finds no DD; what it does beyond that is to count down a
 * field of the line that every visit writes.
 */
#ifndef CROSSOVER_FEED_H
#define CROSSOVER_FEED_H

#include <rte_branch_prediction.h>

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

/*
 * 'count' descriptors have got buffers and no DD. A hot queue's are filled with frames and get DD; bytes behind the headers
 * stay.
 */
void crossover_feed_post(struct crossover_rx_queue *rxq, struct crossover_rx_desc *desc, uint32_t count);

/*
 * From now on visits of the queue find packets with this probability (0..1; 1: hot), drawn with 'seed'. What waits in the ring
 * is given up or comes into being as it needs to. Nobody may poll the queue meanwhile. The first visit of a cold queue is
 * empty. Holds until the queue is set up anew. Returns 0, or -EINVAL if the probability is none.
 */
int crossover_feed_set_queue_polls(struct crossover_rx_queue *rxq, double probability, uint64_t seed);

/* Counts frames handed to the application. */
void crossover_feed_count(struct crossover_rx_queue *rxq, struct rte_mbuf *const *pkts, uint16_t count);

/* Puts a packet into the ring of a cold queue, if a buffer is posted, and draws when the next one comes. None, if hot. */
void crossover_feed_arrive(struct crossover_rx_queue *rxq);

/* A visit has taken 'count' packets. */
static inline void crossover_feed_polled(struct crossover_rx_queue *rxq, struct rte_mbuf *const *pkts,
                                         uint16_t count)
{
	if (count > 0)
		crossover_feed_count(rxq, pkts, count);
	if (unlikely(--rxq->queue_polls_left == 0))
		crossover_feed_arrive(rxq);
}

#endif
