/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of a poll loop are the moments at which it reads the TSC: about every EVENT_CYCLES when idle (the number of
 * sweeps adapts), and also after packets_per_event packets when busy. At an event the loop ends its window if it is
 * over, offers the time since the last event to the list of the longest, and decides whether the next sweep is a
 * sampled one.
 */
#ifndef EVENT_H
#define EVENT_H

#include "poller.h"

/* 13 us at 2.6 GHz. An event costs about 60 cycles and a sampled sweep about 200: less than 0.6 % of an idle loop. */
#define EVENT_CYCLES     32768
#define EVENT_SWEEPS_MAX 65536

/* Begin the loop on its lcore. Returns the sweeps until the first event. */
uint32_t poll_begin(struct poller *p);

/* Handle an event. Returns the sweeps until the next one, or 0 to leave the loop. Sets sample_due. */
uint32_t poll_event(struct poller *p);

/* Count sweeps outside the count-down (sampled ones), which ended at `now`. */
void poll_sampled(struct poller *p, uint32_t sweeps, uint64_t now);

/*
 * Return by how many cycles an interval of `polls` polls with `packets` packets exceeded its mean cost so far, if it
 * did so by ACCOUNT_INTERRUPTION_NS or more: the host or another thread had the CPU. 0: not interrupted.
 */
uint64_t poll_interruption(const struct poller *p, uint64_t polls, uint64_t packets, uint64_t cycles);

/* Book a timed interval; nothing is booked outside the window. */
void poll_timed_interval(struct poller *p, const struct account_timed_interval *timed_interval);

/* Book a busy poll with n packets that was timed alone; `number` as in poll_count(). */
void poll_timed_busy_poll(struct poller *p, uint16_t n, uint32_t number, const uint64_t stamp[4]);

/*
 * Book a timed iteration of a notified loop that found n packets. Stamps: before the notification, before and after
 * receiving, after processing, after sending, and after arming the queue again. With n = 0 the third and fourth are
 * not read.
 */
void poll_timed_turn(struct poller *p, uint16_t n, const uint64_t stamp[6]);

/* Return the end of the present stage; UINT64_MAX in the last one. */
uint64_t poll_boundary(const struct poller *p);

/* Clear the accounts for `trial`. */
void poll_reset(struct poller *p, const struct trial *trial);

/*
 * Run `loop` on this lcore for a window of `cycles` outside any trial and return the account of the window.
 * Calibration and self-test measure the same loops that trials run.
 */
const struct account *poll_window(struct poller *p, poll_loop_fn loop, uint64_t cycles);

#endif
