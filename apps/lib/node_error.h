/* SPDX-License-Identifier: BSD-3-Clause */
/* The one-line error of a refused request: what is wrong, and where in the request (JSON path, "" for the whole). */
#ifndef NODE_ERROR_H
#define NODE_ERROR_H

#include <stdio.h>

struct node_error {
	char text[256];
	char where[128];
};

/* Fill `err` and yield -1, so that a function can `return node_fail(err, "dut.lcores", "lcore %u is unknown", n);`.
 * `where` is a printf string too when it needs to be: build it with node_where() first. */
#define node_fail(err, at, ...)                                                                              \
	(snprintf((err)->where, sizeof((err)->where), "%s", (at)),                                           \
	 snprintf((err)->text, sizeof((err)->text), __VA_ARGS__), -1)

/* The path of `key` below `parent`: "gen" + "frame" -> "gen.frame". Returns `path`. */
static inline const char *
node_where(char *path, size_t size, const char *parent, const char *key)
{
	snprintf(path, size, "%s%s%s", parent, *parent ? "." : "", key);
	return path;
}

#endif
