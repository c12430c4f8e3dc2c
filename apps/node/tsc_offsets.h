/* SPDX-License-Identifier: BSD-3-Clause */
/* One TSC for all lcores of the node: checked, not assumed. */
#ifndef TSC_OFFSETS_H
#define TSC_OFFSETS_H

#include <jansson.h>

/*
 * The main lcore plays with one lcore of every other CPU: `tsc_offsets` of hello (docs/node-protocol.md). Main lcore only, while no
 * lcore runs; takes about a millisecond for each CPU.
 */
json_t *tsc_offsets_json(void);

#endif
