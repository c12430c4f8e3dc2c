/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measure how much each accounting mode distorts on this machine: the loops of trials run on a net_ring port, and the
 * polling lcore itself feeds one packet every k polls. Rounds of the modes are interleaved. The cost of a mode is the
 * median difference from mode none in the same round.
 */
#ifndef SELFTEST_H
#define SELFTEST_H

#include <jansson.h>

#include "node_error.h"

/* Return the array `rows` of the reply to a selftest request, or NULL with err. Takes about a second. */
json_t *selftest(struct node_error *err);

/* Print the rows as a table to `fd`. Returns the exit status of the program. */
int selftest_print(int fd);

#endif
