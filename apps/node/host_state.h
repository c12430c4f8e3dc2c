/* SPDX-License-Identifier: BSD-3-Clause */
/* The ground under a block of trials: what this host's cores, and the way between them, are like at this moment. */
#ifndef HOST_STATE_H
#define HOST_STATE_H

#include <jansson.h>

#include "node_error.h"

/*
 * The object `host_state` of a ground request, or NULL with err. Blocks (asleep) for some milliseconds; no trial may run.
 * Main lcore only.
 */
json_t *host_state(json_t *request, struct node_error *err);

/* Free the buffer that was read. */
void host_state_close(void);

#endif
