/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often the DUT visits a queue of the target port. The rate at which packets must come to a cold queue for a visit to find
 * some with a given probability follows from it (shape.h), and is known to nobody before the DUT runs under that traffic.
 *
 * Where DUT lcores of this node poll the target port, their sweeps are read while they run, one cache line each about once a
 * millisecond. A DUT elsewhere is asked by whoever conducts the trial, who tells it here (request `queue_polls`).
 * Visits of all queues are averaged: lcores that sweep at different rates are not told apart.
 */
#ifndef GEN_QUEUE_POLLS_H
#define GEN_QUEUE_POLLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gen_queue_polls {
	uint16_t port;
	bool is_counted; /* here; else it is told */
	uint64_t tsc_hz;
	uint64_t begin_tsc;
	uint64_t next_tsc;  /* of the next look */
	uint64_t since_tsc; /* of the last estimate */
	double since_count;
	double least_count; /* visits, and cycles, that an estimate needs: few at first, more later */
	uint64_t least_cycles;
	double per_s; /* the estimate; 0: none yet */
	_Atomic(double) told_per_s;
};

/* Prepare for a trial that begins at begin_tsc; the DUT is ready for it. Main lcore. What was told before still holds. */
void gen_queue_polls_begin(struct gen_queue_polls *queue_polls, uint16_t port, uint64_t begin_tsc,
                           uint64_t tsc_hz);

/* Called at `now` >= next_tsc by the generator's lcore. True when per_s has a new value. */
bool gen_queue_polls_look(struct gen_queue_polls *queue_polls, uint64_t now);

/* Visits of a queue from the trial's begin until `now`. */
double gen_queue_polls_count(const struct gen_queue_polls *queue_polls, uint64_t now);

#endif
