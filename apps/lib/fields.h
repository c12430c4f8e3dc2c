/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strict reading of JSON objects: unknown keys, wrong types and values out of range are errors that name the place. If the key
 * is absent, *value is unchanged, so the caller sets defaults before the call. `at` is the JSON path of `object` ("dut",
 * "ports[0]", "" for the request itself). Each function returns 0, or -1 with `err` filled.
 */
#ifndef FIELDS_H
#define FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "node_error.h"

/* Check that `object` is an object and has no key outside `keys` (NULL-terminated). */
int fields_only(const json_t *object, const char *at, const char *const keys[], struct node_error *err);

/* Check that `object` has `key`. */
int fields_require(const json_t *object, const char *at, const char *key, struct node_error *err);

/* Read an integer in [min, max]. */
int fields_u64(const json_t *object, const char *at, const char *key, uint64_t min, uint64_t max,
               uint64_t *value, struct node_error *err);

/* Read an integer or a real in [min, max]. */
int fields_real(const json_t *object, const char *at, const char *key, double min, double max, double *value,
                struct node_error *err);

/* Read a string of 1..max_length bytes; *value points into `object`. */
int fields_string(const json_t *object, const char *at, const char *key, size_t max_length,
                  const char **value, struct node_error *err);

/* Read one of `names` (NULL-terminated); *value becomes its index. */
int fields_choice(const json_t *object, const char *at, const char *key, const char *const names[],
                  unsigned int *value, struct node_error *err);

#endif
