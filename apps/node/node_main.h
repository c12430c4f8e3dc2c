/* SPDX-License-Identifier: BSD-3-Clause */
/* pollscope-node as a function: apps/tests adds a request that only the tests and benchmarks of the accounting need. */
#ifndef NODE_MAIN_H
#define NODE_MAIN_H

#include "conversation.h"

/* Run the node until its conversation ends and return the exit status. `own`: one request more; NULL: none. */
int node_main(int argc, char *argv[], const struct conversation_command *own);

#endif
