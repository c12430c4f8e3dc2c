/* SPDX-License-Identifier: BSD-3-Clause */
/* Doorbells of the RX queues and ready sets of the lcores, for all notifications except spin. Main lcore only. */
#ifndef DUT_NOTIFY_H
#define DUT_NOTIFY_H

#include "config.h"

/*
 * Make doorbells for all RX queues that the n pollers read, or one for all queues of a poller, and one set per poller, while no
 * lcore runs. From then on senders to the port ring. Notifications spin, monitor-multi (each poller has memory for its queues'
 * lines), sleep-ramp and pause have no doorbells. Returns 0, or -1 with err (where begins with "dut") and nothing made.
 */
int dut_notify_make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                    struct node_error *err);

/*
 * Begin a trial, before any lcore runs: every queue is ready once, whatever the state of its doorbell, so that waiting packets
 * are found.
 */
void dut_notify_begin(struct poller *const *pollers, unsigned int n);

/* Remove the doorbells and free the memory. No lcore may run. */
void dut_notify_free(void);

#endif
