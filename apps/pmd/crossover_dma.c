/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_branch_prediction.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include "crossover_compat.h"
#include "crossover_dma.h"
#include "crossover_sent.h"

#define PREFETCH_AHEAD 4

static inline struct rte_mbuf *handle_mbuf(uint64_t handle)
{
	return (struct rte_mbuf *)(uintptr_t)handle;
}

/* Where the receiver wants the data. The mbuf itself is not touched if the place is fixed, as a NIC would not. */
static inline void *buffer_data(const struct crossover_rx_nic *nic, uint64_t handle)
{
	if (likely(nic->buffer_offset != 0))
		return (void *)(uintptr_t)(handle + nic->buffer_offset);
	return (uint8_t *)handle_mbuf(handle)->buf_addr + RTE_PKTMBUF_HEADROOM;
}

static inline void store_writeback(struct crossover_rx_desc *desc, uint64_t writeback)
{
	__atomic_store_n(&desc->writeback, writeback, __ATOMIC_RELEASE);
}

static inline uint64_t tag_of(const uint64_t *tags, uint32_t i)
{
	return tags == NULL ? 0 : tags[i];
}

void crossover_count_sent(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += pkts[i]->pkt_len;
	txq->counts.packets += count;
	txq->counts.bytes += bytes;
}

/* Counts the frame as sent, unless no NIC would send it. True: the peer does not take it, its length is wrong. */
static inline bool refuse(struct crossover_tx_queue *txq, const struct rte_mbuf *m)
{
	if (unlikely(m->pkt_len < CROSSOVER_MIN_FRAME ||
	             m->pkt_len > CROSSOVER_MAX_MTU + CROSSOVER_L2_BYTES)) {
		txq->counts.errors++;
		return true;
	}
	txq->counts.packets++;
	txq->counts.bytes += m->pkt_len;
	if (likely(m->pkt_len <= txq->peer->max_frame_bytes))
		return false;
	txq->counts.peer_oversize++;
	return true;
}

static void miss(struct crossover_tx_queue *txq, struct crossover_rx_nic *nic, struct rte_mbuf *const *pkts,
                 uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!refuse(txq, pkts[i]))
			nic->missed++;
}

/* One segment, and neither runt nor too long for one buffer and the MTU. */
static inline bool is_plain(const struct rte_mbuf *m, uint32_t plain_bytes)
{
	return m->nb_segs == 1 &&
	       m->data_len - (uint32_t)CROSSOVER_MIN_FRAME <= plain_bytes - CROSSOVER_MIN_FRAME;
}

/* 'count' descriptors from the NIC's position on were filled and hold 'bytes' bytes: sets DD on all of them, in order. */
static inline void complete(struct crossover_tx_queue *txq, struct crossover_rx_nic *nic,
                            const uint64_t *writebacks, uint32_t count, uint64_t bytes)
{
	struct crossover_rx_desc *desc = &nic->desc[nic->position];

	for (uint32_t i = 0; i < count; i++)
		store_writeback(&desc[i], writebacks[i]);
	nic->position = crossover_ring_advance(nic->position, count, nic->size);
	nic->head += count;
	nic->packets += count;
	nic->bytes += bytes;
	txq->counts.packets += count;
	txq->counts.bytes += bytes;
}

/* Copies plain frames into consecutive descriptors, up to the first frame that is not plain. Returns how many. */
static inline uint32_t copy_plain(struct crossover_tx_queue *txq, struct crossover_rx_nic *nic,
                                  struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count)
{
	const struct crossover_rx_desc *desc = &nic->desc[nic->position];
	uint32_t plain_bytes = nic->plain_bytes, i;
	uint64_t writebacks[CROSSOVER_CHUNK], bytes = 0;

	for (i = 0; i < count && i < PREFETCH_AHEAD; i++)
		rte_prefetch0(buffer_data(nic, desc[i].buffer));
	for (i = 0; i < count && is_plain(pkts[i], plain_bytes); i++) {
		uint32_t length = pkts[i]->data_len;

		if (likely(i + PREFETCH_AHEAD < count))
			rte_prefetch0(buffer_data(nic, desc[i + PREFETCH_AHEAD].buffer));
		rte_memcpy(buffer_data(nic, desc[i].buffer), rte_pktmbuf_mtod(pkts[i], const void *), length);
		writebacks[i] = length | CROSSOVER_WB_DD | CROSSOVER_WB_EOP | tag_of(tags, i);
		bytes += length;
	}
	complete(txq, nic, writebacks, i, bytes);
	return i;
}

struct gather {
	const struct rte_mbuf *segment;
	uint32_t offset; /* within the segment */
};

static void gather_copy(struct gather *from, uint8_t *to, uint32_t bytes)
{
	while (bytes > 0) {
		uint32_t step = RTE_MIN(bytes, from->segment->data_len - from->offset);

		rte_memcpy(to, rte_pktmbuf_mtod_offset(from->segment, const uint8_t *, from->offset), step);
		to += step;
		bytes -= step;
		from->offset += step;
		if (from->offset == from->segment->data_len) {
			from->segment = from->segment->next;
			from->offset = 0;
		}
	}
}

/* The receiver of a swapping pair takes data_off from the mbuf, so a copied frame needs it set. */
static void fill_buffer(struct crossover_tx_queue *txq, const struct crossover_rx_nic *nic, uint64_t handle,
                        struct gather *from, uint32_t bytes)
{
	if (txq->swap)
		handle_mbuf(handle)->data_off = RTE_PKTMBUF_HEADROOM;
	gather_copy(from, buffer_data(nic, handle), bytes);
}

