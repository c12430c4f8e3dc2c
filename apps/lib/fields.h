/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strict reading of JSON objects by a table of their keys: unknown keys, wrong types and values out of range are errors that
 * name the place. An absent key leaves its value unchanged, so the caller sets defaults before the call. `at` is the JSON path
 * of `object` ("dut", "ports[0]", "" for the request itself). Each function returns 0, or -1 with `err` filled.
 */
#ifndef FIELDS_H
#define FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "node_error.h"

enum field_kind {
	FIELD_OTHER,  /* the caller reads it */
	FIELD_NUMBER, /* an integer in [min, max], for an unsigned member of any size */
	FIELD_REAL,   /* an integer or a real in [0, most], for a double */
	FIELD_CHOICE, /* one of `names`, for an enum: its index */
	FIELD_STRING, /* 1..max bytes, for a const char *: points into the object */
	FIELD_BOOL,
};

struct field {
	const char *key;
	enum field_kind kind;
	size_t offset, size; /* of the member, from FIELD_OF() */
	uint64_t min, max;
	double most;
	const char *const *names; /* NULL-terminated */
	bool required;
	bool nullable; /* null is as good as absent */
};

#define FIELD_OF(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
/* The keys of every request, which begin the table of a request. */
#define FIELDS_OF_REQUEST {.key = "cmd"}, {.key = "id"}

/* Read the keys of `object` into the struct `into`; `fields` ends with an entry without a key. */
int fields_read(const json_t *object, const char *at, const struct field fields[], void *into,
                struct node_error *err);

/* Check that `object` has `key`. */
int fields_require(const json_t *object, const char *at, const char *key, struct node_error *err);

/* Read a string of 1..max_length bytes; *value points into `object`. */
int fields_string(const json_t *object, const char *at, const char *key, size_t max_length,
                  const char **value, struct node_error *err);

/* Read one of `names` (NULL-terminated); *value becomes its index. */
int fields_choice(const json_t *object, const char *at, const char *key, const char *const names[],
                  unsigned int *value, struct node_error *err);

#endif
