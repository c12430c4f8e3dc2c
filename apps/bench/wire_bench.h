/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `wire-bench [EAL OPTIONS]`: loops around net_crossover, and two without it, for benchmarks/two_senders.py,
 * benchmarks/corec.py, benchmarks/rivals.py and benchmarks/line_limit.py.
 *
 * The lcores of the process (main lcore included) are the workers; no other thread computes. The program reads lines `LOOP
 * MILLISECONDS WORKERS [CYCLES]` from stdin. WORKERS is `0`, `1` or `01`. With CYCLES, receiving a burst takes that much longer
 * in the loops of a workload, under their lock if they have one. It answers each line with `FRAMES NANOSECONDS` per worker: its
 * frames within the window, and its CPU time there. Loops `held-...` and `waited-...` report, in place of frames, for how many
 * nanoseconds the lock was held or waited for. The pair of a loop has the same queues, all started, whichever workers run.
 */
#ifndef WIRE_BENCH_H
#define WIRE_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#define BENCH_QUEUES      2 /* and most workers; worker i has queue i */
#define BENCH_BURST       32
#define BENCH_RING        512
#define BENCH_FRAME_BYTES 60 /* in the mbuf; 64 with FCS */

/* One call of a worker's loop; returns the frames that it handled. */
typedef uint32_t (*bench_step)(unsigned int worker);

/*
 * Make the pair with `devargs`, with or without RSS hashes, and buffers where net_crossover_rx_buffers() puts them; false with a
 * line on stderr. RX queue i takes its mbufs from pool i.
 */
bool bench_make_pair(const char *devargs, uint16_t rx_queues, uint16_t tx_queues, bool hashes,
                     unsigned int buffers, uint16_t buffer_pool);
void bench_remove_pair(void);
extern uint16_t bench_ports[2];
extern struct rte_mempool *bench_pools[BENCH_QUEUES];

/*
 * Leave frames in the RX rings of both ports, for each of `workers` (one bit each). `at_home`: only frames that return to the
 * queue they are sent from, if its worker forwards them. False: not enough such frames were found.
 */
bool bench_fill_rings(unsigned int workers, bool at_home);

/*
 * Return the RX queue of the second port at which a frame of BENCH_FRAME_BYTES arrives; BENCH_QUEUES: none. Its rings are
 * empty.
 */
unsigned int bench_queue_of(const void *frame);

/* Flows of the frames that circulate between queues of both ports. */
enum bench_flows {
	BENCH_EVEN,   /* many, over all queues */
	BENCH_SKEWED, /* many, all to queue 0 of either port, by the initial RETA */
	BENCH_ONE     /* one, to queue 0 */
};

/* Leave `frames` frames of such flows in the RX rings of each port, all of pool 0, with destinations below BENCH_ROUTES. */
bool bench_fill_flows(enum bench_flows flows, unsigned int frames);

/* Each worker polls RX queue `worker` of both ports; the second function counts by RETA entry, and its worker 0 rebalances. */
void bench_each_init(void);
uint32_t bench_each_step(unsigned int worker);
uint32_t bench_rebalanced_step(unsigned int worker);

/*
 * All workers poll RX queue 0 of both ports; each routes its frames (longest prefix, MAC addresses, TTL) and sends them back on
 * its own TX queue. The functions differ in how the workers share the queue: not at all (one worker), rx=corec, a spin lock
 * that is waited for, or one that is passed by.
 */
#define BENCH_ROUTES     4096
#define BENCH_ROUTE_BITS 24

/* Network address of route i, host byte order. */
static inline uint32_t bench_route(uint32_t i)
{
	return UINT32_C(10) << 24 | i << 8;
}

bool bench_share_init(void);
uint32_t bench_route_and_send(struct rte_mbuf **burst, uint16_t count, unsigned int to, unsigned int worker);
void bench_share_exit(void);
uint32_t bench_share_step(unsigned int worker);
uint32_t bench_share_locked_step(unsigned int worker);
uint32_t bench_share_trylock_step(unsigned int worker);

/*
 * Run a workload of pollscope-node on what workers receive from the second port: all from RX queue 0, or each from its own.
 * Frames to be sent go to the first port, where they are dropped because nothing receives there. Workers also play the NIC: a
 * worker that received sends a burst of fresh frames of BENCH_FLOWS flows, so RX queues stay full. Received frames count,
 * including those that the workload drops.
 */
#define BENCH_FLOWS 1024

/* Destination of a worker's frames. */
enum bench_feed {
	BENCH_FEED_ONE,  /* there is one queue */
	BENCH_FEED_HOME, /* its own queue: no frame crosses */
	BENCH_FEED_TURNS /* a burst to each queue in turn: half of them cross, as at a shared queue */
};

/* After the pair was made. False with a line on stderr. */
bool bench_work_init(const char *workload, enum bench_feed feed, uint64_t longer_cycles);
void bench_work_exit(void);
uint32_t bench_work_step(unsigned int worker);
uint32_t bench_work_locked_step(unsigned int worker);
uint32_t bench_work_trylock_step(unsigned int worker);
uint32_t bench_work_each_step(unsigned int worker);

/* Locked, and timed: cycles for which the lock was held, or waited for. */
uint32_t bench_work_held_step(unsigned int worker);
uint32_t bench_work_waited_step(unsigned int worker);

/* Pass a cache line between both workers (host_check.h): round trips. */
uint32_t bench_line_step(unsigned int worker);

/*
 * The least that must move between two cores: worker 0 writes BENCH_FRAME_BYTES into each posted buffer and then the
 * descriptors; worker 1 sees the descriptors, reads each buffer, and posts them again, like net_crossover but without mbufs,
 * mempools, queues and counters.
 */
bool bench_bare_init(void);
void bench_bare_exit(void);
uint32_t bench_bare_step(unsigned int worker);

/* The same in whole bursts of BENCH_BURST. Quicker where a receiver that follows the sender closely takes its lines away. */
uint32_t bench_bare_whole_step(unsigned int worker);

#endif
