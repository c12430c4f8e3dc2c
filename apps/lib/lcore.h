/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LCORE_H
#define LCORE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "node_error.h"

/*
 * Wait asleep until no worker lcore runs a function. rte_eal_wait_lcore() would spin, possibly on the CPU of the lcore that it
 * waits for. Main lcore only.
 */
void lcore_wait_all(void);

/* The same, at most until this TSC value. Returns whether all have returned. */
bool lcore_wait_until(uint64_t limit_tsc);

/* Return whether the lcore still runs the function that it was launched with. Main lcore only. */
bool lcore_is_out(unsigned int lcore);

/* Return the CPU that the lcore is bound to (the first of several): as in `--lcores`, not the lcore's number. */
int lcore_cpu(unsigned int lcore);

bool lcore_is_listed(unsigned int lcore, const unsigned int lcores[], unsigned int n);

/*
 * Read the array `list` of a request at `where`: worker lcores of this process, each once. Returns how many were written to
 * lcores[] (RTE_MAX_LCORE at most), or -1 with err.
 */
int lcore_list(const json_t *list, const char *where, unsigned int lcores[], struct node_error *err);

#endif
