/* SPDX-License-Identifier: BSD-3-Clause */
/* One JSON object per line, in and out, on file descriptors. Not thread-safe: the main lcore owns both ends. */
#ifndef JSONLINE_H
#define JSONLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

#define JSONLINE_MAX_BYTES (1u << 20) /* a longer request line is refused and skipped to its end */

struct jsonline_reader {
	int fd;
	char *buffer; /* JSONLINE_MAX_BYTES; [start, end) was read and not yet returned */
	size_t start;
	size_t end;
	bool skipping; /* inside a line that was too long */
	bool at_end;
};

enum jsonline_status {
	JSONLINE_NONE,     /* no complete line yet */
	JSONLINE_LINE,     /* *line is a NUL-terminated line without its newline, valid until the next call */
	JSONLINE_TOO_LONG, /* a line above JSONLINE_MAX_BYTES begins; the rest is skipped */
	JSONLINE_END, /* end of input; a last line without newline is an incomplete request and dropped */
};

/* Returns 0 or -ENOMEM. */
int jsonline_open(struct jsonline_reader *reader, int fd);
void jsonline_close(struct jsonline_reader *reader);

/* Read once from the descriptor (after poll() reports it as readable). Returns 0, or -errno. */
int jsonline_fill(struct jsonline_reader *reader);

/* Take the next line from what was read. *length is the line's length: a NUL byte inside does not shorten it. */
enum jsonline_status jsonline_next(struct jsonline_reader *reader, char **line, size_t *length);

/*
 * Write `object` and a newline completely; takes the reference. Returns 0, or -errno (-EPIPE: no reader; -ETIMEDOUT: nothing
 * was taken for `patience_ms`, -1: without limit).
 */
int jsonline_write(int fd, json_t *object, int patience_ms);

#endif
