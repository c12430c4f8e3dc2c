/* SPDX-License-Identifier: BSD-3-Clause */
/* The one-line error of a refused request: what is wrong, and where in the request (JSON path, "" for the whole). */
#ifndef NODE_ERROR_H
#define NODE_ERROR_H

#include <stddef.h>

struct node_error {
	char text[256];
	char where[128];
};

/*
 * Fill `err` and return -1, for `return node_fail(err, "dut.lcores", "lcore %u is unknown", n);`. Long texts are cut at a
 * character of UTF-8, so that both strings stay valid JSON.
 */
int node_fail(struct node_error *err, const char *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Make the path of `key` below `parent`: "gen" + "frame" -> "gen.frame". Returns `path`. */
const char *node_where(char *path, size_t size, const char *parent, const char *key);

#endif
