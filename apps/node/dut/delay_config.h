/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys `extra_cycles`, `service` and `hiccup` of the "dut" object (docs/internals/node-protocol.md). */
#ifndef DELAY_CONFIG_H
#define DELAY_CONFIG_H

#include <jansson.h>

#include "config.h"

#define DELAY_CYCLES_MAX 100000000

/* Fill config->delays, has_service and has_hiccup from config->extra_cycles and the keys of `dut`. Returns 0, or -1 with err. */
int delay_config_read(const json_t *dut, struct dut_config *config, struct node_error *err);

#endif
