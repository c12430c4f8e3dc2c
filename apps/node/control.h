/* SPDX-License-Identifier: BSD-3-Clause */
/* The conversation of docs/internals/node-protocol.md. */
#ifndef CONTROL_H
#define CONTROL_H

#include <signal.h>

#include "conversation.h"

/*
 * Say hello on `out` and answer requests from `in` until `quit`, end of input, *stop or the death of the parent. `own`: a request
 * beside those of the node; NULL: none. Returns 0, -ETIMEDOUT when an lcore hangs (nothing that it uses may be freed), or -errno
 * when `in` or `out` cannot be used.
 */
int control_run(int in, int out, const struct conversation_command *own, const volatile sig_atomic_t *stop);

#endif
