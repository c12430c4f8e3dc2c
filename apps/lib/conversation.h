/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of every conversation over standard input and output: requests and replies, `id`, errors, unsolicited events
 * (docs/internals/node-protocol.md, "Requests and replies"). Each program defines its own requests.
 */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include <signal.h>
#include <stdbool.h>
#include <jansson.h>

#include "node_error.h"

struct conversation_command {
	const char *name;
	/* Returns a reply without `id` and `ok` (new reference), or NULL with err; itself NULL: the reply is empty. */
	json_t *(*handle)(json_t *request, struct node_error *err);
	const char *key;    /* under which the reply has what `handle` returns; NULL: that is the reply */
	bool bare;          /* the request has no key besides `cmd` and `id` */
	bool while_running; /* allowed while a trial is running */
	bool quits;         /* the last reply, if it is good */
};

#define CONVERSATION_QUIT {"quit", NULL, .bare = true, .while_running = true, .quits = true}

struct conversation_program {
	const struct conversation_command *commands; /* ends with a command without a name */
	json_t *(*hello)(void);                      /* the first event */
	bool (*busy)(void);                          /* a trial is running */
	int (*wake_fd)(void);                        /* readable when `step` has something to do */
	int (*timeout_ms)(void);                     /* latest time for the next call of `step`; -1: none */
	json_t *(*step)(void);                       /* an event (new reference), or NULL */
	void (*lock)(void);                          /* held around `handle` and `step`; NULL: not needed */
	void (*unlock)(void);
};

/*
 * Say hello on `out`, and answer requests from `in` until one quits, end of input, *stop, the death of the parent or, once
 * `heartbeat_timeout` was requested, a longer silence. Returns 0, or -errno if `in` or `out` cannot be used.
 */
int conversation_run(int in, int out, const struct conversation_program *program,
                     const volatile sig_atomic_t *stop);

#endif
