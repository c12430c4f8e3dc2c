/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much each accounting mode distorts what it measures, on this machine: the loops that trials run, on a net_ring port, fed
 * by the polling lcore itself with one packet every k polls. Rounds of the modes are interleaved; what a mode adds is the median
 * of the differences to mode none in the same round.
 */
#ifndef SELFTEST_H
#define SELFTEST_H

#include <jansson.h>

#include "node_error.h"

/* The array `rows` of the reply to a selftest request, or NULL with err. Takes about a second. */
json_t *selftest(struct node_error *err);

/* The same as a table on `standard output`. Returns the exit status of the program. */
int selftest_print(int fd);

#endif
