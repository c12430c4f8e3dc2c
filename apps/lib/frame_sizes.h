/* SPDX-License-Identifier: BSD-3-Clause */
/* A mix of frame sizes: the key `frame` of `gen` and `dut` (docs/internals/node-protocol.md). */
#ifndef FRAME_SIZES_H
#define FRAME_SIZES_H

#include <stdint.h>
#include <jansson.h>

#include "node_error.h"

#define FRAME_SIZES_MAX 16

/* One size, FCS included, and its weight against other sizes. */
struct frame_size {
	uint32_t bytes;
	uint32_t weight;
};

struct frame_sizes {
	struct frame_size sizes[FRAME_SIZES_MAX];
	unsigned int count;
};

/* Read `list`, found at the JSON path `at`; NULL leaves *sizes unchanged. Returns 0, or -1 with err. */
int frame_sizes_read(const json_t *list, const char *at, struct frame_sizes *sizes, struct node_error *err);

/* Return the mean size in bytes, FCS included. */
double frame_sizes_mean(const struct frame_sizes *sizes);

/* Return the largest size in bytes, FCS included. */
uint32_t frame_sizes_largest(const struct frame_sizes *sizes);

/* Put the indexes of the sizes into `order`, each as often as its weight says, in random order. */
struct rng;
void frame_sizes_deal(const struct frame_sizes *sizes, struct rng *rng, uint8_t *order, uint32_t count);

#endif
