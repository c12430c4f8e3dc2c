/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layout of a receive ring: the memory that both sides of the wire share. It needs no DPDK driver header.
 *
 * A descriptor is 16 bytes, four per cache line, as on ixgbe and i40e. The driver side (the receiving core) posts a buffer and clears the
 * write-back word, then moves TAIL. The NIC side (the sending core, which plays the DMA engine) fills posted descriptors in order and stores
 * the write-back word last. This one 64-bit store carries length, hash and DD together, so a reader that sees DD with an acquire load
 * sees the frame as well.
 *
 * Several senders share no lock. Each reserves the descriptors for a run of frames or for one scattered frame by advancing HEAD with
 * compare-and-swap, and fills them independently. Why this is safe:
 * - A reservation is exclusive: HEAD only grows, and the sender that moved it from h to h + n owns descriptors h to h + n - 1 until
 *   their DD is set. The driver side posts none of them again before it has seen that DD.
 * - A reserved descriptor is posted: a sender reserves below a TAIL that it read with acquire after HEAD (directly, or through seen_tail,
 *   which the sender that read TAIL stores with release), so it also sees the buffer's handle. An older seen_tail may overwrite a newer
 *   one and then lie behind HEAD: the difference is taken as signed, and TAIL is read again. TAIL itself cannot lie behind HEAD, because HEAD was
 *   moved, with release, by a sender that had seen that much of TAIL.
 * - Order: the driver side stops at the first descriptor without DD, so frames arrive in reservation order, and those of one sender in
 *   sending order. A sender that is preempted between reservation and DD delays the frames reserved after it but blocks no other sender.
 * - No ABA problem: the count in HEAD has 48 bits. A sender that sleeps between reading and moving HEAD takes an old value for the present
 *   one only after 2^48 descriptors (a month at 100 Mpps).
 * - A stop resets HEAD only after crossover_quiesce(), when no sender is between reading HEAD and setting DD.
 * A single sender moves HEAD with a plain store. Which of the two holds is settled before a queue starts to send, for all rings of a port or
 * for one ring that was assigned to a sender (crossover_queue.c).
 *
 * TAIL and seen_tail run freely and wrap at 2^32, which is sound because a ring holds at most 4096 descriptors. Positions lie in [0, size).
 */
#ifndef CROSSOVER_RING_H
#define CROSSOVER_RING_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define CROSSOVER_LINE_BYTES 64
#define CROSSOVER_RING_MIN   64
#define CROSSOVER_RING_MAX   4096
#define CROSSOVER_RING_ALIGN 64 /* ring sizes are multiples of this */

/* HEAD: bits 0-15 position of the next descriptor to reserve, 16-63 count of descriptors reserved since start. */
#define CROSSOVER_HEAD_SHIFT 16

/*
 * The TX queues that may send to a ring: 0, all of the peer; n + 1, TX queue n alone. A change passes through n + 1 with CROSSOVER_SENDER_RESERVES: TX queue
 * n alone may send, but reserves as if there were others, because one of them may not have left its burst yet.
 */
#define CROSSOVER_SENDER_ANY      0
#define CROSSOVER_SENDER_RESERVES 0x8000

struct crossover_rx_desc {
	uint64_t buffer;    /* handle (mbuf address) of the posted buffer; dma=swap replaces it */
	uint64_t writeback; /* 0 while posted or taken back, WIRE_* of wire.h once filled */
};

/* The register line: written by the driver side, read by the NIC side when it has filled all descriptors that it knew of. */
struct crossover_rx_doorbell {
	alignas(CROSSOVER_LINE_BYTES) uint32_t tail; /* count of descriptors posted since start */
	uint64_t corec_tail; /* rx=corec: the same as the pollers' 64-bit count; not for the NIC */
	/* TAIL of the last refill that got no buffers. Until something is posted, only a poll tries again. */
	uint32_t starved_tail;
};

/*
 * State of the NIC side: one line. Senders that deliver pass it among each other; senders that find no descriptor only read it. The driver side
 * writes it only while the queue is stopped.
 */
struct crossover_rx_nic {
	alignas(CROSSOVER_LINE_BYTES) struct crossover_rx_desc *desc;
	void *pool;       /* mempool that the posted buffers come from */
	uint64_t head;    /* HEAD */
	uint64_t packets; /* delivered into descriptors; several senders add atomically */
	uint64_t bytes;
	uint32_t seen_tail;     /* last TAIL read by any sender */
	uint16_t size;          /* descriptors in the ring */
	uint16_t sender;        /* CROSSOVER_SENDER_* */
	uint32_t buffer_offset; /* bytes from the handle to the data; 0: not fixed, the mbuf says so */
	uint32_t
	        plain_bytes; /* longest frame that one buffer and the MTU take; the MTU may change while running */
	uint32_t buffer_bytes; /* data bytes that fit one buffer */
	uint32_t running;      /* 0: stopped, frames are missed */
};

struct crossover_rx_ring {
	struct crossover_rx_doorbell doorbell;
	struct crossover_rx_nic nic;
};

