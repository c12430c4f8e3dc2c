/* SPDX-License-Identifier: BSD-3-Clause */
/* Host noise: gaps in a spin on the TSC, the same on all asked lcores at once. */
#ifndef NOISE_H
#define NOISE_H

#include <jansson.h>

#include "node_error.h"

/* The array `noise` of a noise request, or NULL with err. Blocks (asleep) for the duration asked for. */
json_t *noise(json_t *request, struct node_error *err);

#endif
