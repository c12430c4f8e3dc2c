/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the packets of a poll loop come from (receive functions, one for each enum poller_source but SOURCE_MADE) and where
 * they go to (send functions), and the work that is none. All are inlined into the loops.
 */
#ifndef RECEIVE_SEND_H
#define RECEIVE_SEND_H

#include <rte_ethdev.h>

#include "handoff.h"
#include "wait.h"

static __rte_always_inline uint64_t packets_bytes(struct rte_mbuf *const *packets, uint16_t n)
{
	uint64_t bytes = 0;

	for (uint16_t i = 0; i < n; i++)
		bytes += packets[i]->pkt_len;
	return bytes;
}

/* This lcore alone reads its RX queues. */
static __rte_always_inline uint16_t receive_alone(struct poller *p, uint16_t queue, struct rte_mbuf **packets)
{
	return rte_eth_rx_burst(p->rx_port, queue, packets, p->burst);
}

/*
 * The same, and packets are counted by the RETA entry that brought them. Relaxed: nobody else writes a count, and who reads it
 * wants no more than about how many. What was not hashed did not come by the RETA.
 */
static __rte_always_inline uint16_t receive_counted(struct poller *p, uint16_t queue,
                                                    struct rte_mbuf **packets)
{
	const uint16_t n = receive_alone(p, queue, packets);

	for (uint16_t i = 0; i < n; i++) {
		uint64_t *count = &p->entry_packets[packets[i]->hash.rss & p->entry_mask];
		const uint64_t hashed = (packets[i]->ol_flags & RTE_MBUF_F_RX_RSS_HASH) != 0;

		__atomic_store_n(count, *count + hashed, __ATOMIC_RELAXED);
	}
	return n;
}

/* Sweeps of several lcores begin at different queues, or each would run into the one before it. */
static __rte_always_inline uint16_t shared_queue(const struct poller *p, uint16_t place)
{
	const uint32_t queue = (uint32_t)p->sweep_begin + place;

	return (uint16_t)(queue < p->queues ? queue : queue - p->queues);
}

/* Several lcores read the queue at this place of the sweep, one at a time. */
static __rte_always_inline uint16_t receive_locked(struct poller *p, uint16_t place,
                                                   struct rte_mbuf **packets)
{
	const uint16_t queue = shared_queue(p, place);
	rte_spinlock_t *lock = &p->locks[queue].lock;

	wait_for_lock(p, lock);
	const uint16_t n = rte_eth_rx_burst(p->rx_port, queue, packets, p->burst);

	rte_spinlock_unlock(lock);
	return n;
}

/* The same, but who finds another lcore there goes on to the next queue. */
static __rte_always_inline uint16_t receive_trylock(struct poller *p, uint16_t place,
                                                    struct rte_mbuf **packets)
{
	const uint16_t queue = shared_queue(p, place);
	rte_spinlock_t *lock = &p->locks[queue].lock;

	if (!rte_spinlock_trylock(lock)) {
		p->locks_missed++;
		return 0;
	}
	const uint16_t n = rte_eth_rx_burst(p->rx_port, queue, packets, p->burst);

	rte_spinlock_unlock(lock);
	return n;
}

/* Several lcores read the queue at this place of the sweep at once; the driver sees to it. */
static __rte_always_inline uint16_t receive_corec(struct poller *p, uint16_t place, struct rte_mbuf **packets)
{
	return rte_eth_rx_burst(p->rx_port, shared_queue(p, place), packets, p->burst);
}

static __rte_always_inline uint16_t receive_ring(struct poller *p, uint16_t queue, struct rte_mbuf **packets)
{
	RTE_SET_USED(queue);
	return handoff_take(p->ring, packets, p->burst);
}

/* Packets go on as they are. */
static __rte_always_inline uint16_t process_nothing(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	RTE_SET_USED(p);
	RTE_SET_USED(packets);
	return n;
}

/* What the TX queue does not take at once is dropped: a retry would turn a slow peer into a slow DUT. */
static __rte_always_inline void send_port(struct poller *p, struct rte_mbuf **packets, uint16_t n,
                                          uint64_t bytes)
{
	struct account *a = p->account;

	if (n == 0)
		return;
	const uint16_t sent = rte_eth_tx_burst(p->tx_port, p->tx_queue, packets, n);

	if (unlikely(sent != n)) {
		bytes -= packets_bytes(packets + sent, n - sent);
		a->tx_dropped += n - sent;
		rte_pktmbuf_free_bulk(packets + sent, n - sent);
	}
	a->tx_packets += sent;
	a->tx_bytes += bytes;
}

#endif
