/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONFIGURE_H
#define CONFIGURE_H

#include <jansson.h>

#include "node_error.h"

/*
 * Handle a configure request: parse all of it, resolve all of it, then apply it. The reply, or NULL with err: a request that
 * cannot be parsed or resolved leaves everything as it was, one that cannot be applied leaves no roles.
 */
json_t *configure(json_t *request, struct node_error *err);

#endif
