/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that run a workload of pollscope-node on what they receive, and play the NIC. */
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_lcore.h>
#include <rte_spinlock.h>
#include <rte_udp.h>

#include "host_check.h"
#include "cycles.h"
#include "packets.h"
#include "routes.h"
#include "wire_bench.h"
#include "workload/encryptor.h"
#include "workload/sender.h"
#include "workload/workload.h"

#define FRAME_BYTES 64                  /* FCS included */
#define DRY_POLLS   256                 /* empty polls in a row after which a worker sends as well */
#define LINE_LIMIT  (UINT64_C(1) << 23) /* cycles, about 3 ms: a worker without an answer leaves */
#define LINE_TRIPS  (HOST_CHECK_LINE_BATCHES * HOST_CHECK_LINE_TRIPS)

/* The data of the two workers lie two lines apart, because prefetchers fetch lines in pairs. */
#define APART_BYTES 128

static struct host_check_line line;

/* Read-only while workers run. */
static struct {
	alignas(APART_BYTES) const struct workload *workload;
	uint64_t longer_cycles;
} what;

static struct {
	alignas(APART_BYTES) rte_spinlock_t lock;
} queue;

static struct worker {
	alignas(APART_BYTES) struct poller *poller;
	struct sender *sender;
	uint32_t empty; /* polls in a row */
} workers[BENCH_QUEUES];

/* The RX queues for a sender's frames. */
struct aim {
	enum bench_feed feed;
	unsigned int sender;
};

/*
 * Give a buffer of a sender's pool, which hands them out in this order forever, the first source port that steers it to its
 * queue.
 */
static void aim_frame(struct rte_mempool *pool, void *argument, void *object, unsigned int index)
{
	const struct aim *aim = argument;
	const unsigned int turn = aim->feed == BENCH_FEED_TURNS ? index / BENCH_BURST : 0;
	const unsigned int wanted = (aim->sender + turn) % BENCH_QUEUES;
	const struct rte_mbuf *packet = object;
	uint8_t *frame = (uint8_t *)packet->buf_addr + RTE_PKTMBUF_HEADROOM;
	struct rte_udp_hdr *udp =
	        (struct rte_udp_hdr *)(frame + RTE_ETHER_HDR_LEN + sizeof(struct rte_ipv4_hdr));

	(void)pool;
	for (uint16_t tries = 0; tries < UINT16_MAX && bench_queue_of(frame) != wanted; tries++)
		udp->src_port++;
}

static bool init_worker(unsigned int number, unsigned int lcore, enum bench_feed feed, struct node_error *err)
{
	const struct frame_sizes frame = {.sizes = {{FRAME_BYTES, 1}}, .count = 1};
	const struct workload_spec spec = {
	        .routes = ROUTES_DEFAULT, .lookups = 1, .tx_port = bench_ports[1], .socket = SOCKET_ID_ANY};
	const struct sender_spec sender = {.sizes = frame,
	                                   .flows = BENCH_FLOWS,
	                                   .routes = ROUTES_DEFAULT,
	                                   .tx_port = bench_ports[0],
	                                   .lcore = lcore,
	                                   .shared_by = 1};
	struct worker *worker = &workers[number];
	struct aim aim = {.feed = feed, .sender = number};

	worker->poller = poller_new(lcore);
	worker->sender = sender_new(&sender, err);
	if (worker->poller == NULL || worker->sender == NULL)
		return false;
	if (feed != BENCH_FEED_ONE)
		rte_mempool_obj_iter(worker->sender->pools[0], aim_frame, &aim);
	worker->poller->tx_queue = (uint16_t)number; /* its SA has this number */
	return what.workload->prepare(&spec, worker->poller, err) == 0;
}

bool bench_work_init(const char *name, enum bench_feed feed, uint64_t longer_cycles)
{
	struct node_error err = {0};
	unsigned int number = 0, lcore;

	for (unsigned int i = 0; workloads[i] != NULL; i++)
		if (strcmp(workload_names[i], name) == 0)
			what.workload = workloads[i];
	what.longer_cycles = longer_cycles;
	RTE_LCORE_FOREACH (lcore) /* the main lcore is the first: wire_bench.h */
		if (!init_worker(number++, lcore, feed, &err)) {
			fprintf(stderr, "wire-bench: %s: %s: %s\n", name, err.where, err.text);
			return false;
		}
	rte_spinlock_init(&queue.lock);
	return true;
}

