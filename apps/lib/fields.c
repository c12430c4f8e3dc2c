/* SPDX-License-Identifier: BSD-3-Clause */
#include "fields.h"

#include <inttypes.h>
#include <string.h>

#define PATH_MAX_BYTES   160
#define CHOICE_MAX_BYTES 64

static bool is_listed(const char *key, const struct field *fields)
{
	for (; fields->key; fields++)
		if (strcmp(key, fields->key) == 0)
			return true;
	return false;
}

/* Append `name` to the list in `text`. Returns the new length. */
static size_t join(char *text, size_t size, size_t used, const char *name)
{
	if (used >= size)
		return used;
	return used + (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
}

static int check_keys(const json_t *object, const char *at, const struct field *fields,
                      struct node_error *err)
{
	char path[PATH_MAX_BYTES], allowed[160] = "";
	size_t used = 0;
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return node_fail(err, at, "must be an object");
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		if (is_listed(key, fields))
			continue;
		for (; fields->key; fields++)
			used = join(allowed, sizeof(allowed), used, fields->key);
		return node_fail(err, node_where(path, sizeof(path), at, key), "unknown key; allowed: %s",
		                 allowed);
	}
	return 0;
}

int fields_require(const json_t *object, const char *at, const char *key, struct node_error *err)
{
	char path[PATH_MAX_BYTES];

	if (!json_object_get(object, key))
		return node_fail(err, node_where(path, sizeof(path), at, key), "is required");
	return 0;
}

/* The members of a struct are little-endian, so that the low bytes of a number fit one of any size. */
static int read_number(const json_t *value, const char *path, const struct field *field, void *member,
                       struct node_error *err)
{
	const json_int_t number = json_integer_value(value);

	if (!json_is_integer(value))
		return node_fail(err, path, "must be an integer");
	if (number < 0 || (uint64_t)number < field->min || (uint64_t)number > field->max)
		return node_fail(err, path,
		                 "must be from %" PRIu64 " to %" PRIu64 ", not %" JSON_INTEGER_FORMAT,
		                 field->min, field->max, number);
	memcpy(member, &number, field->size);
	return 0;
}

static int read_real(const json_t *value, const char *path, const struct field *field, void *member,
                     struct node_error *err)
{
	const double number = json_number_value(value);

	if (!json_is_number(value))
		return node_fail(err, path, "must be a number");
	if (!(number >= 0 && number <= field->most))
		return node_fail(err, path, "must be from 0 to %g, not %g", field->most, number);
	memcpy(member, &number, field->size);
	return 0;
}

static int read_bool(const json_t *value, const char *path, bool *member, struct node_error *err)
{
	if (!json_is_boolean(value))
		return node_fail(err, path, "must be true or false");
	*member = json_is_true(value);
	return 0;
}

static int read_field(const json_t *object, const char *at, const struct field *field, void *member,
                      struct node_error *err)
{
	const json_t *const value = json_object_get(object, field->key);
	char path[PATH_MAX_BYTES];

	node_where(path, sizeof(path), at, field->key);
	if (!value)
		return field->required ? node_fail(err, path, "is required") : 0;
	if (field->nullable && json_is_null(value))
		return 0;
	switch (field->kind) {
	case FIELD_NUMBER:
		return read_number(value, path, field, member, err);
	case FIELD_REAL:
		return read_real(value, path, field, member, err);
	case FIELD_CHOICE:
		return fields_choice(object, at, field->key, field->names, member, err);
	case FIELD_STRING:
		return fields_string(object, at, field->key, field->max, member, err);
	case FIELD_BOOL:
		return read_bool(value, path, member, err);
	case FIELD_OTHER:
		break;
	}
	return 0;
}

int fields_read(const json_t *object, const char *at, const struct field fields[], void *into,
                struct node_error *err)
{
	if (check_keys(object, at, fields, err))
		return -1;
	for (; fields->key; fields++)
		if (read_field(object, at, fields, (char *)into + fields->offset, err))
			return -1;
	return 0;
}

int fields_string(const json_t *object, const char *at, const char *key, size_t max_length,
                  const char **value, struct node_error *err)
{
	const json_t *field = json_object_get(object, key);
	char path[PATH_MAX_BYTES];

	if (!field)
		return 0;
	node_where(path, sizeof(path), at, key);
	if (!json_is_string(field))
		return node_fail(err, path, "must be a string");
	const size_t length = json_string_length(field);

	if (length == 0 || length > max_length || strlen(json_string_value(field)) != length)
		return node_fail(err, path, "must have 1 to %zu bytes and no NUL", max_length);
	*value = json_string_value(field);
	return 0;
}

int fields_choice(const json_t *object, const char *at, const char *key, const char *const names[],
                  unsigned int *value, struct node_error *err)
{
	char path[PATH_MAX_BYTES], allowed[160] = "";
	const char *name = NULL;
	size_t used = 0;

	if (fields_string(object, at, key, CHOICE_MAX_BYTES, &name, err) < 0)
		return -1;
	if (!name)
		return 0;
	for (unsigned int i = 0; names[i]; i++) {
		if (strcmp(name, names[i]) == 0) {
			*value = i;
			return 0;
		}
		used = join(allowed, sizeof(allowed), used, names[i]);
	}
	return node_fail(err, node_where(path, sizeof(path), at, key), "must be one of: %s", allowed);
}
