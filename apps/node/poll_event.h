/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of a poll loop: the moments at which it looks at the TSC. An idle loop does so about every EVENT_CYCLES (the
 * number of sweeps adapts), a busy one also after packets_per_event packets. At an event the loop cuts its window, offers the
 * time since the last event to the list of the longest, and decides whether the next sweep is a sampled one.
 * Now and then the next event is planned only 1, 2, 4 ... 128 sweeps ahead: in a loaded loop only short stretches stay quiet.
 */
#ifndef POLL_EVENT_H
#define POLL_EVENT_H

#include "poller.h"

/* 25 us at 2.6 GHz. An event costs about 60 cycles and a sampled sweep some 200: below 0.5 % of an idle loop. */
#define EVENT_CYCLES     65536
#define EVENT_SWEEPS_MAX 65536

/* The lcore enters its loop. Returns the sweeps until the first event. */
uint32_t poll_begin(struct poller *p);

/* An event. Returns the sweeps until the next one, or 0: leave the loop. Sets sample_due. */
uint32_t poll_event(struct poller *p);

/* Sweeps done outside the count-down (sampled ones), ended at `now`. */
void poll_sampled(struct poller *p, uint32_t sweeps, uint64_t now);

/* Clear the accounts for `trial`. */
void poll_reset(struct poller *p, const struct trial *trial);

/*
 * Run `loop` on this lcore for a window of `cycles` outside any trial and return the window's account: calibration and
 * self-test measure the very loops that trials run.
 */
const struct account *poll_window(struct poller *p, poll_loop_fn loop, uint64_t cycles);

#endif
