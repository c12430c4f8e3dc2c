/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of an lcore of the generator as the object G of docs/internals/node-protocol.md. */
#ifndef GEN_REPORT_H
#define GEN_REPORT_H

#include <jansson.h>

#include "config.h"
#include "engine.h"

/* Return the report of the lcore at `place`, a new reference. While the loop runs, the window ends now. */
json_t *gen_report_lcore(const struct gen_config *config, struct gen_engine *const *engines,
                         unsigned int place);

#endif
