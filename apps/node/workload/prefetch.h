/* SPDX-License-Identifier: BSD-3-Clause */
/* Fetch the packets of a burst into the cache a few packets ahead of the work on them. */
#ifndef PREFETCH_H
#define PREFETCH_H

#include <rte_mbuf.h>
#include <rte_prefetch.h>

#define PREFETCH_AHEAD 4

/* Before the first packet of a burst. */
static __rte_always_inline void prefetch_first(struct rte_mbuf **packets, uint16_t n)
{
	for (int i = 0; i < RTE_MIN(n, PREFETCH_AHEAD); i++)
		rte_prefetch0(rte_pktmbuf_mtod(packets[i], void *));
}

/* Before packet i of it. */
static __rte_always_inline void prefetch_ahead(struct rte_mbuf **packets, uint16_t i, uint16_t n)
{
	if (i + PREFETCH_AHEAD < n)
		rte_prefetch0(rte_pktmbuf_mtod(packets[i + PREFETCH_AHEAD], void *));
}

#endif
