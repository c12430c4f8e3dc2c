/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live counters on DPDK's telemetry socket:
 *   /pollscope/lcores       the polling lcores
 *   /pollscope/lcore,ID     counters of one over the present trial
 *   /pollscope/trial        name and state
 */
#ifndef TELEMETRY_H
#define TELEMETRY_H

/* Returns 0 or -errno. */
int telemetry_open(void);

#endif
