/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mempools that were replaced while some of their mbufs still lay in a port's ring. They are freed when the mbufs have
 * come back. For the control thread only.
 */
#ifndef RETIRED_H
#define RETIRED_H

#include <rte_mempool.h>

/* Takes over a pool (NULL: nothing to do), however many wait already, and frees those that are whole again. */
void retired_add(struct rte_mempool *pool);

/* Frees the pools that are whole again. Returns how many still wait. */
unsigned int retired_free(void);

#endif
