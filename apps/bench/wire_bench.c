/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include "cycles.h"
#include "eal_folder.h"
#include "net_crossover.h"
#include "wire_bench.h"

#define POOL_MBUFS 4095
#define POOL_CACHE 256
#define MARGIN_MS                                                                                            \
	40 /* before the window, for the caches, and after it, so that other processes' windows end before */
#define STEPS_BLOCK 64 /* between looks at the clock */

/* No core polls: the ring is full, and frames are dropped where the sender finds no descriptor. */
static uint32_t drop_step(unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];

	if (rte_pktmbuf_alloc_bulk(bench_pools[worker], burst, BENCH_BURST) != 0)
		return 0;
	for (unsigned int i = 0; i < BENCH_BURST; i++)
		burst[i]->data_len = (uint16_t)(burst[i]->pkt_len = BENCH_FRAME_BYTES);
	return rte_eth_tx_burst(bench_ports[0], (uint16_t)worker, burst, BENCH_BURST);
}

static uint32_t forward(unsigned int from, unsigned int worker)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint16_t count = rte_eth_rx_burst(bench_ports[from], (uint16_t)worker, burst, BENCH_BURST);

	return count == 0 ? 0 : rte_eth_tx_burst(bench_ports[!from], (uint16_t)worker, burst, count);
}

/* Forward in both directions, like `testpmd --forward-mode=io` over a joined pair. */
static uint32_t forward_step(unsigned int worker)
{
	return forward(0, worker) + forward(1, worker);
}

/* Make frames of all mbufs of a pool. Their sender never writes them again: FAST_FREE returns them unchanged. */
static void make_frame(struct rte_mempool *pool, void *argument, void *object, unsigned int index)
{
	struct rte_mbuf *m = object;

	(void)pool, (void)argument, (void)index;
	m->data_len = (uint16_t)(m->pkt_len = BENCH_FRAME_BYTES);
}

/* Send like a generator whose frames are prepared: no other sender uses the pool. */
static uint32_t send_step(void)
{
	struct rte_mbuf *burst[BENCH_BURST];

	if (rte_mempool_get_bulk(bench_pools[1], (void **)burst, BENCH_BURST) != 0)
		return 0;
	return rte_eth_tx_burst(bench_ports[0], 0, burst, BENCH_BURST);
}

static uint32_t receive_step(void)
{
	struct rte_mbuf *burst[BENCH_BURST];
	uint16_t count = rte_eth_rx_burst(bench_ports[1], 0, burst, BENCH_BURST);
	uint64_t sum = 0;

	for (uint16_t i = 0; i < count; i++)
		sum += *rte_pktmbuf_mtod(burst[i], const uint64_t *);
	__asm__ volatile("" ::"r"(sum)); /* keeps the loads */
	if (count > 0)
		rte_mempool_put_bulk(bench_pools[0], (void *const *)burst, count);
	return count;
}

/* Worker 0 sends, worker 1 receives and reads each frame; both on their queue 0. */
static uint32_t cross_step(unsigned int worker)
{
	return worker == 0 ? send_step() : receive_step();
}

/* Frames of all queues share one pool. */
#define HASHED(loop, arguments, queues, what, kind, where, buffers_of)                                       \
	{.name = loop,                                                                                       \
	 .devargs = arguments,                                                                               \
	 .step = what,                                                                                       \
	 .rx_queues = queues,                                                                                \
	 .tx_queues = BENCH_QUEUES,                                                                          \
	 .one_pool = true,                                                                                   \
	 .hashed = true,                                                                                     \
	 .flows = kind,                                                                                      \
	 .buffers = where,                                                                                   \
	 .buffer_pool = buffers_of}
/* One queue per worker, by the flows that circulate. */
#define EACH(way, what, ...)                                                                                 \
	HASHED(way "-even", "dma=copy", BENCH_QUEUES, what, BENCH_EVEN, __VA_ARGS__),                        \
	        HASHED(way "-skewed", "dma=copy", BENCH_QUEUES, what, BENCH_SKEWED, __VA_ARGS__),            \
	        HASHED(way "-one", "dma=copy", BENCH_QUEUES, what, BENCH_ONE, __VA_ARGS__)
/* One queue for all workers, with hashed frames. */
#define TOGETHER(way, arguments, what)                                                                       \
	HASHED(way "-hashed", arguments, 1, what, BENCH_EVEN, NET_CROSSOVER_POSTED, 0)

/* A workload of the node. */
#define WORKED(loop, arguments, queues, what, node_name, ...)                                                \
	{.name = loop,                                                                                       \
	 .devargs = arguments,                                                                               \
	 .step = what,                                                                                       \
	 .rx_queues = queues,                                                                                \
	 .tx_queues = BENCH_QUEUES,                                                                          \
	 .one_pool = true,                                                                                   \
	 .workload = node_name,                                                                              \
	 __VA_ARGS__}
