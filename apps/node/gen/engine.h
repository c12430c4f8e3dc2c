/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of one of the generator's lcores and its counters.
 *
 * One iteration reads the TSC, sends what is due (at most one burst), and receives at most one burst per RX queue. Departure
 * and arrival times are TSC reads of the iteration: all frames of a burst left at the read before they were written, and
 * arrived at the read after rte_eth_rx_burst() returned.
 *
 * Paced sending follows the schedule of pacing.h. Frames that the driver refuses keep their slot and are written again in the
 * next iteration, until they are too late and count as unsent. Sequence numbers have no gaps (each lcore has its own). A slot
 * belongs to the window that contains its intended time. Saturated sending has no schedule: intended = sent.
 *
 * A generator that sleeps between iterations first takes all that has come back, and then leaves its CPU to the DUT's lcore
 * that shares it. Between two of its bursts the DUT works on what the rings hold.
 *
 * Saturated sending to several queues keeps the hot ones backlogged: each iteration sends a burst to the next of them, and a
 * full ring drops the rest. Packets for cold queues go in between. Each cold queue has a Poisson process whose rate follows
 * from how often the DUT polls each queue (queue_polls.h); together they are one Poisson process, and each packet draws its queue.
 * Until the rate is known cold queues get no packets.
 */
#ifndef GEN_ENGINE_H
#define GEN_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "histogram.h"
#include "packets.h"
#include "pacing.h"
#include "sequence.h"
#include "config.h"
#include "stamps.h"
#include "traffic.h"
#include "queue_polls.h"
#include "trial.h"

#define GEN_RX_BURST 32 /* most frames of one time of arrival */

/* Counters since the begin of the trial; only uint64_t, so that windows are differences of two copies. */
struct gen_counts {
	uint64_t intended; /* slots taken from the schedule */
	uint64_t sent;
	uint64_t unsent;     /* slots given up because they were too late */
	uint64_t tx_bytes;   /* without FCS, as ethdev counts */
	uint64_t tx_refused; /* frames that tx_burst refused; offered again later */
	uint64_t no_mbuf;    /* iterations that could not send because the mempool was empty */
	uint64_t rx_packets;
	uint64_t rx_bytes;
	uint64_t rx_foreign;  /* frames that this trial did not send; not in rx_packets */
	uint64_t cold_sent;   /* saturated: the part of `sent` for cold queues */
	uint64_t cold_unsent; /* packets for cold queues given up because they were too late */
	uint64_t gaps_over_1us;
	uint64_t gaps_over_10us;
	uint64_t gaps_over_100us;
	uint64_t cycles_over_100us;         /* total length of the gaps of that class */
	uint64_t bursts[GEN_BURST_MAX + 1]; /* by the number of frames that the driver accepted */
};

struct gen_agent;

struct gen_departure {
	uint64_t sent;     /* TSC */
	uint64_t lateness; /* TSC cycles */
};

/* Cache-line aligned, because only its lcore writes it. */
struct gen_engine {
	/* set by gen_apply() and gen_start(), constant while the loop runs */
	const struct trial *trial;
	struct rte_mempool *pool;
	struct gen_traffic traffic;
	struct packet_template *templates; /* by gen_entry.size */
	const struct gen_trace *trace;     /* NULL: none */
	struct gen_agent *agent;           /* sends in place of the loop (wire_agent.h); NULL: none */
	struct gen_engine *const *senders; /* engines of all lcores, including this one */
	unsigned int senders_n;
	uint16_t tx_port;
	uint16_t tx_queue;
	uint16_t rx_port;   /* NO_PORT: does not receive */
	uint16_t rx_queue;  /* the first that it reads; the next ones are senders_n apart */
	uint16_t rx_queues; /* of the port */
	uint16_t mark;      /* of the first sender's frames */
	uint32_t flows;     /* maximum over the senders */
	uint32_t target_queues;
	unsigned int burst;
	uint64_t sleep_ns; /* between iterations; 0: no sleep */
	bool saturate;
	bool backlog;       /* saturated, with flows placed on several queues */
	uint64_t cycles_us; /* TSC cycles of 1 us */
	uint64_t ns_per_cycle_q32;
	uint32_t departures_max;

	/* of the loop */
	struct pacer pacer;
	uint64_t sequence;           /* sequence number of the next frame */
	uint32_t place[GEN_LISTS];   /* the next entry of traffic.lists */
	uint64_t sent_of[GEN_LISTS]; /* since the trial's begin */
	struct gen_queue_polls queue_polls;
	double cold_per_poll;  /* packets for all cold queues between two polls of a queue; 0: none */
	unsigned int cold_due; /* taken from the schedule and not yet sent */
	unsigned int held;     /* mbufs[0..held-1] are allocated */
	unsigned int waiting;  /* intended[0..waiting-1] were taken and not yet sent */
	uint64_t last_iteration_tsc;
	uint64_t last_departure_tsc; /* 0: none in this window yet */
	bool in_window;
	struct rte_mbuf *mbufs[GEN_BURST_MAX];
	uint64_t intended[GEN_BURST_MAX];

	/* results */
	struct gen_counts counts;
	struct gen_counts at_open;
	struct gen_counts at_close;
	double queue_polls_at_open; /* per queue, since the begin of the trial */
	double queue_polls_at_close;
	_Atomic(uint64_t) opened_tsc; /* 0: not yet */
	_Atomic(uint64_t) closed_tsc;
	uint64_t longest_gap;
	uint64_t last_gap; /* length of the last gap above 1 us; it ended at last_gap_end_tsc */
	uint64_t last_gap_end_tsc;
	struct histogram lateness_ns;
	struct histogram interdeparture_ns;
	struct histogram latency_intended_ns;
	struct histogram latency_sent_ns;
	struct sequence *received[GEN_LCORES_MAX]; /* by sender; NULL: does not receive */
	struct gen_departure *departures;
	uint32_t departures_count;
	struct gen_stamps stamps; /* the first lcore's; the others take none */
} __rte_cache_aligned;

/*
 * Counts for the window the part that lies inside of a gap of `gap` cycles across its start, because it delayed slots of the window. Returns
 * that part in cycles; 0 if it is at most 100 us. `at_open` has been taken, and holds the whole gap.
 */
uint64_t gen_gap_over_start(struct gen_engine *engine, uint64_t gap, uint64_t end_tsc);

/* Run the whole trial, from the launch of the lcore to TRIAL_OVER. See gen_lcore_main(). */
void gen_engine_run(struct gen_engine *engine);

#endif
