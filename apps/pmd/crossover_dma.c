/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include "crossover.h"

/*
 * Buffers are fetched this many frames before they are written, with the intent to write: the receiver's core holds their lines, and a line
 * that was fetched for reading would have to be requested again. 16 hide most of the way between two cores (300 to 1400 cycles) behind
 * the copying of the frames in between.
 */
#define PREFETCH_AHEAD 16

static inline struct rte_mbuf *handle_mbuf(uint64_t handle)
{
	return (struct rte_mbuf *)(uintptr_t)handle;
}

/*
 * Returns where the receiver wants the data. If the place is fixed ('offset', nic->buffer_offset), the mbuf itself is not touched, as a NIC would
 * not touch it.
 */
static inline void *buffer_data(uint32_t offset, uint64_t handle)
{
	if (likely(offset != 0))
		return (void *)(uintptr_t)(handle + offset);
	return (uint8_t *)handle_mbuf(handle)->buf_addr + RTE_PKTMBUF_HEADROOM;
}

static inline void prefetch_to_write(const void *line)
{
	__builtin_prefetch(line, 1, 3);
}

static inline void store_writeback(struct crossover_rx_desc *desc, uint64_t writeback)
{
	__atomic_store_n(&desc->writeback, writeback, __ATOMIC_RELEASE);
}

static inline uint64_t tag_of(const uint64_t *tags, uint32_t i)
{
	return tags == NULL ? 0 : tags[i];
}

uint32_t crossover_count_and_judge(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts,
                                   uint32_t count)
{
	uint32_t longest = txq->peer->max_frame_bytes, sent = 0, oversize = 0, chained = 0;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t length = pkts[i]->pkt_len;
		bool good = length >= CROSSOVER_MIN_FRAME && length <= CROSSOVER_MAX_MTU + CROSSOVER_L2_BYTES;

		chained |= pkts[i]->nb_segs > 1;
		sent += good;
		bytes += good ? length : 0;
		oversize += good && length > longest;
	}
	txq->chained |= chained;
	txq->counts.errors += count - sent;
	txq->counts.packets += sent;
	txq->counts.bytes += bytes;
	txq->counts.peer_oversize += oversize;
	return sent - oversize;
}

/* Returns whether the frame is one segment, neither a runt nor too long for one buffer and the MTU. */
static inline bool is_plain(const struct rte_mbuf *m, uint32_t plain_bytes)
{
	return m->nb_segs == 1 &&
	       m->data_len - (uint32_t)CROSSOVER_MIN_FRAME <= plain_bytes - CROSSOVER_MIN_FRAME;
}

static inline bool can_change_hands(const struct rte_mempool *pool, const struct rte_mbuf *m,
                                    uint32_t plain_bytes)
{
	return is_plain(m, plain_bytes) && m->pool == pool && rte_mbuf_refcnt_read(m) == 1 &&
	       (m->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)) == 0 &&
	       m->data_off >= RTE_PKTMBUF_HEADROOM;
}

static inline bool fits(const struct crossover_rx_nic *nic, const struct rte_mbuf *m, bool swap)
{
	return swap ? can_change_hands(nic->pool, m, nic->plain_bytes) : is_plain(m, nic->plain_bytes);
}

/* Descriptors to be filled in one go, for the frames at the head of a chunk that take one descriptor each. */
struct span {
	uint64_t head;  /* HEAD at the first of them */
	uint32_t count; /* 0: none is posted */
	bool odd;       /* the first frame needs copy_any(); no descriptor was reserved */
};

/*
 * Finds descriptors for the frames. With several senders it counts first how many it needs, because a reservation cannot be returned, and reserves
 * and counts them. A single sender finds out while it copies, and moves HEAD then.
 */
static __rte_always_inline struct span find_span(struct crossover_rx_ring *ring, struct rte_mbuf *const *pkts,
                                                 uint32_t count, bool swap, bool shared)
{
	struct crossover_rx_nic *nic = &ring->nic;
	struct span span = {0};
	uint32_t plain = 0;
	uint64_t bytes = 0;

	if (!shared) {
		span.count = crossover_ring_reach(ring, &span.head, count);
		return span;
	}
	while (plain < count && fits(nic, pkts[plain], swap))
		plain++;
	span.odd = plain == 0;
	if (span.odd)
		return span;
	do {
		span.count = crossover_ring_reach(ring, &span.head, plain);
	} while (span.count > 0 && !crossover_ring_reserve(nic, span.head, span.count, true));
	for (uint32_t i = 0; i < span.count; i++)
		bytes += pkts[i]->data_len;
	if (span.count > 0)
		crossover_ring_count(nic, span.count, bytes, true);
	return span;
}

