/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layout of a receive ring: what the two sides of the wire share. No DPDK driver header is needed to read it.
 *
 * A descriptor is 16 bytes, four to a cache line, as on ixgbe and i40e. The driver side (the receiving core) posts a
 * buffer and clears the write-back word, then moves TAIL. The NIC side (the sending core, which plays the DMA engine)
 * fills posted descriptors in order and stores the write-back word last; that one 64-bit store carries length, hash and
 * DD together, so a reader that sees DD with an acquire load sees the frame as well.
 *
 * Counts run freely and wrap at 2^32, which is sound because a ring holds at most 4096; positions lie in [0, size).
 */
#ifndef CROSSOVER_RING_H
#define CROSSOVER_RING_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#define CROSSOVER_RING_LAYOUT_VERSION 1
#define CROSSOVER_LINE_BYTES          64
#define CROSSOVER_RING_MIN            64
#define CROSSOVER_RING_MAX            4096
#define CROSSOVER_RING_ALIGN          64 /* ring sizes are multiples of this */

/* Write-back word: bits 0-15 bytes in this buffer, 16 DD, 17 EOP, 18 hash is valid, 32-63 RSS hash. */
#define CROSSOVER_WB_DD         (UINT64_C(1) << 16)
#define CROSSOVER_WB_EOP        (UINT64_C(1) << 17)
#define CROSSOVER_WB_HASH       (UINT64_C(1) << 18)
#define CROSSOVER_WB_HASH_SHIFT 32

struct crossover_rx_desc {
	uint64_t buffer;    /* handle (mbuf address) of the posted buffer; dma=swap replaces it */
	uint64_t writeback; /* 0 while posted or taken back, CROSSOVER_WB_* once filled */
};

/* The register line: written by the driver side, read by the NIC side when it has used up what it knew of. */
struct crossover_rx_doorbell {
	alignas(CROSSOVER_LINE_BYTES) uint32_t tail; /* count of descriptors posted since start */
};

/* State of the NIC side. Senders touch it; the driver side does so only while the queue is stopped. */
struct crossover_rx_nic {
	alignas(CROSSOVER_LINE_BYTES) struct crossover_rx_desc *desc;
	void *pool;             /* mempool that the posted buffers come from */
	uint32_t size;          /* descriptors in the ring */
	uint32_t position;      /* next descriptor to fill */
	uint32_t head;          /* count of descriptors filled since start */
	uint32_t seen_tail;     /* last TAIL read */
	uint32_t buffer_offset; /* bytes from handle to the place for data; 0: ask the mbuf itself */
	uint32_t
	        plain_bytes; /* longest frame that one buffer and the MTU take; the MTU may change while running */
	uint32_t lock;       /* 1 while a sender holds the ring; used if several TX queues send */
	uint32_t running; /* 0: stopped, frames are missed */
	uint64_t packets; /* delivered into descriptors */
	uint64_t bytes;
	uint64_t missed;       /* no descriptor was posted, or the queue was stopped */
	uint32_t buffer_bytes; /* data bytes that fit one buffer */
};

struct crossover_rx_ring {
	struct crossover_rx_doorbell doorbell;
	struct crossover_rx_nic nic;
};

_Static_assert(sizeof(struct crossover_rx_desc) == 16, "four descriptors to a cache line");
_Static_assert(sizeof(struct crossover_rx_doorbell) == CROSSOVER_LINE_BYTES, "TAIL has a line of its own");
_Static_assert(sizeof(struct crossover_rx_nic) == 2 * CROSSOVER_LINE_BYTES, "NIC side is two lines");

/*
 * Descriptors that the NIC side may fill now, at least 'wanted' if there are so many. TAIL's line is read only when the
 * last value seen does not suffice; the acquire load pairs with the release store in crossover_ring_post().
 */
static inline uint32_t crossover_ring_posted(struct crossover_rx_ring *ring, uint32_t wanted)
{
	struct crossover_rx_nic *nic = &ring->nic;

	if (nic->seen_tail - nic->head < wanted)
		nic->seen_tail = __atomic_load_n(&ring->doorbell.tail, __ATOMIC_ACQUIRE);
	return nic->seen_tail - nic->head;
}

/* The driver side hands over all descriptors written so far. */
static inline void crossover_ring_post(struct crossover_rx_ring *ring, uint32_t tail)
{
	__atomic_store_n(&ring->doorbell.tail, tail, __ATOMIC_RELEASE);
}

/* Position 'steps' (at most size) further on. */
static inline uint32_t crossover_ring_advance(uint32_t position, uint32_t steps, uint32_t size)
{
	position += steps;
	return position >= size ? position - size : position;
}

#endif
