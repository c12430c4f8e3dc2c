/* SPDX-License-Identifier: BSD-3-Clause */
/* What notifications but spin need beside the loops: doorbells of the RX queues, and a set of them for each lcore. Main lcore only. */
#ifndef DUT_NOTIFY_H
#define DUT_NOTIFY_H

#include "config.h"

/*
 * Doorbells for all RX queues that the n pollers read, or one for all queues of a poller, and a set for each poller, while no lcore
 * runs; from then on whoever sends to the port rings. Nobody rings with notifications spin, monitor-multi (each poller has memory
 * for its queues' lines) and sleep-ramp. Returns 0, or -1 with err (where begins with "dut") and nothing made.
 */
int dut_notify_make(const struct dut_config *config, struct poller *const *pollers, unsigned int n,
                    struct node_error *err);

/* A trial begins, and no lcore runs yet: every queue is ready once, whatever became of its doorbell before. What waits in it is found. */
void dut_notify_begin(struct poller *const *pollers, unsigned int n);

/* Nobody rings any more, and the memory is freed. No lcore may run. */
void dut_notify_free(void);

#endif
