/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run one trial at a time: launch the lcores, wait asleep, drain, end them. The main lcore may share its CPU with a polling
 * lcore, so nothing here spins; runner_step() is called when wake_fd is readable or the time-out has passed.
 */
#ifndef RUNNER_H
#define RUNNER_H

#include <stdbool.h>
#include <jansson.h>

#include "node_error.h"

/* FAILED: lcores hang. If they return after all, the next trial may start. */
enum runner_state {
	RUNNER_IDLE,
	RUNNER_RUNNING,
	RUNNER_DRAINING,
	RUNNER_ENDING, /* lcores are asked to return */
	RUNNER_DONE,
	RUNNER_STOPPED,
	RUNNER_FAILED
};

/* Returns 0 or -errno. */
int runner_open(void);

/* Readable when an lcore has closed its window. */
int runner_wake_fd(void);

/* Begin the trial of a `start` request. Returns 0, or -1 with err and nothing started. */
int runner_start(json_t *request, struct node_error *err);

/* End a running trial early. Returns 0, or -1 with err if none runs. */
int runner_stop(struct node_error *err);

/* Return whether lcores are launched, including those of a failed trial. */
bool runner_busy(void);

/* Advance the trial. Returns an event to be written (new reference), or NULL. */
json_t *runner_step(void);

/* Return how long the main lcore may sleep in poll(): milliseconds, -1 without limit. */
int runner_timeout_ms(void);

/* For display. */
const char *runner_trial_name(void);
const char *runner_state_name(void);

/* Return the reply of `read`, or NULL with err if there was no trial. */
json_t *runner_read(struct node_error *err);

/* Forget the results of earlier trials, after a new configuration. */
void runner_forget(void);

/*
 * End a running trial and wait for the lcores. Returns 0, or -ETIMEDOUT if one does not return: then nothing that an lcore uses
 * may be freed.
 */
int runner_close(void);

#endif
