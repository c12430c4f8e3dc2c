/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mix of COREC's IPsec gateway (section 4: a third forwarded, a third dropped, a third encrypted and forwarded). The route
 * of a packet, and so its flow, decides: the next hop of route i is i modulo 3. Packets of a flow stay in order. The encrypted
 * packets of a burst leave together, after the others.
 */
#include "encryptor.h"
#include "ipv4.h"
#include "prefetch.h"
#include "routing.h"
#include "workload.h"

enum policy { POLICY_FORWARD, POLICY_DROP, POLICY_ENCRYPT };
_Static_assert(POLICY_ENCRYPT + 1 == ROUTING_HOPS, "each next hop is a policy");

static __rte_always_inline enum policy policy_of(const struct poller *p, const struct rte_mbuf *packet)
{
	uint32_t next_hop;

	return likely(routing_look_up(p->lpm, packet, &next_hop)) ? (enum policy)next_hop : POLICY_DROP;
}

static __rte_always_inline void forward(const struct poller *p, struct rte_mbuf *packet)
{
	struct rte_ether_hdr *ethernet = rte_pktmbuf_mtod(packet, struct rte_ether_hdr *);

	*ethernet = p->rewrite;
	ipv4_decrement_ttl((struct rte_ipv4_hdr *)(ethernet + 1));
}

static uint16_t process_ipsec(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	struct rte_mbuf *chosen[ACCOUNT_BURST_MAX];
	uint16_t kept = 0, to_encrypt = 0;

	prefetch_first(packets, n);
	for (uint16_t i = 0; i < n; i++) {
		prefetch_ahead(packets, i, n);
		switch (policy_of(p, packets[i])) {
		case POLICY_FORWARD:
			forward(p, packets[i]);
			packets[kept++] = packets[i];
			break;
		case POLICY_ENCRYPT:
			chosen[to_encrypt++] = packets[i];
			break;
		default:
			rte_pktmbuf_free(packets[i]);
		}
	}
	const uint16_t encrypted = encryptor_encrypt(p->encryptor, chosen, to_encrypt);

	memcpy(packets + kept, chosen, encrypted * sizeof(*packets));
	return kept + encrypted;
}

static int prepare(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	struct encryptor_spec encryptor = {
	        .transform = spec->transform,
	        .lcore = poller->lcore,
	        .number = (uint8_t)poller->tx_queue,
	};

	poller->lpm = routing_table(spec->routes, spec->socket, err);
	if (!poller->lpm || workload_next_hop(spec->tx_port, RTE_ETHER_TYPE_IPV4, &poller->rewrite, err))
		return -1;
	encryptor.ethernet = poller->rewrite;
	poller->encryptor = encryptor_new(&encryptor, err);
	return poller->encryptor ? 0 : -1;
}

const struct workload workload_ipsec = {
        .receives = true,
        .sends = true,
        .process = process_ipsec,
        .resizes = true,
        .prepare = prepare,
};
