/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Periodic arrivals, as distances for a pacer (pacing.h, pacer_gaps()): packets that are due together (bursts), or a constant
 * rate that is switched on and off. The mean rate is that of the trial.
 */
#ifndef GEN_PATTERN_H
#define GEN_PATTERN_H

#include <stdint.h>

#include "config.h"
#include "node_error.h"

#define GEN_PATTERN_PACKETS_MAX (1u << 20)

struct gen_pattern {
	uint32_t *gaps; /* for `packets` packets; the first lies before the first packet */
	uint32_t packets;
	double cycles_per_unit; /* of the gaps */
};

/* Make the pattern of config->arrivals at `pps`. Returns 0, or -1 with err. The caller frees the gaps. */
int gen_pattern_make(const struct gen_config *config, double pps, double tsc_hz, struct gen_pattern *pattern,
                     struct node_error *err);

#endif
