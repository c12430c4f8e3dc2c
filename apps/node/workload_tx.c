/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends prepared packets as fast as it can and receives nothing. */
#include "poll_loop.h"
#include "workload.h"

static __rte_always_inline uint16_t process_prepared(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	RTE_SET_USED(p);
	RTE_SET_USED(packets);
	return n;
}

SOURCE_LOOPS(loops_tx, SOURCE_MADE, receive_made, process_prepared, false, send_made);

static const source_loops by_source[POLLER_SOURCES] = {[SOURCE_MADE] = SOURCE_TABLE(loops_tx)};

static int prepare(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	const struct sender_spec sender = {
	        .sizes = spec->frame,
	        .flows = spec->flows,
	        .routes = spec->routes,
	        .tx_port = spec->tx_port,
	        .lcore = poller->lcore,
	};

	poller->sender = sender_new(&sender, err);
	return poller->sender ? 0 : -1;
}

const struct workload workload_tx = {.name = "tx", .sends = true, .loops = by_source, .prepare = prepare};
