/* SPDX-License-Identifier: BSD-3-Clause */
#include "fields.h"

#include <inttypes.h>
#include <string.h>

#define PATH_MAX_BYTES 160

static const char *path_of(char *path, const char *at, const char *key)
{
	return node_where(path, PATH_MAX_BYTES, at, key);
}

static bool is_listed(const char *key, const char *const keys[])
{
	for (; *keys; keys++)
		if (strcmp(key, *keys) == 0)
			return true;
	return false;
}

static void join_names(char *text, size_t size, const char *const names[])
{
	size_t used = 0;

	text[0] = '\0';
	for (; *names && used < size; names++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", *names);
}

int fields_only(const json_t *object, const char *at, const char *const keys[], struct node_error *err)
{
	char path[PATH_MAX_BYTES], allowed[160];
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return node_fail(err, at, "must be an object");
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		if (is_listed(key, keys))
			continue;
		join_names(allowed, sizeof(allowed), keys);
		return node_fail(err, path_of(path, at, key), "unknown key; allowed: %s", allowed);
	}
	return 0;
}

int fields_require(const json_t *object, const char *at, const char *key, struct node_error *err)
{
	char path[PATH_MAX_BYTES];

	if (!json_object_get(object, key))
		return node_fail(err, path_of(path, at, key), "is required");
	return 0;
}

int fields_u64(const json_t *object, const char *at, const char *key, uint64_t min, uint64_t max,
               uint64_t *value, struct node_error *err)
{
	const json_t *field = json_object_get(object, key);
	char path[PATH_MAX_BYTES];

	if (!field)
		return 0;
	if (!json_is_integer(field))
		return node_fail(err, path_of(path, at, key), "must be an integer");
	const json_int_t number = json_integer_value(field);

	if (number < 0 || (uint64_t)number < min || (uint64_t)number > max)
		return node_fail(err, path_of(path, at, key),
		                 "must be from %" PRIu64 " to %" PRIu64 ", not %" JSON_INTEGER_FORMAT, min,
		                 max, number);
	*value = (uint64_t)number;
	return 0;
}

int fields_real(const json_t *object, const char *at, const char *key, double min, double max, double *value,
                struct node_error *err)
{
	const json_t *field = json_object_get(object, key);
	char path[PATH_MAX_BYTES];

	if (!field)
		return 0;
	if (!json_is_number(field))
		return node_fail(err, path_of(path, at, key), "must be a number");
	const double number = json_number_value(field);

	if (!(number >= min && number <= max))
		return node_fail(err, path_of(path, at, key), "must be from %g to %g, not %g", min, max,
		                 number);
	*value = number;
	return 0;
}

int fields_string(const json_t *object, const char *at, const char *key, size_t max_length,
                  const char **value, struct node_error *err)
{
	const json_t *field = json_object_get(object, key);
	char path[PATH_MAX_BYTES];

	if (!field)
		return 0;
	if (!json_is_string(field))
		return node_fail(err, path_of(path, at, key), "must be a string");
	const size_t length = json_string_length(field);

	if (length == 0 || length > max_length || strlen(json_string_value(field)) != length)
		return node_fail(err, path_of(path, at, key), "must have 1 to %zu bytes and no NUL",
		                 max_length);
	*value = json_string_value(field);
	return 0;
}

int fields_choice(const json_t *object, const char *at, const char *key, const char *const names[],
                  unsigned int *value, struct node_error *err)
{
	char path[PATH_MAX_BYTES], allowed[160];
	const char *name = NULL;

	if (fields_string(object, at, key, 64, &name, err) < 0)
		return -1;
	if (!name)
		return 0;
	for (unsigned int i = 0; names[i]; i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		*value = i;
		return 0;
	}
	join_names(allowed, sizeof(allowed), names);
	return node_fail(err, path_of(path, at, key), "must be one of: %s", allowed);
}
