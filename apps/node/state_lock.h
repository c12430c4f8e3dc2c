/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STATE_LOCK_H
#define STATE_LOCK_H

/*
 * The main lcore changes the configuration (which pollers exist); the telemetry thread of DPDK reads it. The main lcore holds
 * this lock while it handles a request, the telemetry thread while it reads. Polling lcores never take it.
 */
void state_lock(void);
void state_unlock(void);

#endif
