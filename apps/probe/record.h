/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Callbacks of polling threads, and the sums and counts that they record.
 *
 * A gap is the time from one RX callback of a thread to its next one, on whatever queue: the rest of the iteration after the poll
 * before (processing and sending, if it returned packets), and the poll that ends the gap. Gaps are classed by whether either poll
 * returned packets.
 *
 * A window takes the gaps that begin in it. The one that is open when the window closes is taken as well, when it ends; otherwise long
 * gaps would be missed more often than short ones. In a doubled window each RX callback is installed twice; the second records into
 * unused sums. The difference between empty gaps of doubled and single windows is the cost of a callback in place.
 *
 * A polling thread alone writes its sums, and the counts of its queues. Others may read them at any time and see each number whole.
 * If several threads poll a queue, the counts of the queue (not of the threads) are lower bounds.
 */
#ifndef PROBE_RECORD_H
#define PROBE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;

#define PROBE_THREADS     128
#define PROBE_BURST_SIZES 10 /* 1, 2 to 3, 4 to 7, ..., 512 and more */
#define PROBE_GAP_BUCKETS 40 /* 1, 2 to 3, ... cycles */

enum probe_class { PROBE_EMPTY_EMPTY, PROBE_EMPTY_BUSY, PROBE_BUSY_EMPTY, PROBE_BUSY_BUSY, PROBE_CLASSES };

/* Gaps of a class. All but the interruptions and the histogram leave interrupted gaps out. */
struct probe_gaps {
	uint64_t count;
	uint64_t cycles;
	uint64_t squares;
	uint64_t interruptions;
	uint64_t interrupted_cycles;
	uint64_t longest_cycles; /* of all gaps */
	uint64_t before,
	        now; /* packets of the poll before, and of the poll that ends the gap; then products */
	uint64_t before_squares, now_squares, before_now, before_cycles, now_cycles;
	uint64_t histogram[PROBE_GAP_BUCKETS];
	uint64_t
	        limit_cycles; /* a longer gap without packets is an interruption; written before a window opens */
	uint64_t packet_cycles; /* each packet of the two polls adds to the limit; written with it */
};

#define PROBE_GAPS_SUMS 13 /* numbers of struct probe_gaps before the histogram */

struct probe_sums {
	uint64_t window; /* in which `last` was stamped; 0: no gap is open */
	uint64_t last_tsc;
	uint64_t last_packets;
	const struct probe_queue *anchor; /* the queue at which iterations begin */
	uint64_t anchor_tsc;
	uint64_t windows;
	uint64_t finished_windows;
	uint64_t packets;
	uint64_t tx_bursts;
	uint64_t tx_packets;
	uint64_t iterations;
	uint64_t iteration_cycles;
	struct probe_gaps gaps[PROBE_CLASSES];
};

enum probe_copy { PROBE_SINGLE, PROBE_DOUBLED, PROBE_SHADOW, PROBE_COPIES };

struct probe_thread {
	uint32_t number; /* index + 1 */
	int tid;
	int lcore_index;     /* -1: not an EAL lcore */
	uint16_t most_asked; /* packets that a poll asked for, at most */
	struct probe_sums sums[PROBE_COPIES];
} __attribute__((aligned(64)));

/* A queue of a port, in one direction. */
struct probe_queue {
	uint64_t polls; /* TX: bursts */
	uint64_t full;  /* polls that returned as many packets as requested */
	uint64_t packets;
	uint32_t thread; /* number of the last one; 0: none */
	uint32_t moves;  /* from one thread to another */
	uint64_t sizes[PROBE_BURST_SIZES];
	bool shadow; /* of the second callback in doubled windows */
} __attribute__((aligned(64)));

/* The polling threads seen so far. Only the first probe_threads_count() are in use; an index keeps its thread. */
extern struct probe_thread probe_threads[PROBE_THREADS];
uint32_t probe_threads_count(void);

/* Return the threads that found no place in probe_threads. */
uint32_t probe_threads_lost(void);

/* Callbacks of DPDK; `queue` is a struct probe_queue. They return what the driver returned. */
uint16_t probe_receive(uint16_t port, uint16_t id, struct rte_mbuf **packets, uint16_t count, uint16_t max,
                       void *queue);
uint16_t probe_send(uint16_t port, uint16_t id, struct rte_mbuf **packets, uint16_t count, void *queue);

/*
 * Open a window: callbacks record from now on. Close it: each thread takes the gap that is open. Returns whether all threads have
 * done so within 5 ms. End it: callbacks record nothing. One thread calls these, in this order.
 */
void probe_window_open(bool doubled);
bool probe_window_close(void);
void probe_window_end(void);
uint64_t probe_windows(void);

/* Measure callbacks in a loop on this thread: of empty polls and of bursts of 32 packets. The shortest of some rounds counts. No window may be open. */
void probe_calibrate(uint64_t *rx_cycles, uint64_t *tx_cycles);

#endif
