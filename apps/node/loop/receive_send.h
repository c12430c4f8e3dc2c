/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive functions of a poll loop (one per enum poller_source except SOURCE_MADE), the send functions, and the
 * work that does nothing. All are inlined into the loops.
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

/* No other lcore reads these queues. */
static __rte_always_inline uint16_t receive_alone(struct poller *p, uint16_t queue, struct rte_mbuf **packets)
{
	return rte_eth_rx_burst(p->rx_port, queue, packets, p->burst);
}

/*
 * The same, counting packets by the RETA entry that brought them. Relaxed stores: no other lcore writes a count, and
 * the reader needs it only approximately. A packet without a hash did not come through the RETA.
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

/* Sweeps of several lcores begin at different queues; otherwise each would follow right behind the one before. */
static __rte_always_inline uint16_t shared_queue(const struct poller *p, uint16_t place)
{
	const uint32_t queue = (uint32_t)p->sweep_begin + place;

	return (uint16_t)(queue < p->queues ? queue : queue - p->queues);
}

/* Several lcores read this queue, one at a time. */
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

/* As above, but a queue whose lock is taken is skipped. */
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

/* Several lcores read this queue at once; the driver allows it. */
static __rte_always_inline uint16_t receive_corec(struct poller *p, uint16_t place, struct rte_mbuf **packets)
{
	return rte_eth_rx_burst(p->rx_port, shared_queue(p, place), packets, p->burst);
}

static __rte_always_inline uint16_t receive_ring(struct poller *p, uint16_t queue, struct rte_mbuf **packets)
{
	RTE_SET_USED(queue);
	return handoff_take(p->ring, packets, p->burst);
}

/* Leave the packets unchanged. */
static __rte_always_inline uint16_t process_nothing(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	RTE_SET_USED(p);
	RTE_SET_USED(packets);
	return n;
}

/* Drop what the TX queue does not take at once: a retry would turn a slow peer into a slow DUT. */
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
