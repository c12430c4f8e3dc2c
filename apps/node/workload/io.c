/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends every packet unchanged. */
#include "loop/loop.h"
#include "workload.h"

static uint16_t process_io(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	return process_nothing(p, packets, n);
}

const struct workload workload_io = {.receives = true, .sends = true, .process = process_io};