_Static_assert(sizeof(struct crossover_rx_desc) == sizeof(struct wire_descriptor) &&
                       offsetof(struct crossover_rx_desc, writeback) ==
                               offsetof(struct wire_descriptor, word),
               "external agents see the same descriptor");
_Static_assert(sizeof(struct crossover_rx_doorbell) == CROSSOVER_LINE_BYTES, "TAIL has a line of its own");
_Static_assert(sizeof(struct crossover_rx_nic) == CROSSOVER_LINE_BYTES, "NIC side is one line");

/* Returns the position after 'steps' (at most size) more descriptors. */
static inline uint32_t crossover_ring_advance(uint32_t position, uint32_t steps, uint32_t size)
{
	position += steps;
	return position >= size ? position - size : position;
}

/* Hands all descriptors written so far to the NIC side. */
static inline void crossover_ring_post(struct crossover_rx_ring *ring, uint32_t tail)
{
	__atomic_store_n(&ring->doorbell.tail, tail, __ATOMIC_RELEASE);
}

/* Notes that there were no buffers to post after this TAIL. A refill that gets buffers writes nothing here. */
static inline void crossover_ring_starve(struct crossover_rx_ring *ring, uint32_t tail)
{
	/* Senders read this line, and polls of an empty ring would take it from them. */
	if (ring->doorbell.starved_tail != tail)
		__atomic_store_n(&ring->doorbell.starved_tail, tail, __ATOMIC_RELAXED);
}

/* Returns whether the driver side waits for buffers; wrong at most once per 2^32 descriptors. */
static inline bool crossover_ring_is_starved(const struct crossover_rx_ring *ring)
{
	const uint32_t tail = __atomic_load_n(&ring->doorbell.tail, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&ring->doorbell.starved_tail, __ATOMIC_RELAXED) == tail;
}

static inline uint32_t crossover_head_position(uint64_t head)
{
	return (uint32_t)head & ((1u << CROSSOVER_HEAD_SHIFT) - 1);
}

static inline uint64_t crossover_head_move(uint64_t head, uint32_t steps, uint32_t size)
{
	uint64_t count = (head >> CROSSOVER_HEAD_SHIFT) + steps;

	return count << CROSSOVER_HEAD_SHIFT |
	       crossover_ring_advance(crossover_head_position(head), steps, size);
}

/*
 * Returns how many descriptors are posted from a HEAD on that was read with acquire: at least 'wanted' if there are that many. Reads TAIL's line
 * only if the last value seen does not suffice.
 */
static inline uint32_t crossover_ring_posted(struct crossover_rx_ring *ring, uint64_t head, uint32_t wanted)
{
	uint32_t reserved = (uint32_t)(head >> CROSSOVER_HEAD_SHIFT);
	uint32_t seen = __atomic_load_n(&ring->nic.seen_tail, __ATOMIC_ACQUIRE), tail;

	if ((int32_t)(seen - reserved) >= (int32_t)wanted)
		return seen - reserved;
	tail = __atomic_load_n(&ring->doorbell.tail, __ATOMIC_ACQUIRE);
	if (tail != seen) /* senders that find nothing do not write the line */
		__atomic_store_n(&ring->nic.seen_tail, tail, __ATOMIC_RELEASE);
	return tail - reserved;
}

/*
 * Returns how many descriptors from *head on can be filled in one go: at most 'wanted', posted, and not beyond the ring's end. They are not
 * reserved yet.
 */
static inline uint32_t crossover_ring_reach(struct crossover_rx_ring *ring, uint64_t *head, uint32_t wanted)
{
	uint32_t until_end, posted;

	*head = __atomic_load_n(&ring->nic.head, __ATOMIC_ACQUIRE);
	until_end = ring->nic.size - crossover_head_position(*head);
	wanted = wanted < until_end ? wanted : until_end;
	posted = crossover_ring_posted(ring, *head, wanted);
	return posted < wanted ? posted : wanted;
}

/* Reserves 'count' posted descriptors from 'head' on. Returns false if another sender reserved them first. */
static inline bool crossover_ring_reserve(struct crossover_rx_nic *nic, uint64_t head, uint32_t count,
                                          bool shared)
{
	uint64_t moved = crossover_head_move(head, count, nic->size);

	if (shared)
		return __atomic_compare_exchange_n(&nic->head, &head, moved, false, __ATOMIC_ACQ_REL,
		                                   __ATOMIC_RELAXED);
	__atomic_store_n(&nic->head, moved, __ATOMIC_RELAXED);
	return true;
}

/* Counts delivered frames. Called right after a reservation, while this core holds the line. */
static inline void crossover_ring_count(struct crossover_rx_nic *nic, uint32_t packets, uint64_t bytes,
                                        bool shared)
{
	if (shared) {
		__atomic_fetch_add(&nic->packets, packets, __ATOMIC_RELAXED);
		__atomic_fetch_add(&nic->bytes, bytes, __ATOMIC_RELAXED);
	} else {
		nic->packets += packets;
		nic->bytes += bytes;
	}
}

#endif