void bench_work_exit(void)
{
	for (struct worker *worker = workers; worker < workers + BENCH_QUEUES; worker++) {
		sender_free(worker->sender);
		if (worker->poller != NULL)
			encryptor_free(worker->poller->encryptor);
		poller_free(worker->poller);
		*worker = (struct worker){0};
	}
}

/* Send next time what the TX queue refuses; frames without an RX descriptor are dropped, as by a NIC. */
static __rte_always_inline void feed(unsigned int worker)
{
	struct sender *sender = workers[worker].sender;
	struct rte_mbuf *burst[BENCH_BURST];
	const uint16_t made = sender_make(sender, burst, BENCH_BURST);
	const uint16_t sent = rte_eth_tx_burst(bench_ports[0], (uint16_t)worker, burst, made);

	sender_keep(sender, burst + sent, made - sent);
}

static __rte_always_inline uint32_t work(unsigned int worker, struct rte_mbuf **burst, uint16_t n)
{
	struct worker *self = &workers[worker];
	uint16_t kept, sent;

	if (n == 0) {
		if (++self->empty % DRY_POLLS == 0)
			feed(worker);
		return 0;
	}
	self->empty = 0;
	kept = what.workload->process(self->poller, burst, n);
	sent = rte_eth_tx_burst(bench_ports[1], (uint16_t)worker, burst, kept);
	rte_pktmbuf_free_bulk(burst + sent, kept - sent);
	feed(worker);
	return n;
}

/* Receive as the driver does, and wait for the requested cycles. */
static __rte_always_inline uint16_t receive(uint16_t rx_queue, struct rte_mbuf **burst)
{
	const uint16_t n = rte_eth_rx_burst(bench_ports[1], rx_queue, burst, BENCH_BURST);

	if (unlikely(what.longer_cycles > 0) && n > 0) {
		const uint64_t begin = cycles_stamp();

		while (cycles_stamp() - begin < what.longer_cycles)
			;
	}
	return n;
}

uint32_t bench_work_each_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];

	return work(worker, burst, receive((uint16_t)worker, burst));
}

uint32_t bench_work_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];

	return work(worker, burst, receive(0, burst));
}

uint32_t bench_work_locked_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint16_t n;

	rte_spinlock_lock(&queue.lock);
	n = receive(0, burst);
	rte_spinlock_unlock(&queue.lock);
	return work(worker, burst, n);
}

uint32_t bench_work_trylock_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint16_t n = 0;

	if (rte_spinlock_trylock(&queue.lock)) {
		n = receive(0, burst);
		rte_spinlock_unlock(&queue.lock);
	}
	return work(worker, burst, n);
}

/* Timed until the writes under the lock are visible: the other worker cannot have it earlier. */
uint32_t bench_work_held_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint64_t begin, held;
	uint16_t n;

	rte_spinlock_lock(&queue.lock);
	begin = cycles_stamp();
	n = receive(0, burst);
	held = cycles_serialised() - begin;
	rte_spinlock_unlock(&queue.lock);
	work(worker, burst, n);
	return (uint32_t)held;
}

uint32_t bench_work_waited_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	const uint64_t begin = cycles_serialised();
	uint64_t waited;
	uint16_t n;

	rte_spinlock_lock(&queue.lock);
	waited = cycles_serialised() - begin;
	n = receive(0, burst);
	rte_spinlock_unlock(&queue.lock);
	work(worker, burst, n);
	return (uint32_t)waited;
}

/* The follower may return before the leader begins again; then it waits for the first round. */
uint32_t bench_line_step(unsigned int worker)
{
	if (worker == 0) {
		host_check_line_reset(&line, cycles_stamp() + LINE_LIMIT);
		host_check_line_lead(&line);
	} else {
		host_check_line_follow(&line);
	}
	return worker > 0 || line.complete ? LINE_TRIPS : 0;
}
