/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `wire-bench [EAL OPTIONS]`: loops around net_crossover, and one without it, for benchmarks/two_senders.py,
 * benchmarks/corec.py and benchmarks/line_limit.py. The lcores of the process (main lcore included) are the workers, there is no other thread that
 * computes. It reads lines `LOOP MILLISECONDS WORKERS [CYCLES]` from stdin, where WORKERS is `0`, `1` or `01`: who works, and CYCLES what
 * receiving a burst takes longer than it does in the loops of a workload, under their lock where they have one. It
 * answers each with `FRAMES NANOSECONDS`, a pair for each of them: what it did within the window, and the CPU time that
 * it had for that. Loops `held-...` and `waited-...` say in place of frames for how many nanoseconds the lock was held or waited for.
 * Whoever works, the pair of a loop has the same queues, all started.
 */
#ifndef WIRE_BENCH_H
#define WIRE_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#define BENCH_QUEUES      2 /* and workers at most; worker i has queue i */
#define BENCH_BURST       32
#define BENCH_RING        512
#define BENCH_FRAME_BYTES 60 /* in the mbuf; 64 with FCS */

/* A worker's share of a loop: called again and again, returns the frames that it did. */
typedef uint32_t (*bench_step)(unsigned int worker);

/* Makes the pair with `devargs`; false with a line on stderr. RX queue i takes its mbufs from pool i. */
bool bench_make_pair(const char *devargs, uint16_t rx_queues, uint16_t tx_queues);

/* The same, with RSS hashes, and buffers where net_crossover_rx_buffers() puts them. */
bool bench_make_pair_of(const char *devargs, uint16_t rx_queues, uint16_t tx_queues, unsigned int buffers,
                        uint16_t buffer_pool);
void bench_remove_pair(void);
extern uint16_t bench_ports[2];
extern struct rte_mempool *bench_pools[BENCH_QUEUES];

/*
 * Leaves frames in the RX rings of both ports, for each of `workers` (a bit each). `at_home`: only such that come back to
 * the queue that they are sent from, if its worker forwards them. False: not enough of them were found.
 */
bool bench_fill_rings(unsigned int workers, bool at_home);

/* The RX queue of the second port at which a frame of BENCH_FRAME_BYTES arrives; BENCH_QUEUES: none. Its rings are empty. */
unsigned int bench_queue_of(const void *frame);

/* Flows of the frames that go round between queues of both ports. */
enum bench_flows {
	BENCH_EVEN,   /* many, over all queues */
	BENCH_SKEWED, /* many, all to queue 0 of either port, by the RETA as it is at first */
	BENCH_ONE     /* one, to queue 0 */
};

/* Leaves `frames` frames of such flows in the RX rings of each port, all of pool 0, with destinations below BENCH_ROUTES. */
bool bench_fill_flows(enum bench_flows flows, unsigned int frames);

/* Each worker polls RX queue `worker` of both ports; the second counts by RETA entry, and its worker 0 rebalances. */
void bench_each_init(void);
uint32_t bench_each_step(unsigned int worker);
uint32_t bench_rebalanced_step(unsigned int worker);

/*
 * RX queue 0 of both ports is polled by all workers; each routes what it gets (longest prefix, MAC addresses, TTL) and sends it
 * back on its own TX queue. By how they keep out of each other's way: not at all (one worker), rx=corec, a spin lock that is
 * waited for, or one that is not.
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
 * Workload of pollscope-node on what workers receive from the second port: all from RX queue 0, or each from its own. What is to
 * be sent goes to the first port, where it is dropped: nobody receives there. Workers play the NIC, too: who received anything sends
 * a burst of fresh frames of BENCH_FLOWS flows, so RX queues stay full. Frames that were received count, with those that the
 * workload drops.
 */
#define BENCH_FLOWS 1024

/* Where a worker's frames go. */
enum bench_feed {
	BENCH_FEED_ONE,  /* there is one queue */
	BENCH_FEED_HOME, /* its own queue: nothing crosses */
	BENCH_FEED_TURNS /* a burst to each queue in turn: half of them cross, as at a queue that workers share */
};

/* With the pair made. False with a line on stderr. */
bool bench_work_init(const char *workload, enum bench_feed feed, uint64_t longer_cycles);
void bench_work_exit(void);
uint32_t bench_work_step(unsigned int worker);
uint32_t bench_work_locked_step(unsigned int worker);
uint32_t bench_work_trylock_step(unsigned int worker);
uint32_t bench_work_each_step(unsigned int worker);

/* Locked, and timed: cycles for which the lock was held, or waited for. */
uint32_t bench_work_held_step(unsigned int worker);
uint32_t bench_work_waited_step(unsigned int worker);

/* A cache line to and fro between both workers (host-state check.h): round trips. */
uint32_t bench_line_step(unsigned int worker);

/*
 * What must move between two cores in any case: worker 0 writes BENCH_FRAME_BYTES into each posted buffer and then
 * descriptors, worker 1 sees the descriptors, reads each buffer, and posts them again, as net_crossover does it, but with
 * neither mbufs, mempools, queues nor counters.
 */
bool bench_bare_init(void);
void bench_bare_exit(void);
uint32_t bench_bare_step(unsigned int worker);

/* The same in whole bursts of BENCH_BURST: quicker where a receiver that follows the sender closely takes its lines away. */
uint32_t bench_bare_whole_step(unsigned int worker);

#endif
