/* SPDX-License-Identifier: BSD-3-Clause */
/* One control thread at a time per pair, across processes. */
#ifndef CROSSOVER_CONTROL_H
#define CROSSOVER_CONTROL_H

#include "crossover_port.h"

#define CROSSOVER_CONTROL_MAX_S 5

/* Returns 0 or -errno. */
int crossover_control_init(struct crossover_pair *pair);

/* Returns 0, or -EBUSY (logged) after CROSSOVER_CONTROL_MAX_S. A holder that died is survived. */
int crossover_control_lock(struct crossover_pair *pair);
void crossover_control_unlock(struct crossover_pair *pair);

#endif
