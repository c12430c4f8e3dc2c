/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet encapsulation (HyperPlane sections II-C and V-A): every IPv4 packet enters a tunnel. */
#include "prefetch.h"
#include "task.h"
#include "tunnel.h"
#include "workload.h"

static uint16_t process_encap(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	uint16_t kept = 0;

	queue_data_use(p->task->data, packets, n);
	prefetch_first(packets, n);
	for (uint16_t i = 0; i < n; i++) {
		prefetch_ahead(packets, i, n);
		if (likely(tunnel_enter(p->tunnel, packets[i])))
			packets[kept++] = packets[i];
		else
			rte_pktmbuf_free(packets[i]);
	}
	return kept;
}

static int prepare(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	static struct tunnel tunnel; /* shared by all lcores, which only read it */
	const bool over_ipv6 = spec->encapsulation == ENCAPSULATION_GRE_IPV6;
	struct rte_ether_hdr ethernet;

	if (workload_next_hop(spec->tx_port, over_ipv6 ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_IPV4, &ethernet,
	                      err) < 0)
		return -1;
	tunnel_init(&tunnel, over_ipv6, &ethernet);
	poller->tunnel = &tunnel;
	poller->task = task_new(spec, poller->lcore, err);
	return poller->task ? 0 : -1;
}

const struct workload workload_encap = {
        .receives = true,
        .sends = true,
        .process = process_encap,
        .resizes = true,
        .prepare = prepare,
};
