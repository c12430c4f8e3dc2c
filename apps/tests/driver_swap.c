/* SPDX-License-Identifier: BSD-3-Clause */
/* dma=swap: which buffers change hands, and that the others are copied. */
#include <string.h>

#include "driver_suite.h"

static unsigned int external_frees;

static void external_freed(void *buffer __rte_unused, void *opaque __rte_unused)
{
	external_frees++;
}

static uint64_t swapped(void)
{
	return xstat_of(port_a, "tx_swapped_packets");
}

/* Sends one frame of flow 9 and checks it; `same` tells whether the very mbuf must arrive. */
static void expect(struct rte_mbuf *sent, bool same, const char *what)
{
	struct rte_mbuf *m;

	CHECK(send_one(port_a, 0, sent), "%s: not sent", what);
	m = receive_one(port_b, 0);
	CHECK(frame_is(m, FRAME_BYTES, 9), "%s: frame is damaged", what);
	CHECK((m == sent) == same, "%s: %s", what, same ? "was copied" : "changed hands");
	CHECK(m->pool == pool && rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m),
	      "%s: not a buffer of the queue", what);
	CHECK(rte_pktmbuf_headroom(m) >= RTE_PKTMBUF_HEADROOM, "%s: headroom %u", what,
	      rte_pktmbuf_headroom(m));
	rte_pktmbuf_free(m);
}

/* Copied frames stay in the TX ring until they are cleaned up. */
static const struct port_setup holding = {.tx_desc = 256, .tx_free_thresh = 32};

static void plain_buffers_change_hands(void)
{
	pair_up(&holding, NULL);
	expect(frame_make(pool, FRAME_BYTES, 9), true, "plain");
	CHECK_EQUAL(swapped(), 1);
	CHECK(send_frames(port_a, 0, 500, FRAME_BYTES), "not sent");
	CHECK_EQUAL(swapped(), 501);
	CHECK_EQUAL(receive_all(port_b, 0), 500);
	/* Nothing waits in the TX ring: the buffers are with the receiver. */
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 0), 0);
}

static void foreign_and_shared_buffers_are_copied(void)
{
	struct rte_mbuf *shared, *clone, *original;

	pair_up(&holding, NULL);
	expect(frame_make(other_pool, FRAME_BYTES, 9), false, "other pool");
	shared = frame_make(pool, FRAME_BYTES, 9);
	rte_mbuf_refcnt_update(shared, 1);
	expect(shared, false, "reference count of 2");
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 0), 2);
	CHECK_EQUAL(rte_mbuf_refcnt_read(shared), 1);
	rte_pktmbuf_free(shared);
	original = frame_make(pool, FRAME_BYTES, 9);
	clone = rte_pktmbuf_clone(original, pool);
	expect(clone, false, "attached");
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 0), 1);
	rte_pktmbuf_free(original);
	CHECK_EQUAL(swapped(), 0);
}

static void external_buffers_are_copied(void)
{
	static uint8_t buffer[512];
	uint16_t size = sizeof(buffer);
	struct rte_mbuf_ext_shared_info *shared =
	        rte_pktmbuf_ext_shinfo_init_helper(buffer, &size, external_freed, NULL);
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool), *model = frame_make(pool, FRAME_BYTES, 9);

	external_frees = 0;
	rte_pktmbuf_attach_extbuf(m, buffer, 0, size, shared);
	rte_pktmbuf_reset_headroom(m);
	memcpy(rte_pktmbuf_append(m, FRAME_BYTES), rte_pktmbuf_mtod(model, void *), FRAME_BYTES);
	rte_pktmbuf_free(model);
	pair_up(&holding, NULL);
	expect(m, false, "external");
	CHECK_EQUAL(rte_eth_tx_done_cleanup(port_a, 0, 0), 1);
	CHECK_EQUAL(external_frees, 1);
}

static void headroom_is_kept(void)
{
	struct rte_mbuf *m = frame_make(pool, FRAME_BYTES, 9), *deep;

	rte_pktmbuf_prepend(m, 32);
	memmove(rte_pktmbuf_mtod(m, void *), rte_pktmbuf_mtod_offset(m, void *, 32), FRAME_BYTES);
	rte_pktmbuf_trim(m, 32);
	pair_up(NULL, NULL);
	expect(m, false, "little headroom");
	deep = frame_make(pool, FRAME_BYTES, 9);
	memmove(rte_pktmbuf_mtod_offset(deep, void *, 100), rte_pktmbuf_mtod(deep, void *), FRAME_BYTES);
	rte_pktmbuf_append(deep, 100);
	rte_pktmbuf_adj(deep, 100);
	expect(deep, true, "more headroom");
	CHECK_EQUAL(swapped(), 1);
}

/* Swapped and copied frames by turns, with missed ones: order and accounts must hold. */
static void mixture_is_in_order(void)
{
	unsigned int got = 0;

	pair_up(NULL, NULL);
	for (uint32_t round = 0; round < 100; round++) {
		struct rte_mbuf *burst[BURST], *m;

		for (uint32_t i = 0; i < BURST; i++)
			burst[i] = frame_make((round + i) % 3 == 0 ? other_pool : pool, FRAME_BYTES, i);
		CHECK_EQUAL(rte_eth_tx_burst(port_a, 0, burst, BURST), BURST);
		for (uint32_t i = 0; i < BURST && (m = receive_one(port_b, 0)) != NULL; i++, got++) {
			bool right = frame_is(m, FRAME_BYTES, i) && m->pool == pool;

			rte_pktmbuf_free(m);
			CHECK(right, "round %u, frame %u", round, i);
		}
	}
	CHECK_EQUAL(got, 100 * BURST);
	CHECK_EQUAL(stats_of(port_a).opackets, got);
}

static void copying_never_swaps(void)
{
	pair_up(NULL, NULL);
	expect(frame_make(pool, FRAME_BYTES, 9), false, "dma=copy");
	CHECK_EQUAL(swapped(), 0);
}

const struct driver_case driver_swap_cases[] = {
        CASE(plain_buffers_change_hands, "dma=swap"),
        CASE(foreign_and_shared_buffers_are_copied, "dma=swap"),
        CASE(external_buffers_are_copied, "dma=swap"),
        CASE(headroom_is_kept, "dma=swap"),
        CASE(mixture_is_in_order, "dma=swap"),
        CASE(copying_never_swaps, "dma=copy"),
        {0},
};