/* Sets DD on the first 'count' descriptors of the span, which were filled, in order. */
static __rte_always_inline void complete(struct crossover_tx_queue *txq, struct crossover_rx_nic *nic,
                                         const struct span *span, const uint64_t *writebacks, uint32_t count,
                                         bool shared)
{
	struct crossover_rx_desc *desc = &nic->desc[crossover_head_position(span->head)];
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		store_writeback(&desc[i], writebacks[i]);
		bytes += (uint16_t)writebacks[i];
	}
	if (!shared) {
		crossover_ring_reserve(nic, span->head, count, false);
		crossover_ring_count(nic, count, bytes, false);
	}
	txq->counts.packets += count;
	txq->counts.bytes += bytes;
}

/* Frames to be copied, and the descriptors side by side that take them. */
struct copy {
	const struct crossover_rx_desc *desc;
	struct rte_mbuf *const *pkts;
	const uint64_t *tags;
	uint64_t *writebacks;
	uint32_t count, plain_bytes, buffer_offset;
};

static inline void prefetch_later(const struct crossover_rx_desc *desc, uint32_t i, uint32_t count,
                                  uint32_t buffer_offset)
{
	if (likely(i + PREFETCH_AHEAD < count))
		prefetch_to_write(buffer_data(buffer_offset, desc[i + PREFETCH_AHEAD].buffer));
}

static inline uint64_t whole_frame(uint32_t length, const uint64_t *tags, uint32_t i)
{
	return length | WIRE_DD | WIRE_EOP | tag_of(tags, i);
}

/*
 * Copies frames of HALF + 1 to 2 x HALF bytes, the shortest that exist, from frame i on as two halves that overlap. Returns the first frame that is
 * not of this kind. Longer ones would cost this loop its registers.
 */
#define HALF 32

static __rte_always_inline uint32_t copy_short(const struct copy *copy, uint32_t i, const uint64_t *tags)
{
	const struct crossover_rx_desc *desc = copy->desc;
	struct rte_mbuf *const *pkts = copy->pkts;
	uint64_t *writebacks = copy->writebacks;
	uint32_t count = copy->count, buffer_offset = copy->buffer_offset;
	uint32_t lengths = RTE_MIN(copy->plain_bytes, 2u * HALF) - HALF;

	if (unlikely(copy->plain_bytes <= HALF))
		return i;
	for (; i < count; i++) {
		const struct rte_mbuf *m = pkts[i];
		uint32_t length = m->data_len;
		uint8_t *to = buffer_data(buffer_offset, desc[i].buffer);
		const uint8_t *from = rte_pktmbuf_mtod(m, const uint8_t *);
		uint8_t first[HALF], last[HALF];

		if (unlikely(m->nb_segs != 1 || length - HALF - 1 >= lengths))
			break;
		prefetch_later(desc, i, count, buffer_offset);
		memcpy(first, from, HALF);
		memcpy(last, from + length - HALF, HALF);
		memcpy(to, first, HALF);
		memcpy(to + length - HALF, last, HALF);
		writebacks[i] = whole_frame(length, tags, i);
	}
	return i;
}

static __rte_noinline uint32_t copy_short_untagged(const struct copy *copy, uint32_t i)
{
	return copy_short(copy, i, NULL);
}

static __rte_noinline uint32_t copy_short_tagged(const struct copy *copy, uint32_t i)
{
	return copy_short(copy, i, copy->tags);
}

static __rte_noinline void copy_one(const struct copy *copy, uint32_t i)
{
	const struct rte_mbuf *m = copy->pkts[i];

	prefetch_later(copy->desc, i, copy->count, copy->buffer_offset);
	rte_memcpy(buffer_data(copy->buffer_offset, copy->desc[i].buffer), rte_pktmbuf_mtod(m, const void *),
	           m->data_len);
	copy->writebacks[i] = whole_frame(m->data_len, copy->tags, i);
}

/* Copies frames up to the first that is not plain. Returns how many it copied. */
static uint32_t copy_run(const struct copy *copy)
{
	uint32_t i = 0;

	for (uint32_t first = 0; first < copy->count && first < PREFETCH_AHEAD; first++)
		prefetch_to_write(buffer_data(copy->buffer_offset, copy->desc[first].buffer));
	for (;; i++) {
		i = copy->tags == NULL ? copy_short_untagged(copy, i) : copy_short_tagged(copy, i);
		if (i >= copy->count || !is_plain(copy->pkts[i], copy->plain_bytes))
			return i;
		copy_one(copy, i);
	}
}

