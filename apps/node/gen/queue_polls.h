/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often the DUT polls each queue of the target port. From this follows the rate at which packets must come to a cold queue so
 * that a poll finds some with a given probability (shape.h). The rate of polls is unknown before the DUT runs under that
 * traffic.
 *
 * If DUT lcores of this node poll the target port, their sweeps are read while they run, one cache line each about once per
 * millisecond. A DUT elsewhere is asked by the program that conducts the trial, which passes the answer on (request
 * `queue_polls`). Polls are averaged over all queues: lcores with different sweep rates are not distinguished.
 */
#ifndef GEN_QUEUE_POLLS_H
#define GEN_QUEUE_POLLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gen_queue_polls {
	uint16_t port;
	bool is_counted; /* counted here; otherwise set by a request */
	uint64_t tsc_hz;
	uint64_t begin_tsc;
	uint64_t next_tsc;  /* of the next look */
	uint64_t since_tsc; /* of the last estimate */
	double since_count;
	double least_count; /* polls, and cycles, that an estimate needs: few at first, more later */
	uint64_t least_cycles;
	double per_s; /* the estimate; 0: none yet */
	_Atomic(double) requested_per_s;
};

/*
 * Prepare for a trial that begins at begin_tsc; the DUT is ready for it. Main lcore. A value from an earlier request stays
 * valid.
 */
void gen_queue_polls_begin(struct gen_queue_polls *queue_polls, uint16_t port, uint64_t begin_tsc,
                           uint64_t tsc_hz);

/* Called at `now` >= next_tsc by the generator's lcore. Returns true if per_s has a new value. */
bool gen_queue_polls_look(struct gen_queue_polls *queue_polls, uint64_t now);

/* Return the polls per queue from the begin of the trial until `now`. */
double gen_queue_polls_count(const struct gen_queue_polls *queue_polls, uint64_t now);

#endif
