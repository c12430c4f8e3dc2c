/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tests-pollers EAL-OPTIONS`: threads that EAL does not know poll port 0, as in programs with threads of their own.
 *
 * `poller-0` and `poller-1` share queue 0 behind a lock, `poller-2` has queue 1. They free what they receive. Prints "ready"; ends when
 * standard input closes.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_spinlock.h>

#define POLLERS 3
#define QUEUES  2
#define BURST   32

static rte_spinlock_t lock = RTE_SPINLOCK_INITIALIZER;
static bool is_over;

static void fail(const char *what)
{
	fprintf(stderr, "tests-pollers: %s failed\n", what);
	exit(1);
}

static void start_port(void)
{
	const struct rte_eth_conf conf = {0};
	struct rte_mempool *pool =
	        rte_pktmbuf_pool_create("pollers", 4095, 64, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);

	if (pool == NULL || rte_eth_dev_configure(0, QUEUES, QUEUES, &conf) < 0)
		fail("configuring port 0");
	for (uint16_t queue = 0; queue < QUEUES; queue++)
		if (rte_eth_rx_queue_setup(0, queue, 512, SOCKET_ID_ANY, NULL, pool) < 0 ||
		    rte_eth_tx_queue_setup(0, queue, 512, SOCKET_ID_ANY, NULL) < 0)
			fail("setting up a queue");
	if (rte_eth_dev_start(0) < 0)
		fail("starting port 0");
}

static void *poll_queue(void *argument)
{
	const uint16_t queue = *(const uint16_t *)argument;
	struct rte_mbuf *packets[BURST];

	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		uint16_t count;

		rte_spinlock_lock(&lock);
		count = rte_eth_rx_burst(0, queue, packets, BURST);
		rte_spinlock_unlock(&lock);
		rte_pktmbuf_free_bulk(packets, count);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const uint16_t queues[POLLERS] = {0, 0, 1};
	pthread_t threads[POLLERS];

	if (rte_eal_init(argc, argv) < 0)
		fail("rte_eal_init");
	start_port();
	for (int i = 0; i < POLLERS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "poller-%d", i);
		if (pthread_create(&threads[i], NULL, poll_queue, (void *)(uintptr_t)&queues[i]) != 0)
			fail("pthread_create");
		pthread_setname_np(threads[i], name);
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
	for (int i = 0; i < POLLERS; i++)
		pthread_join(threads[i], NULL);
	rte_eth_dev_stop(0);
	return rte_eal_cleanup() < 0;
}