/* Copies plain frames into the span. Frames with a reservation were checked before, and the MTU may have changed since. */
static __rte_always_inline uint32_t copy_plain(struct crossover_tx_queue *txq, struct crossover_rx_nic *nic,
                                               struct rte_mbuf *const *pkts, const uint64_t *tags,
                                               const struct span *span, bool shared)
{
	uint64_t writebacks[CROSSOVER_CHUNK];
	struct copy copy = {.desc = &nic->desc[crossover_head_position(span->head)],
	                    .pkts = pkts,
	                    .tags = tags,
	                    .writebacks = writebacks,
	                    .count = span->count,
	                    .plain_bytes = shared ? UINT32_MAX : nic->plain_bytes,
	                    .buffer_offset = nic->buffer_offset};
	uint32_t copied = copy_run(&copy);

	complete(txq, nic, span, writebacks, copied, shared);
	return copied;
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

/* With dma=swap the receiver takes data_off from the mbuf, so a copied frame needs it set. */
static void fill_buffer(struct crossover_tx_queue *txq, const struct crossover_rx_nic *nic, uint64_t handle,
                        struct gather *from, uint32_t bytes)
{
	if (txq->swap)
		handle_mbuf(handle)->data_off = RTE_PKTMBUF_HEADROOM;
	gather_copy(from, buffer_data(nic->buffer_offset, handle), bytes);
}

static void copy_scattered(struct crossover_tx_queue *txq, const struct crossover_rx_nic *nic,
                           const struct rte_mbuf *m, uint64_t tag, uint32_t position, uint32_t descriptors)
{
	struct gather from = {.segment = m};
	uint32_t left = m->pkt_len, last = (m->pkt_len - 1) % nic->buffer_bytes + 1;
	uint32_t at;

	for (uint32_t i = 0; i < descriptors; i++) {
		uint32_t bytes = RTE_MIN(left, nic->buffer_bytes);

		at = crossover_ring_advance(position, i, nic->size);
		fill_buffer(txq, nic, nic->desc[at].buffer, &from, bytes);
		left -= bytes;
	}
	/* From the last to the first: a receiver that sees DD on the first sees the whole frame. */
	for (uint32_t i = descriptors; i-- > 0;) {
		bool end = i == descriptors - 1;

		at = crossover_ring_advance(position, i, nic->size);
		store_writeback(&nic->desc[at],
		                (end ? last | WIRE_EOP : nic->buffer_bytes) | WIRE_DD | (i == 0 ? tag : 0));
	}
}

/* Reserves all 'descriptors' of a frame, also across the ring's end. Returns false if fewer are posted. */
static bool reserve_all(struct crossover_rx_ring *ring, uint32_t descriptors, bool shared, uint32_t *position)
{
	struct crossover_rx_nic *nic = &ring->nic;
	uint64_t head;

	do {
		head = __atomic_load_n(&nic->head, __ATOMIC_ACQUIRE);
		if (crossover_ring_posted(ring, head, descriptors) < descriptors)
			return false;
	} while (!crossover_ring_reserve(nic, head, descriptors, shared));
	*position = crossover_head_position(head);
	return true;
}

/* Copies any frame: gathers segments, scatters over buffers, or drops it where a NIC would. Returns 1 if it was missed. */
static __rte_noinline uint32_t copy_any(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                                        struct rte_mbuf *m, uint64_t tag, bool shared)
{
	struct crossover_rx_nic *nic = &ring->nic;
	uint32_t descriptors = (m->pkt_len + nic->buffer_bytes - 1) / nic->buffer_bytes, position;

	if (crossover_count_and_judge(txq, &m, 1) == 0)
		return 0;
	if (!reserve_all(ring, descriptors, shared, &position))
		return 1;
	crossover_ring_count(nic, 1, m->pkt_len, shared);
	copy_scattered(txq, nic, m, tag, position, descriptors);
	return 0;
}

static inline bool is_running(const struct crossover_rx_nic *nic)
{
	return __atomic_load_n(&nic->running, __ATOMIC_ACQUIRE) != 0;
}

/* Swaps up to the first frame that cannot change hands: the descriptors' buffers go to 'posted', those of the frames in their place. */
static __rte_noinline uint32_t swap_run(const struct rte_mempool *pool, struct crossover_rx_desc *desc,
                                        struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count,
                                        uint32_t plain_bytes, void **posted, uint64_t *writebacks)
{
	uint32_t i;

	for (i = 0; i < count && can_change_hands(pool, pkts[i], plain_bytes); i++) {
		posted[i] = handle_mbuf(desc[i].buffer);
		desc[i].buffer = (uintptr_t)pkts[i];
		writebacks[i] = pkts[i]->data_len | WIRE_DD | WIRE_EOP | tag_of(tags, i);
	}
	return i;
}

/* Swaps buffers; adds the posted ones to the leftovers. */
static __rte_always_inline uint32_t swap_plain(struct crossover_tx_queue *txq, struct crossover_rx_nic *nic,
                                               struct rte_mbuf *const *pkts, const uint64_t *tags,
                                               const struct span *span, struct crossover_leftovers *left,
                                               bool shared)
{
	struct crossover_rx_desc *desc = &nic->desc[crossover_head_position(span->head)];
	uint64_t writebacks[CROSSOVER_CHUNK];
	uint32_t swapped;

	if (unlikely(left->nb_buffers > 0 && left->pool != nic->pool))
		crossover_leftovers_give_back(left);
	left->pool = nic->pool;
	swapped = swap_run(nic->pool, desc, pkts, tags, span->count, shared ? UINT32_MAX : nic->plain_bytes,
	                   &left->buffers[left->nb_buffers], writebacks);
	complete(txq, nic, span, writebacks, swapped, shared);
	left->nb_buffers += swapped;
	txq->counts.swapped += swapped;
	return swapped;
}

static __rte_always_inline uint32_t deliver(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                                            struct rte_mbuf *const *pkts, const uint64_t *tags,
                                            uint32_t count, struct crossover_leftovers *left, const bool swap,
                                            const bool shared)
{
	struct crossover_rx_nic *nic = &ring->nic;
	uint32_t done = 0, missed = 0;

	while (done < count) {
		struct span span = {0};
		const uint64_t *rest = tags == NULL ? NULL : tags + done;
		uint32_t step = 0;

		if (likely(is_running(nic)))
			span = find_span(ring, pkts + done, count - done, swap, shared);
		if (unlikely(span.count == 0 && !span.odd)) {
			if (swap)
				crossover_leftovers_keep(left, pkts + done, count - done);
			return missed + crossover_count_and_judge(txq, pkts + done, count - done);
		}
		if (!span.odd)
			step = swap ? swap_plain(txq, nic, pkts + done, rest, &span, left, shared)
			            : copy_plain(txq, nic, pkts + done, rest, &span, shared);
		if (unlikely(shared ? span.odd : step < span.count)) {
			if (swap)
				crossover_leftovers_keep(left, &pkts[done + step], 1);
			missed += copy_any(txq, ring, pkts[done + step], tag_of(rest, step), shared);
			step++;
		}
		done += step;
	}
	return missed;
}

/* Each combination is a function of its own, so that the others do not cost it registers. */
#define DELIVER(name, swap, shared)                                                                          \
	static __rte_noinline uint32_t name(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,  \
	                                    struct rte_mbuf *const *pkts, const uint64_t *tags,              \
	                                    uint32_t count, struct crossover_leftovers *left)                \
	{                                                                                                    \
		return deliver(txq, ring, pkts, tags, count, left, swap, shared);                            \
	}

DELIVER(copy_alone, false, false)
DELIVER(copy_shared, false, true)
DELIVER(swap_alone, true, false)
DELIVER(swap_shared, true, true)

static inline uint32_t deliver_alone(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                                     struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count,
                                     struct crossover_leftovers *left)
{
	return txq->swap ? swap_alone(txq, ring, pkts, tags, count, left)
	                 : copy_alone(txq, ring, pkts, tags, count, left);
}

/* One of several senders of the port. */
static __rte_noinline uint32_t deliver_beside(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                                              struct rte_mbuf *const *pkts, const uint64_t *tags,
                                              uint32_t count, struct crossover_leftovers *left)
{
	const uint16_t sender = __atomic_load_n(&ring->nic.sender, __ATOMIC_ACQUIRE);

	if (sender == txq->sender)
		return deliver_alone(txq, ring, pkts, tags, count, left);
	if (unlikely(sender != CROSSOVER_SENDER_ANY && sender != (txq->sender | CROSSOVER_SENDER_RESERVES))) {
		if (txq->swap)
			crossover_leftovers_keep(left, pkts, count);
		return crossover_count_and_judge(txq, pkts, count);
	}
	return txq->swap ? swap_shared(txq, ring, pkts, tags, count, left)
	                 : copy_shared(txq, ring, pkts, tags, count, left);
}

uint32_t crossover_dma_deliver(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                               struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count,
                               struct crossover_leftovers *left)
{
	return unlikely(txq->shared) ? deliver_beside(txq, ring, pkts, tags, count, left)
	                             : deliver_alone(txq, ring, pkts, tags, count, left);
}
