/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HELLO_H
#define HELLO_H

#include <jansson.h>

/* The event `hello` of docs/internals/node-protocol.md: what this process and host offer. */
json_t *hello(void);

#endif
