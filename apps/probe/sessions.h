/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observers, and the thread that takes windows for them.
 *
 * An observer has a session, which ends when it stops it or has sent no request for its heartbeat timeout. While there is a session, one
 * window begins at a random moment of each period. The thread is started with the first session and sleeps without one. It inherits
 * the CPUs of the telemetry thread that starts it, which EAL keeps off the CPUs of lcores if there are others.
 *
 * Several sessions share windows and counters: the longest sample and the shortest period count.
 */
#ifndef PROBE_SESSIONS_H
#define PROBE_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#define PROBE_SESSIONS 8

struct probe_settings {
	uint32_t heartbeat_ms;
	uint32_t sample_us;
	uint32_t period_us; /* as long as the sample: the program is watched without a break */
};

struct probe_status {
	uint32_t sessions;
	uint32_t callbacks;
	uint64_t windows;
	uint64_t skipped_windows; /* because too many removed callbacks could not be freed */
	uint32_t sample_us;       /* in use; 0 without a session */
	uint32_t period_us;
	uint64_t rx_callback_cycles; /* calibrated at the first start, 0 before */
	uint64_t tx_callback_cycles;
};

/* Start a session. Returns its number (from 1), -EUSERS if there are PROBE_SESSIONS, or another -errno. */
int probe_session_start(const struct probe_settings *settings);

/* Both return false if there is no such session (any more). */
bool probe_session_beat(int number);
bool probe_session_stop(int number);

void probe_status(struct probe_status *status);

#endif
