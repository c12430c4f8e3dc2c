/* SPDX-License-Identifier: BSD-3-Clause */
#include "handoff.h"

#include <rte_ring.h>

#define EMPTY_BURST 64

static unsigned int ring_flags(enum handoff_sync sync)
{
	switch (sync) {
	case HANDOFF_SINGLE:
		return RING_F_SP_ENQ | RING_F_SC_DEQ;
	case HANDOFF_RTS:
		return RING_F_MP_RTS_ENQ | RING_F_MC_RTS_DEQ;
	case HANDOFF_HTS:
		return RING_F_MP_HTS_ENQ | RING_F_MC_HTS_DEQ;
	case HANDOFF_DEFAULT:
		break;
	}
	return 0;
}

size_t handoff_bytes(uint32_t slots)
{
	/* rte_ring_get_memsize() logs an error if the size is not a power of two */
	const bool is_allowed =
	        slots >= HANDOFF_SLOTS_MIN && slots <= HANDOFF_SLOTS_MAX && rte_is_power_of_2(slots);
	const ssize_t bytes = is_allowed ? rte_ring_get_memsize(slots) : 0;

	return bytes > 0 ? (size_t)bytes : 0;
}

struct rte_ring *handoff_init(void *memory, uint32_t slots, enum handoff_sync sync)
{
	struct rte_ring *ring = memory;

	/* fails only for slots that handoff_bytes() refuses */
	rte_ring_init(ring, "handoff", slots, ring_flags(sync));
	return ring;
}

uint16_t handoff_put(struct rte_ring *ring, struct rte_mbuf *const *packets, uint16_t n)
{
	return (uint16_t)rte_ring_enqueue_burst(ring, (void *const *)packets, n, NULL);
}

uint16_t handoff_take(struct rte_ring *ring, struct rte_mbuf **packets, uint16_t n)
{
	return (uint16_t)rte_ring_dequeue_burst(ring, (void **)packets, n, NULL);
}

uint32_t handoff_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

uint32_t handoff_empty(struct rte_ring *ring)
{
	struct rte_mbuf *packets[EMPTY_BURST];
	uint32_t freed = 0;
	uint16_t n;

	while ((n = handoff_take(ring, packets, EMPTY_BURST)) != 0) {
		rte_pktmbuf_free_bulk(packets, n);
		freed += n;
	}
	return freed;
}
