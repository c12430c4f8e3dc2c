/* SPDX-License-Identifier: BSD-3-Clause */
/* Measure the host state before a block of trials: this host's cores, and the path between them. */
#ifndef HOST_STATE_H
#define HOST_STATE_H

#include <jansson.h>

#include "node_error.h"

/*
 * Return the object `host_state` of a request, or NULL with err. Blocks (asleep) for some milliseconds; no trial may run. Main
 * lcore only.
 */
json_t *host_state(json_t *request, struct node_error *err);

/* Free the buffer that was read. */
void host_state_close(void);

#endif