static void copy_scattered(struct crossover_tx_queue *txq, struct crossover_rx_nic *nic,
                           const struct rte_mbuf *m, uint64_t tag, uint32_t descriptors)
{
	struct gather from = {.segment = m};
	uint32_t left = m->pkt_len, last = (m->pkt_len - 1) % nic->buffer_bytes + 1;
	uint32_t at;

	for (uint32_t i = 0; i < descriptors; i++) {
		uint32_t bytes = RTE_MIN(left, nic->buffer_bytes);

		at = crossover_ring_advance(nic->position, i, nic->size);
		fill_buffer(txq, nic, nic->desc[at].buffer, &from, bytes);
		left -= bytes;
	}
	/* From the last to the first: whoever sees DD on the first sees the whole frame. */
	for (uint32_t i = descriptors; i-- > 0;) {
		bool end = i == descriptors - 1;

		at = crossover_ring_advance(nic->position, i, nic->size);
		store_writeback(&nic->desc[at], (end ? last | CROSSOVER_WB_EOP : nic->buffer_bytes) |
		                                        CROSSOVER_WB_DD | (i == 0 ? tag : 0));
	}
	nic->position = crossover_ring_advance(nic->position, descriptors, nic->size);
	nic->head += descriptors;
	nic->packets++;
	nic->bytes += m->pkt_len;
}

/* Any frame: gathers segments, scatters over buffers, or drops it where a NIC would. */
static __rte_noinline void copy_any(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                                    struct rte_mbuf *m, uint64_t tag)
{
	struct crossover_rx_nic *nic = &ring->nic;
	uint32_t descriptors = (m->pkt_len + nic->buffer_bytes - 1) / nic->buffer_bytes;

	if (refuse(txq, m))
		return;
	if (crossover_ring_posted(ring, descriptors) < descriptors)
		nic->missed++;
	else
		copy_scattered(txq, nic, m, tag, descriptors);
}

/* Descriptors that can be filled in one go for 'wanted' frames: posted, and not beyond the ring's end. */
static inline uint32_t reach(struct crossover_rx_ring *ring, uint32_t wanted)
{
	uint32_t posted = crossover_ring_posted(ring, wanted);
	uint32_t until_end = ring->nic.size - ring->nic.position;

	return RTE_MIN(RTE_MIN(posted, until_end), wanted);
}

void crossover_dma_copy(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                        struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count)
{
	struct crossover_rx_nic *nic = &ring->nic;
	uint32_t done = 0;

	while (done < count) {
		uint32_t room = nic->running ? reach(ring, count - done) : 0;
		const uint64_t *rest = tags == NULL ? NULL : tags + done;
		uint32_t copied;

		if (unlikely(room == 0)) {
			miss(txq, nic, pkts + done, count - done);
			return;
		}
		copied = copy_plain(txq, nic, pkts + done, rest, room);
		if (unlikely(copied < room)) {
			copy_any(txq, ring, pkts[done + copied], tag_of(rest, copied));
			copied++;
		}
		done += copied;
	}
}

static inline bool can_change_hands(const struct crossover_rx_nic *nic, const struct rte_mbuf *m)
{
	return is_plain(m, nic->plain_bytes) && m->pool == nic->pool && rte_mbuf_refcnt_read(m) == 1 &&
	       (m->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)) == 0 &&
	       m->data_off >= RTE_PKTMBUF_HEADROOM;
}

/* Swaps buffers up to the first frame whose buffer cannot change hands; the posted ones go back to their pool. */
static inline uint32_t swap_plain(struct crossover_tx_queue *txq, struct crossover_rx_nic *nic,
                                  struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count)
{
	struct crossover_rx_desc *desc = &nic->desc[nic->position];
	uint64_t writebacks[CROSSOVER_CHUNK], bytes = 0;
	void *posted[CROSSOVER_CHUNK];
	uint32_t i;

	for (i = 0; i < count && can_change_hands(nic, pkts[i]); i++) {
		posted[i] = handle_mbuf(desc[i].buffer);
		desc[i].buffer = (uintptr_t)pkts[i];
		writebacks[i] = pkts[i]->data_len | CROSSOVER_WB_DD | CROSSOVER_WB_EOP | tag_of(tags, i);
		bytes += pkts[i]->data_len;
	}
	complete(txq, nic, writebacks, i, bytes);
	rte_mempool_put_bulk(nic->pool, posted, i);
	txq->counts.swapped += i;
	return i;
}

void crossover_dma_swap(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                        struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count)
{
	struct crossover_rx_nic *nic = &ring->nic;
	uint32_t done = 0;

	while (done < count) {
		uint32_t room = nic->running ? reach(ring, count - done) : 0;
		const uint64_t *rest = tags == NULL ? NULL : tags + done;
		uint32_t swapped;

		if (unlikely(room == 0)) {
			miss(txq, nic, pkts + done, count - done);
			crossover_sent_push(txq, pkts + done, count - done);
			return;
		}
		swapped = swap_plain(txq, nic, pkts + done, rest, room);
		if (unlikely(swapped < room)) {
			copy_any(txq, ring, pkts[done + swapped], tag_of(rest, swapped));
			crossover_sent_push(txq, &pkts[done + swapped], 1);
			swapped++;
		}
		done += swapped;
	}
}
