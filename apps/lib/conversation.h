/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of every conversation over standard input and output: requests and replies, `id`, errors, unasked events
 * (docs/node-protocol.md, "Requests and replies"). What the requests mean is the program's own.
 */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include <signal.h>
#include <stdbool.h>
#include <jansson.h>

#include "node_error.h"

struct conversation_command {
	const char *name;
	/* A reply without `id` and `ok` (new reference), or NULL with err. */
	json_t *(*handle)(json_t *request, struct node_error *err);
	bool while_running; /* allowed while a trial is running */
	bool quits;         /* a good reply is the last one */
};

struct conversation_program {
	const struct conversation_command *commands; /* ends with a command without name */
	json_t *(*hello)(void);                      /* the first event */
	bool (*busy)(void);                          /* a trial is running */
	int (*wake_fd)(void);                        /* readable when `step` has something to do */
	int (*timeout_ms)(void); /* call `step` at the latest after so long; -1: no need */
	json_t *(*step)(void);   /* an event (new reference), or NULL */
	void (*lock)(void);      /* held around `handle` and `step`; NULL: needs none */
	void (*unlock)(void);
};

/*
 * Say hello on `out`, answer requests from `in` until one quits, end of input, *stop, the death of the parent or, once
 * `heartbeat_timeout` was asked, a silence longer than that. Returns 0, or -errno when `in` or `out` cannot be used.
 */
int conversation_run(int in, int out, const struct conversation_program *program,
                     const volatile sig_atomic_t *stop);

/* 0 when a request has no key besides `cmd` and `id`; -1 with err. */
int conversation_bare(const json_t *request, struct node_error *err);

#endif