/*
 * A workload by each way to share an RX queue; then with one RX queue per worker, and, to compare with, one queue for all with
 * hashed frames.
 */
#define WORKLOAD(loop, name)                                                                                 \
	WORKED("standard-" loop, "dma=copy", 1, bench_work_step, name),                                      \
	        WORKED("corec-" loop, "dma=copy,rx=corec", 1, bench_work_step, name),                        \
	        WORKED("locked-" loop, "dma=copy", 1, bench_work_locked_step, name),                         \
	        WORKED("trylock-" loop, "dma=copy", 1, bench_work_trylock_step, name),                       \
	        WORKED("held-" loop, "dma=copy", 1, bench_work_held_step, name, .cycles = true),             \
	        WORKED("waited-" loop, "dma=copy", 1, bench_work_waited_step, name, .cycles = true),         \
	        WORKED("rss-" loop, "dma=copy", BENCH_QUEUES, bench_work_each_step, name, .hashed = true,    \
	               .feed = BENCH_FEED_HOME),                                                             \
	        WORKED("spread-" loop, "dma=copy", BENCH_QUEUES, bench_work_each_step, name, .hashed = true, \
	               .feed = BENCH_FEED_TURNS),                                                            \
	        WORKED("hashed-" loop, "dma=copy,rx=corec", 1, bench_work_step, name, .hashed = true)

static const struct loop {
	const char *name, *devargs; /* no devargs: no pair */
	bench_step step;
	uint16_t rx_queues, tx_queues;
	bool fill, at_home, one_pool;
	const char *workload; /* of the node; NULL: none */
	enum bench_feed feed; /* of a workload */
	bool cycles;          /* the step counts cycles instead of frames */
	bool hashed;          /* frames are hashed on the way; without a workload the next fields apply */
	enum bench_flows flows;
	unsigned int buffers;
	uint16_t buffer_pool;
} loops[] = {
        {"drop", "dma=copy", drop_step, 1, 2, .fill = false},
        {"infinite", "feed=infinite", forward_step, 2, 2, .fill = false},
        {"one-pool", "feed=infinite", forward_step, 2, 2, .one_pool = true},
        {"home", "dma=copy", forward_step, 2, 2, .fill = true, .at_home = true},
        {"mixed", "dma=copy", forward_step, 2, 2, .fill = true},
        {"cross", "dma=copy", cross_step, 1, 1, .fill = false},
        WORKLOAD("l3fwd", "l3fwd-lpm"),
        WORKLOAD("ipsec", "ipsec"),
        EACH("rss", bench_each_step, NET_CROSSOVER_POSTED, 0),
        EACH("rebalanced", bench_rebalanced_step, NET_CROSSOVER_POSTED, 0),
        EACH("shared", bench_each_step, NET_CROSSOVER_SHARED, BENCH_RING),
        EACH("split", bench_each_step, NET_CROSSOVER_SPLIT, BENCH_RING / 4),
        TOGETHER("corec", "dma=copy,rx=corec", bench_share_step),
        TOGETHER("locked", "dma=copy", bench_share_locked_step),
        TOGETHER("trylock", "dma=copy", bench_share_trylock_step),
        {.name = "bare", .step = bench_bare_step},
        {.name = "bare-whole", .step = bench_bare_whole_step},
        {.name = "line", .step = bench_line_step},
};

static struct run {
	bench_step step;
	uint64_t begin, end, last; /* TSC: the window, and the end of the loop */
	atomic_uint ready;
	unsigned int count;
} run;

static struct result {
	uint64_t frames, cpu_ns;
} __rte_cache_aligned results[BENCH_QUEUES];

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t work_until(unsigned int worker, uint64_t end)
{
	bench_step step = run.step;
	uint64_t frames = 0;

	while (rte_rdtsc() < end)
		for (unsigned int i = 0; i < STEPS_BLOCK; i++)
			frames += step(worker);
	return frames;
}

static int work(void *argument)
{
	unsigned int worker = (unsigned int)(uintptr_t)argument;
	struct result *result = &results[worker];
	uint64_t begin_ns;

	atomic_fetch_add(&run.ready, 1);
	while (atomic_load(&run.ready) < run.count)
		rte_pause();
	work_until(worker, run.begin);
	begin_ns = cpu_ns();
	result->frames = work_until(worker, run.end);
	result->cpu_ns = cpu_ns() - begin_ns;
	work_until(worker, run.last);
	return 0;
}

/* Worker 0 is the main lcore, worker 1 the other; `workers` has one bit per worker. */
static void run_workers(bench_step step, uint64_t window_ms, unsigned int workers)
{
	uint64_t ms = rte_get_tsc_hz() / 1000, now = rte_rdtsc();
	unsigned int lcore = rte_get_next_lcore(-1, 1, 0);

	run = (struct run){.step = step,
	                   .begin = now + MARGIN_MS * ms,
	                   .end = now + (MARGIN_MS + window_ms) * ms,
	                   .last = now + (2 * MARGIN_MS + window_ms) * ms,
	                   .count = (unsigned int)__builtin_popcount(workers)};
	if (workers & 2)
		rte_eal_remote_launch(work, (void *)1, lcore);
	if (workers & 1)
		work((void *)0);
	rte_eal_mp_wait_lcore();
}

