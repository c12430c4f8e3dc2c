/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Numbers on the command lines of programs that need no DPDK.
 */
#ifndef ARGUMENT_H
#define ARGUMENT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Read a whole number from `least` to `most`; false for anything else, including signs and white space. */
static inline bool argument_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	char *rest;

	errno = 0;
	*value = strtoull(text, &rest, 10);
	return *text >= '0' && *text <= '9' && *rest == '\0' && errno == 0 && *value >= least &&
	       *value <= most;
}

#endif
