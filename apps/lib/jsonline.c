/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonline.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int jsonline_open(struct jsonline_reader *reader, int fd)
{
	*reader = (struct jsonline_reader){.fd = fd, .buffer = malloc(JSONLINE_MAX_BYTES)};
	return reader->buffer ? 0 : -ENOMEM;
}

void jsonline_close(struct jsonline_reader *reader)
{
	free(reader->buffer);
	reader->buffer = NULL;
}

int jsonline_fill(struct jsonline_reader *reader)
{
	memmove(reader->buffer, reader->buffer + reader->start, reader->end - reader->start);
	reader->end -= reader->start;
	reader->start = 0;
	const ssize_t got = read(reader->fd, reader->buffer + reader->end, JSONLINE_MAX_BYTES - reader->end);

	if (got < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	reader->at_end = got == 0;
	reader->end += (size_t)got;
	return 0;
}

/* There is no newline yet: wait for more, or give up on the line. */
static enum jsonline_status incomplete(struct jsonline_reader *reader)
{
	const bool full = reader->end - reader->start == JSONLINE_MAX_BYTES;
	const bool first_report = full && !reader->skipping;

	if (full || reader->skipping) {
		reader->skipping = true;
		reader->start = reader->end = 0;
	}
	if (first_report)
		return JSONLINE_TOO_LONG;
	return reader->at_end ? JSONLINE_END : JSONLINE_NONE;
}

enum jsonline_status jsonline_next(struct jsonline_reader *reader, char **line, size_t *length)
{
	for (;;) {
		char *const begin = reader->buffer + reader->start;
		char *const newline = memchr(begin, '\n', reader->end - reader->start);

		if (!newline)
			return incomplete(reader);
		reader->start = (size_t)(newline + 1 - reader->buffer);
		if (reader->skipping) {
			reader->skipping = false;
			continue;
		}
		*newline = '\0';
		*line = begin;
		*length = (size_t)(newline - begin);
		return JSONLINE_LINE;
	}
}

/* A pipe that poll() reports as writable takes PIPE_BUF bytes without blocking. */
static int write_all(int fd, const char *bytes, size_t length, int patience_ms)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};

	while (length) {
		const int ready = poll(&room, 1, patience_ms);

		if (ready == 0)
			return -ETIMEDOUT;
		const ssize_t done = ready < 0 ? -1 : write(fd, bytes, length < PIPE_BUF ? length : PIPE_BUF);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			bytes += done;
			length -= (size_t)done;
		}
	}
	return 0;
}

int jsonline_write(int fd, json_t *object, int patience_ms)
{
	char *text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	int status = -ENOMEM;

	if (text) {
		const size_t length = strlen(text);

		text[length] = '\n'; /* replaces the NUL */
		status = write_all(fd, text, length + 1, patience_ms);
	}
	free(text);
	json_decref(object);
	return status;
}