/* Fill half of a ring, so that it never overflows and bursts are full. */
static bool fill_rings(const struct loop *loop, unsigned int workers, uint64_t longer_cycles)
{
	if (loop->workload != NULL)
		return bench_work_init(loop->workload, loop->feed, longer_cycles);
	if (loop->hashed) {
		bench_each_init();
		return bench_share_init() && bench_fill_flows(loop->flows, BENCH_RING / 2);
	}
	return !loop->fill || bench_fill_rings(workers, loop->at_home);
}

static bool do_loop(const struct loop *loop, uint64_t window_ms, unsigned int workers, uint64_t longer_cycles)
{
	struct rte_mempool *own = bench_pools[1];
	bool done = false;

	if (loop->devargs == NULL) {
		if (!bench_bare_init())
			return false;
		run_workers(loop->step, window_ms, workers);
		bench_bare_exit();
		return true;
	}
	rte_mempool_obj_iter(bench_pools[1], make_frame, NULL);
	if (loop->one_pool)
		bench_pools[1] = bench_pools[0];
	if (bench_make_pair(loop->devargs, loop->rx_queues, loop->tx_queues, loop->hashed, loop->buffers,
	                    loop->buffer_pool)) {
		done = fill_rings(loop, workers, longer_cycles);
		if (done)
			run_workers(loop->step, window_ms, workers);
		else
			fprintf(stderr, "wire-bench: %s: the rings cannot be filled\n", loop->name);
		bench_remove_pair();
		if (loop->workload != NULL)
			bench_work_exit();
		else if (loop->hashed)
			bench_share_exit();
	}
	bench_pools[1] = own;
	return done;
}

static const struct loop *find_loop(const char *name)
{
	for (unsigned int i = 0; i < RTE_DIM(loops); i++)
		if (strcmp(loops[i].name, name) == 0)
			return &loops[i];
	return NULL;
}

/* Returns the workers of "0", "1" or "01" as a mask; 0 if invalid. */
static unsigned int parse_workers(const char *text)
{
	unsigned int workers = 0;

	for (const char *digit = text; *digit; digit++)
		workers |= *digit == '0' || *digit == '1' ? 1u << (*digit - '0') : 1u << BENCH_QUEUES;
	return workers < 1u << rte_lcore_count() ? workers : 0;
}

static int answer(const char *line)
{
	const struct loop *loop;
	uint64_t window_ms, longer_cycles = 0;
	char name[20], text[4];
	unsigned int workers;

	if (sscanf(line, "%19s %" SCNu64 " %3s %" SCNu64, name, &window_ms, text, &longer_cycles) < 3 ||
	    (loop = find_loop(name)) == NULL || (workers = parse_workers(text)) == 0) {
		fprintf(stderr,
		        "wire-bench: expected: "
		        "drop|infinite|one-pool|home|mixed|cross|bare|bare-whole|line|"
		        "{standard,corec,locked,trylock,held,waited,rss,spread,hashed}-{l3fwd,ipsec}|"
		        "{rss,rebalanced,shared,split}-{even,skewed,one}|{corec,locked,trylock}-hashed "
		        "MILLISECONDS 0|1|01 [CYCLES]\n");
		return -1;
	}
	if (!do_loop(loop, window_ms, workers, longer_cycles))
		return -1;
	for (unsigned int i = 0; i < BENCH_QUEUES; i++)
		if (workers & 1u << i)
			printf("%" PRIu64 " %" PRIu64 " ",
			       loop->cycles ? cycles_to_ns(results[i].frames, rte_get_tsc_hz())
			                    : results[i].frames,
			       results[i].cpu_ns);
	putchar('\n');
	fflush(stdout);
	return 0;
}

static bool make_pools(void)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	for (unsigned int i = 0; i < BENCH_QUEUES; i++) {
		snprintf(name, sizeof(name), "bench_%u", i);
		bench_pools[i] = rte_pktmbuf_pool_create(name, POOL_MBUFS, POOL_CACHE, 0,
		                                         2048 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
		if (bench_pools[i] == NULL) {
			fprintf(stderr, "wire-bench: no memory for a mempool\n");
			return false;
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	char line[64];
	bool good;

	eal_folder_remove_at_exit();
	if (rte_eal_init(argc, argv) < 0 || rte_lcore_count() > BENCH_QUEUES) {
		fprintf(stderr, "wire-bench: EAL does not start, or has more than %d lcores\n", BENCH_QUEUES);
		return EXIT_FAILURE;
	}
	good = make_pools();
	while (good && fgets(line, sizeof(line), stdin) != NULL)
		good = answer(line) == 0;
	rte_eal_cleanup();
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
