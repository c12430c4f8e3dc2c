/* SPDX-License-Identifier: BSD-3-Clause */
/* Check that all lcores of the node share one TSC. */
#ifndef TSC_OFFSETS_H
#define TSC_OFFSETS_H

#include <jansson.h>

/*
 * Compare the main lcore with one lcore of every other CPU: `tsc_offsets` of hello (node-protocol.md). Main lcore only,
 * while no lcore runs; takes about a millisecond per CPU.
 */
json_t *tsc_offsets_json(void);

#endif
