/* SPDX-License-Identifier: BSD-3-Clause */
#include "node_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Cut an incomplete UTF-8 sequence (RFC 3629) off the end: continuation bytes are 10xxxxxx, lead bytes give the length. */
static void trim_utf8(char *text)
{
	const size_t length = strlen(text);
	size_t tail = 0;

	while (tail < 3 && tail < length && ((unsigned char)text[length - 1 - tail] & 0xc0) == 0x80)
		tail++;
	if (tail >= length)
		return;
	const unsigned char lead = (unsigned char)text[length - 1 - tail];
	const size_t needed = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;

	if (tail < needed)
		text[length - 1 - tail] = '\0';
}

int node_fail(struct node_error *err, const char *at, const char *format, ...)
{
	va_list arguments;

	snprintf(err->where, sizeof(err->where), "%s", at);
	va_start(arguments, format);
	vsnprintf(err->text, sizeof(err->text), format, arguments);
	va_end(arguments);
	trim_utf8(err->where);
	trim_utf8(err->text);
	return -1;
}

const char *node_where(char *path, size_t size, const char *parent, const char *key)
{
	snprintf(path, size, "%s%s%s", parent, *parent ? "." : "", key);
	trim_utf8(path);
	return path;
}
