/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configured workers, and one trial of them at a time. A trial runs until `stop`, or over its own
 * warm-up and window.
 */
#ifndef WORKERS_H
#define WORKERS_H

#include <stdbool.h>
#include <jansson.h>

#include "node_error.h"

/* Returns 0 or -errno. */
int workers_open(void);
void workers_close(void);

/* Handle the requests of the same names. Return the reply without `id` and `ok` (new reference), or NULL with err. */
json_t *workers_configure(json_t *request, struct node_error *err);
json_t *workers_start(json_t *request, struct node_error *err);
json_t *workers_stop(json_t *request, struct node_error *err);
json_t *workers_read(json_t *request, struct node_error *err);

bool workers_busy(void);

/* For conversation_run. */
int workers_wake_fd(void);
int workers_timeout_ms(void);
json_t *workers_step(void);

#endif
