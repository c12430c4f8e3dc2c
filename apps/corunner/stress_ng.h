/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stress-ng as a general benchmark, bound to one CPU. It counts over its whole run, which contains the window, so its rate
 * cannot be cut to the window.
 */
#ifndef STRESS_NG_H
#define STRESS_NG_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "node_error.h"

#define STRESSOR_NAME_MAX 32

struct stress_ng {
	unsigned int cpu;
	char stressor[STRESSOR_NAME_MAX + 1];
	pid_t pid;   /* 0: not running */
	int metrics; /* memory file that stress-ng writes at its end; -1: none */
	char problem[128];
};

/* Return NULL if stress-ng can run, otherwise why not. */
const char *stress_ng_absent(void);

/* Returns 0, or -1 with err. stress-ng ends when the calling thread ends, for whatever reason. */
int stress_ng_start(struct stress_ng *stress, const char *at, struct node_error *err);

/* End stress-ng and wait until it has written its numbers. */
void stress_ng_stop(struct stress_ng *stress);

/* Return whether it has ended by itself. */
bool stress_ng_died(struct stress_ng *stress);

/* Return {bogo_ops, run_s, bogo_ops_per_s} of the last run, or NULL with err. */
json_t *stress_ng_result(const struct stress_ng *stress, const char *at, struct node_error *err);

void stress_ng_close(struct stress_ng *stress);

#endif
