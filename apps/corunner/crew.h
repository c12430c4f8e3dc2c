/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The workers that were configured, and one trial of them at a time (docs/corunner.md). A trial runs until `stop`, or over
 * a warm-up and a window of its own.
 */
#ifndef CREW_H
#define CREW_H

#include <stdbool.h>
#include <jansson.h>

#include "node_error.h"

/* Returns 0 or -errno. */
int crew_open(void);
void crew_close(void);

/* The requests of the same names: the reply without `id` and `ok` (new reference), or NULL with err. */
json_t *crew_configure(json_t *request, struct node_error *err);
json_t *crew_start(json_t *request, struct node_error *err);
json_t *crew_stop(json_t *request, struct node_error *err);
json_t *crew_read(json_t *request, struct node_error *err);

bool crew_busy(void);

/* For conversation_run. */
int crew_wake_fd(void);
int crew_timeout_ms(void);
json_t *crew_step(void);

#endif
