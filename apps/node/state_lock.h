/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STATE_LOCK_H
#define STATE_LOCK_H

/*
 * Configuration (which pollers exist) is changed by the main lcore and read by DPDK's telemetry thread: the main lcore holds
 * this lock while it handles a request, the telemetry thread while it reads. Polling lcores never take it.
 */
void state_lock(void);
void state_unlock(void);

#endif
