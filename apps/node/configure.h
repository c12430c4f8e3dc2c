/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONFIGURE_H
#define CONFIGURE_H

#include <jansson.h>

#include "node_error.h"

/*
 * Handle a configure request: parse all of it, resolve all of it, then apply it. Returns the reply, or NULL with err. A request
 * that cannot be parsed or resolved changes nothing; one that cannot be applied leaves no roles.
 */
json_t *configure(json_t *request, struct node_error *err);

#endif
