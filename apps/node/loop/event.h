/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of a poll loop: the moments at which it looks at the TSC. An idle loop does so about every EVENT_CYCLES (the
 * number of sweeps adapts), a busy one also after packets_per_event packets. At an event the loop cuts its window, offers the
 * time since the last event to the list of the longest, and decides whether the next sweep is a sampled one.
 */
#ifndef EVENT_H
#define EVENT_H

#include "poller.h"

/* 13 us at 2.6 GHz. An event costs about 60 cycles and a sampled sweep some 200: below 0.6 % of an idle loop. */
#define EVENT_CYCLES     32768
#define EVENT_SWEEPS_MAX 65536

/* The lcore enters its loop. Returns the sweeps until the first event. */
uint32_t poll_begin(struct poller *p);

/* An event. Returns the sweeps until the next one, or 0: leave the loop. Sets sample_due. */
uint32_t poll_event(struct poller *p);

/* Sweeps done outside the count-down (sampled ones), ended at `now`. */
void poll_sampled(struct poller *p, uint32_t sweeps, uint64_t now);

/*
 * By how many cycles an interval of `polls` polls that met `packets` packets lasted longer than these take on average so far,
 * where that is ACCOUNT_INTERRUPTION_NS and more: the host or another thread had the CPU. 0: it was not interrupted.
 */
uint64_t poll_interruption(const struct poller *p, uint64_t polls, uint64_t packets, uint64_t cycles);

/* Book a slice; nothing is booked outside the window. */
void poll_timed_interval(struct poller *p, const struct account_timed_interval *timed_interval);

/* Book a visit of n packets by poll `number` (see poll_count()) that was timed by itself. */
void poll_timed_busy_poll(struct poller *p, uint16_t n, uint32_t number, const uint64_t stamp[4]);

/*
 * Book a turn of a loop that is told which queue is next, which found n packets: stamped before it was told, before and after receiving,
 * after processing, after sending, and when it had asked to be told again. n = 0: the third and fourth are not read.
 */
void poll_timed_turn(struct poller *p, uint16_t n, const uint64_t stamp[6]);

/* Where the present stage ends; never, in the last one. */
uint64_t poll_boundary(const struct poller *p);

/* Clear the accounts for `trial`. */
void poll_reset(struct poller *p, const struct trial *trial);

/*
 * Run `loop` on this lcore for a window of `cycles` outside any trial and return the window's account: calibration and
 * self-test measure the very loops that trials run.
 */
const struct account *poll_window(struct poller *p, poll_loop_fn loop, uint64_t cycles);

#endif
