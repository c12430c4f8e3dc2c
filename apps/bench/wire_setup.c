/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include <rte_bus_vdev.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "net_crossover.h"
#include "wire_bench.h"

#define PAIR_NAME    "net_crossover0"
#define FILL_FRAMES  128u /* per queue; two bursts in flight, and still far below the ring's size */
#define FLOWS_TRIED  100000u
#define FIRST_PORT   1024
#define DISCARD_PORT 9

uint16_t bench_ports[2];
struct rte_mempool *bench_pools[BENCH_QUEUES];

static bool set_up_port(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, bool hashes)
{
	struct rte_eth_conf conf = {.txmode = {.offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE}};
	int ret;

	if (rx_queues > 1 || hashes) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
	}
	if (hashes)
		conf.rxmode.offloads = RTE_ETH_RX_OFFLOAD_RSS_HASH;
	ret = rte_eth_dev_configure(port, rx_queues, tx_queues, &conf);
	for (uint16_t i = 0; i < rx_queues && ret == 0; i++)
		ret = rte_eth_rx_queue_setup(port, i, BENCH_RING, SOCKET_ID_ANY, NULL, bench_pools[i]);
	for (uint16_t i = 0; i < tx_queues && ret == 0; i++)
		ret = rte_eth_tx_queue_setup(port, i, BENCH_RING, SOCKET_ID_ANY, NULL);
	if (ret == 0)
		ret = rte_eth_dev_start(port);
	return ret == 0 && rte_eth_promiscuous_enable(port) == 0;
}

bool bench_make_pair(const char *devargs, uint16_t rx_queues, uint16_t tx_queues, bool hashes,
                     unsigned int buffers, uint16_t buffer_pool)
{
	bool made = rte_vdev_init(PAIR_NAME, devargs) == 0 &&
	            rte_eth_dev_get_port_by_name(PAIR_NAME "_a", &bench_ports[0]) == 0 &&
	            rte_eth_dev_get_port_by_name(PAIR_NAME "_b", &bench_ports[1]) == 0;

	for (unsigned int i = 0; i < 2 && made; i++)
		made = (buffers == NET_CROSSOVER_POSTED ||
		        net_crossover_rx_buffers(bench_ports[i], buffers, buffer_pool) == 0) &&
		       set_up_port(bench_ports[i], rx_queues, tx_queues, hashes);

	if (!made)
		fprintf(stderr, "wire-bench: no pair with '%s', %u RX and %u TX queues\n", devargs, rx_queues,
		        tx_queues);
	return made;
}

void bench_remove_pair(void)
{
	for (unsigned int i = 0; i < 2; i++)
		rte_eth_dev_stop(bench_ports[i]);
	rte_vdev_uninit(PAIR_NAME);
}

/* Make a UDP frame of `flow`; NULL: no mbuf. */
static struct rte_mbuf *make_frame(struct rte_mempool *pool, uint32_t flow)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct rte_ether_hdr *ether;
	struct rte_ipv4_hdr *ip;
	struct rte_udp_hdr *udp;

	if (m == NULL)
		return NULL;
	ether = (struct rte_ether_hdr *)rte_pktmbuf_append(m, BENCH_FRAME_BYTES);
	memset(ether, 0, BENCH_FRAME_BYTES);
	ip = (struct rte_ipv4_hdr *)(ether + 1);
	udp = (struct rte_udp_hdr *)(ip + 1);
	ether->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->total_length = rte_cpu_to_be_16(BENCH_FRAME_BYTES - sizeof(*ether));
	ip->next_proto_id = IPPROTO_UDP;
	ip->src_addr = rte_cpu_to_be_32(RTE_IPV4(198u, 18, 0, 0) | (flow & 0xffff));
	ip->dst_addr = rte_cpu_to_be_32(RTE_IPV4(198u, 19, 0, 1));
	udp->src_port = rte_cpu_to_be_16((uint16_t)(FIRST_PORT + (flow >> 16)));
	udp->dst_port = rte_cpu_to_be_16(DISCARD_PORT);
	return m;
}

/* Send a frame from `side` and return the queue on which it arrives. The rings are empty before and after. */
static unsigned int queue_of_frame(struct rte_mbuf *m, unsigned int side)
{
	if (m == NULL || rte_eth_tx_burst(bench_ports[side], 0, &m, 1) != 1)
		return BENCH_QUEUES;
	for (unsigned int queue = 0; queue < BENCH_QUEUES; queue++)
		if (rte_eth_rx_burst(bench_ports[!side], (uint16_t)queue, &m, 1) == 1) {
			rte_pktmbuf_free(m);
			return queue;
		}
	return BENCH_QUEUES;
}

unsigned int bench_queue_of(const void *frame)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(bench_pools[0]);

	if (m != NULL)
		memcpy(rte_pktmbuf_append(m, BENCH_FRAME_BYTES), frame, BENCH_FRAME_BYTES);
	return queue_of_frame(m, 0);
}

static bool fill_queue(unsigned int side, unsigned int worker, const uint32_t *flows)
{
	for (unsigned int i = 0; i < FILL_FRAMES; i++) {
		struct rte_mbuf *m = make_frame(bench_pools[worker], flows[i]);

		if (m == NULL || rte_eth_tx_burst(bench_ports[side], (uint16_t)worker, &m, 1) != 1)
			return false;
	}
	return true;
}

bool bench_fill_rings(unsigned int workers, bool at_home)
{
	uint32_t flows[BENCH_QUEUES][FILL_FRAMES];
	unsigned int found[BENCH_QUEUES] = {0}, full = 0;

	for (uint32_t flow = 0; flow < FLOWS_TRIED && full < BENCH_QUEUES; flow++) {
		unsigned int queue = queue_of_frame(make_frame(bench_pools[0], flow), 0);
		unsigned int worker = at_home ? queue : flow % BENCH_QUEUES;

		if (queue >= BENCH_QUEUES || found[worker] == FILL_FRAMES ||
		    queue_of_frame(make_frame(bench_pools[0], flow), 1) != queue)
			continue;
		flows[worker][found[worker]++] = flow;
		full += found[worker] == FILL_FRAMES;
	}
	for (unsigned int worker = 0; worker < BENCH_QUEUES && full == BENCH_QUEUES; worker++)
		for (unsigned int side = 0; side < 2 && (workers & 1u << worker); side++)
			if (!fill_queue(side, worker, flows[worker]))
				return false;
	return full == BENCH_QUEUES;
}

static struct rte_mbuf *make_routed_frame(uint32_t route)
{
	struct rte_mbuf *m = make_frame(bench_pools[0], route);

	if (m != NULL)
		rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, sizeof(struct rte_ether_hdr))->dst_addr =
		        rte_cpu_to_be_32(bench_route(route % BENCH_ROUTES) | 1);
	return m;
}

bool bench_fill_flows(enum bench_flows flows, unsigned int frames)
{
	uint32_t routes[BENCH_RING], found = 0; /* keys and RETAs are the same on both sides */

	for (uint32_t route = 0; route < FLOWS_TRIED && found < frames && found < BENCH_RING; route++)
		if (flows == BENCH_EVEN || queue_of_frame(make_routed_frame(route), 0) == 0)
			routes[found++] = route;
	if (found < frames)
		return false;
	for (unsigned int side = 0; side < 2; side++)
		for (unsigned int i = 0; i < frames; i++) {
			struct rte_mbuf *m = make_routed_frame(routes[flows == BENCH_ONE ? 0 : i]);

			if (m == NULL || rte_eth_tx_burst(bench_ports[side], 0, &m, 1) != 1)
				return false;
		}
	return true;
}
