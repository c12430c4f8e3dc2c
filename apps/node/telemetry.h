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

/*
 * The main lcore changes the configuration (which pollers exist); the telemetry thread of DPDK reads it. The main lcore holds
 * this lock while it handles a request, the telemetry thread while it reads. Polling lcores never take it.
 */
void state_lock(void);
void state_unlock(void);

#endif
