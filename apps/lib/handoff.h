/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring between lcores that read packets and lcores that work on them: an rte_ring of mbufs. Packets that do not fit are not
 * taken, so the caller counts them; nothing is lost inside.
 */
#ifndef HANDOFF_H
#define HANDOFF_H

#include <stddef.h>
#include <stdint.h>
#include <rte_mbuf.h>

/* Synchronisation of lcores at the same end of the ring (DPDK Programmer's Guide, ring library). */
enum handoff_sync {
	HANDOFF_DEFAULT, /* compare-and-swap on the head, then wait for those before */
	HANDOFF_RTS,     /* relaxed tail: the last one moves the tail for all */
	HANDOFF_HTS,     /* head and tail move together: one at a time */
	HANDOFF_SINGLE,  /* one at each end, no synchronisation */
};

#define HANDOFF_SLOTS_MIN 2
#define HANDOFF_SLOTS_MAX (1 << 20)

struct rte_ring;

/* Return the memory of a ring of `slots` in bytes; 0 0 if slots is not a power of two or is out of range. */
size_t handoff_bytes(uint32_t slots);

/*
 * Make an empty ring of `slots`, one of which stays empty, in memory of handoff_bytes() aligned to a cache line. The memory
 * still belongs to the caller.
 */
struct rte_ring *handoff_init(void *memory, uint32_t slots, enum handoff_sync sync);

/* Put packets in, in this order. Returns how many of the n fitted, the first ones. */
uint16_t handoff_put(struct rte_ring *ring, struct rte_mbuf *const *packets, uint16_t n);

/* Take up to n packets out. */
uint16_t handoff_take(struct rte_ring *ring, struct rte_mbuf **packets, uint16_t n);

/* Return the number of packets; a snapshot while others use the ring. */
uint32_t handoff_count(const struct rte_ring *ring);

/* Free the packets of an unused ring. Returns how many there were. */
uint32_t handoff_empty(struct rte_ring *ring);

#endif
