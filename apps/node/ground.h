/* SPDX-License-Identifier: BSD-3-Clause */
/* The ground under a block of trials: what this host's cores, and the way between them, are like at this moment. */
#ifndef GROUND_H
#define GROUND_H

#include <jansson.h>

#include "node_error.h"

/*
 * The object `ground` of a ground request, or NULL with err. Blocks (asleep) for some milliseconds; no trial may run.
 * Main lcore only.
 */
json_t *ground(json_t *request, struct node_error *err);

/* Free the buffer that was read. */
void ground_close(void);

#endif
