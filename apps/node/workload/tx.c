/* SPDX-License-Identifier: BSD-3-Clause */
/* Send prepared packets as fast as possible and receive nothing. */
#include "loop/loop.h"
#include "sender.h"
#include "workload.h"

/* Make packets until the window is over. */
static __rte_always_inline uint16_t receive_made(struct poller *p, uint16_t queue, struct rte_mbuf **packets)
{
	RTE_SET_USED(queue);
	if (unlikely(p->stage == STAGE_DRAIN))
		return 0;
	const uint16_t n = sender_make(p->sender, packets, p->burst);

	p->account->no_mbuf += n == 0;
	return n;
}

/* Offer refused packets again: here the sender is too fast, not the peer too slow. */
static __rte_always_inline void send_made(struct poller *p, struct rte_mbuf **packets, uint16_t n,
                                          uint64_t bytes)
{
	struct account *a = p->account;
	const uint16_t sent = rte_eth_tx_burst(p->tx_port, p->tx_queue, packets, n);

	if (unlikely(sent != n)) {
		bytes -= packets_bytes(packets + sent, n - sent);
		sender_keep(p->sender, packets + sent, n - sent);
	}
	a->tx_packets += sent;
	a->tx_bytes += bytes;
}

ALL_LOOPS(loops_tx, SOURCE_MADE, receive_made, process_nothing, false, send_made)

static const loop_table loops = {ALL_OF(loops_tx, SOURCE_MADE)};

static int prepare(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	const struct sender_spec sender = {
	        .sizes = spec->frame,
	        .flows = spec->flows,
	        .routes = spec->routes,
	        .tx_port = spec->tx_port,
	        .lcore = poller->lcore,
	        .shared_by = spec->shared_by,
	        .owner = spec->pools_of,
	};

	poller->sender = sender_new(&sender, err);
	return poller->sender ? 0 : -1;
}

const struct workload workload_tx = {.sends = true, .loops = &loops, .prepare = prepare};
