/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp-path: a path for kernel packets through cores that share a receive queue, or have one each (testbed namespaces).
 *
 *	net_af_packet0 -> pump -> net_crossover0_a => net_crossover0_b -> workers -> net_af_packet1
 *
 * The first worker lcore is the pump, the others are the workers. Without `--share` worker i polls RX queue i, and RSS
 * distributes the flows; with it all poll queue 0, whose ring must then allow several readers (rx=corec). A worker sends
 * through its own TX queue. An lcore that finds nothing yields its CPU, because kernel and lcores share few CPUs.
 *
 * Prints "ready" once packets are forwarded; ends at the end of standard input, and prints what was received, sent and dropped.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#define BURST     32
#define RING      512
#define POOL      16384
#define CACHE     256
#define CORES_MAX 16

struct forwarder {
	uint16_t from;
	uint16_t from_queue;
	uint16_t to;
	uint16_t to_queue;
	uint64_t received;
	uint64_t dropped;
} __rte_cache_aligned;

static struct forwarder forwarders[1 + CORES_MAX];
static atomic_bool is_over;

static int forward(void *arg)
{
	struct forwarder *f = arg;
	struct rte_mbuf *burst[BURST];

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		const uint16_t count = rte_eth_rx_burst(f->from, f->from_queue, burst, BURST);
		const uint16_t sent = count == 0 ? 0 : rte_eth_tx_burst(f->to, f->to_queue, burst, count);

		if (count == 0)
			sched_yield();
		if (sent < count)
			rte_pktmbuf_free_bulk(burst + sent, count - sent);
		f->received += count;
		f->dropped += count - sent;
	}
	return 0;
}

static bool set_up(const char *name, uint16_t rx_queues, uint16_t tx_queues, struct rte_mempool *pool,
                   uint16_t *port)
{
	struct rte_eth_conf conf = {0};
	int status;

	if (rte_eth_dev_get_port_by_name(name, port) != 0) {
		fprintf(stderr, "tcp-path: there is no port %s\n", name);
		return false;
	}
	if (rx_queues > 1 && strncmp(name, "net_crossover", 13) == 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
	}
	status = rte_eth_dev_configure(*port, rx_queues, tx_queues, &conf);
	for (uint16_t i = 0; i < rx_queues && status == 0; i++)
		status = rte_eth_rx_queue_setup(*port, i, RING, SOCKET_ID_ANY, NULL, pool);
	for (uint16_t i = 0; i < tx_queues && status == 0; i++)
		status = rte_eth_tx_queue_setup(*port, i, RING, SOCKET_ID_ANY, NULL);
	if (status == 0)
		status = rte_eth_dev_start(*port);
	if (status == 0)
		status = rte_eth_promiscuous_enable(*port); /* frames are addressed to the server */
	if (status != 0)
		fprintf(stderr, "tcp-path: %s with %u RX and %u TX queues: %s\n", name, rx_queues, tx_queues,
		        strerror(-status));
	return status == 0;
}

/* Forwarder 0 is the pump. */
static bool connect_ports(unsigned int workers, bool shares)
{
	struct rte_mempool *pool =
	        rte_pktmbuf_pool_create("tcp-path", POOL, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	uint16_t in, out, near, far;

	if (pool == NULL) {
		fprintf(stderr, "tcp-path: no memory for %d mbufs\n", POOL);
		return false;
	}
	if (!set_up("net_af_packet0", 1, 1, pool, &in) ||
	    !set_up("net_af_packet1", (uint16_t)workers, (uint16_t)workers, pool, &out) ||
	    !set_up("net_crossover0_b", shares ? 1 : (uint16_t)workers, 1, pool, &far) ||
	    !set_up("net_crossover0_a", 1, 1, pool, &near))
		return false;
	forwarders[0] = (struct forwarder){.from = in, .to = near};
	for (unsigned int i = 0; i < workers; i++)
		forwarders[1 + i] = (struct forwarder){
		        .from = far,
		        .from_queue = shares ? 0 : (uint16_t)i,
		        .to = out,
		        .to_queue = (uint16_t)i,
		};
	return true;
}

static void run(unsigned int workers)
{
	unsigned int lcore, i = 0;

	RTE_LCORE_FOREACH_WORKER (lcore)
		rte_eal_remote_launch(forward, &forwarders[i++], lcore);
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	atomic_store(&is_over, true);
	rte_eal_mp_wait_lcore();
	for (i = 0; i <= workers; i++)
		printf("%s received %" PRIu64 " dropped %" PRIu64 "\n", i == 0 ? "pump" : "worker",
		       forwarders[i].received, forwarders[i].dropped);
}

int main(int argc, char **argv)
{
	const int taken = rte_eal_init(argc, argv);
	const bool shares = taken >= 0 && argc - taken == 2 && strcmp(argv[taken + 1], "--share") == 0;
	const unsigned int lcores = taken < 0 ? 0 : rte_lcore_count();
	int status = 1;

	if (taken < 0 || (argc - taken > 1 && !shares) || lcores < 3 || lcores > 2 + CORES_MAX)
		fprintf(stderr, "usage: tcp-path EAL-OPTIONS -- [--share], with 3 to %d lcores\n",
		        2 + CORES_MAX);
	else if (connect_ports(lcores - 2, shares)) {
		run(lcores - 2);
		status = 0;
	}
	rte_eal_cleanup();
	return status;
}
