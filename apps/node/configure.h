/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONFIGURE_H
#define CONFIGURE_H

#include <jansson.h>

#include "node_error.h"

/* Handle a configure request: ports, then DUT, then generator. The reply, or NULL with err and without roles. */
json_t *configure(json_t *request, struct node_error *err);

#endif
