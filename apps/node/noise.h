/* SPDX-License-Identifier: BSD-3-Clause */
/* Host noise: gaps in a spin on the TSC, at the same time on all requested lcores. */
#ifndef NOISE_H
#define NOISE_H

#include <jansson.h>

#include "node_error.h"

/* Return the array `noise` of a noise request, or NULL with err. Blocks (asleep) for the requested duration. */
json_t *noise(json_t *request, struct node_error *err);

#endif
