/* SPDX-License-Identifier: BSD-3-Clause */
/* Frees every packet without reading a byte of it: as a verdict (drop), or as the receiver of a rate test (rx). */
#include "loop/poller.h"
#include "workload.h"

static uint16_t process_drop(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	RTE_SET_USED(p);
	rte_pktmbuf_free_bulk(packets, n);
	return 0;
}

const struct workload workload_drop = {.receives = true, .process = process_drop};
const struct workload workload_rx = {.receives = true, .process = process_drop};
