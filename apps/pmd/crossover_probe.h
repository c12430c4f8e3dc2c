/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CROSSOVER_PROBE_H
#define CROSSOVER_PROBE_H

#include "crossover_port.h"

/* The ethdev of 'port' goes away; the pair's memory goes with the second one. */
void crossover_pair_detach(struct crossover_port *port);

#endif
