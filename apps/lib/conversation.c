/* SPDX-License-Identifier: BSD-3-Clause */
#include "conversation.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fields.h"
#include "jsonline.h"

#define PARENT_LOOK_MS                                                                                       \
	1000 /* the death of a parent that did not close our input is noticed within this time */
#define COMMANDS_MAX            16
#define HEARTBEAT_TIMEOUT       "heartbeat_timeout"
#define HEARTBEAT_TIMEOUT_MAX_S 86400

struct conversation {
	const struct conversation_program *program;
	struct jsonline_reader reader;
	int out;
	int heartbeat_timeout_ms; /* how long the client may be silent; -1: without limit */
	uint64_t silent_ms;
	bool quit;
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The client may exist while its network does not: the host must not stay taken forever. */
static void end_silence(struct conversation *c)
{
	fprintf(stderr, "the client was silent for %d s: ended\n", c->heartbeat_timeout_ms / 1000);
	c->quit = true;
}

/* Write a message. Returns 0, or -errno; a client that does not read any more counts as silent. */
static int say(struct conversation *c, json_t *message)
{
	const int status = jsonline_write(c->out, message, c->heartbeat_timeout_ms);

	if (status != -ETIMEDOUT)
		return status;
	end_silence(c);
	return 0;
}

/* {"cmd":"heartbeat_timeout","silent_s":N}: from now on the client sends something at least every N seconds, or it is considered gone. */
static json_t *set_heartbeat_timeout(struct conversation *c, const json_t *request, struct node_error *err)
{
	static const struct field fields[] = {FIELDS_OF_REQUEST,
	                                      {"silent_s", FIELD_NUMBER, 0, sizeof(int), .min = 1,
	                                       .max = HEARTBEAT_TIMEOUT_MAX_S, .required = true},
	                                      {0}};
	int silent_s = 0;

	if (fields_read(request, "", fields, &silent_s, err))
		return NULL;
	c->heartbeat_timeout_ms = silent_s * 1000;
	return json_object();
}

static const struct conversation_command *find_command(const struct conversation_program *program,
                                                       json_t *request, struct node_error *err)
{
	const char *names[COMMANDS_MAX + 2] = {NULL};
	unsigned int i;

	for (i = 0; i < COMMANDS_MAX && program->commands[i].name; i++)
		names[i] = program->commands[i].name;
	names[i] = HEARTBEAT_TIMEOUT;
	i = 0;
	if (fields_require(request, "", "cmd", err) || fields_choice(request, "", "cmd", names, &i, err))
		return NULL;
	if (program->busy() && !program->commands[i].while_running) {
		node_fail(err, "cmd", "%s is refused while a trial is running", names[i]);
		return NULL;
	}
	return &program->commands[i];
}

static void lock(const struct conversation_program *program)
{
	if (program->lock)
		program->lock();
}

static void unlock(const struct conversation_program *program)
{
	if (program->unlock)
		program->unlock();
}

static json_t *call(const struct conversation_command *command, json_t *request, struct node_error *err)
{
	static const struct field bare[] = {FIELDS_OF_REQUEST, {0}};

	if (command->bare && fields_read(request, "", bare, NULL, err))
		return NULL;
	json_t *const reply = command->handle ? command->handle(request, err) : json_object();

	return reply && command->key ? json_pack("{s:o}", command->key, reply) : reply;
}

static json_t *obey(struct conversation *c, json_t *request, struct node_error *err)
{
	const struct conversation_command *const command = find_command(c->program, request, err);
	json_t *reply;

	if (!command)
		return NULL;
	lock(c->program);
	reply = call(command, request, err);
	unlock(c->program);
	c->quit = reply && command->quits;
	return reply;
}

static json_t *handle(struct conversation *c, json_t *request)
{
	struct node_error err = {"internal error", ""};
	json_t *id = json_object_get(request, "id");
	const char *const name = json_string_value(json_object_get(request, "cmd"));
	json_t *reply = name && strcmp(name, HEARTBEAT_TIMEOUT) == 0 ? set_heartbeat_timeout(c, request, &err)
	                                                             : obey(c, request, &err);

	if (!reply)
		reply = json_pack("{s:b,s:s+,s:s+}", "ok", 0, "error", err.text, "", "where", err.where, "");
	else
		json_object_set_new(reply, "ok", json_true());
	if (id)
		json_object_set(reply, "id", id);
	return reply;
}

static json_t *refuse(const char *text)
{
	return json_pack("{s:b,s:s,s:s}", "ok", 0, "error", text, "where", "");
}

static int answer(struct conversation *c, const char *line, size_t length)
{
	json_error_t where;
	char text[JSON_ERROR_TEXT_LENGTH + 64];
	json_t *request = json_loadb(line, length, JSON_REJECT_DUPLICATES, &where);
	json_t *reply;

	if (!request) {
		snprintf(text, sizeof(text), "not JSON: %s (column %d)", where.text, where.column);
		reply = refuse(text);
	} else if (!json_is_object(request)) {
		reply = refuse("a request must be a JSON object");
	} else {
		reply = handle(c, request);
	}
	json_decref(request);
	return say(c, reply);
}

/* Answer all complete requests. */
static int answer_all(struct conversation *c)
{
	size_t length;
	char *line;
	int status = 0;

	while (status == 0 && !c->quit) {
		switch (jsonline_next(&c->reader, &line, &length)) {
		case JSONLINE_LINE:
			if (length > 0) /* an empty line is only a sign of life */
				status = answer(c, line, length);
			break;
		case JSONLINE_TOO_LONG:
			status = say(c, refuse("a request line is longer than 1 MiB"));
			break;
		case JSONLINE_END:
			c->quit = true;
			break;
		case JSONLINE_NONE:
			return 0;
		}
	}
	return status;
}

static int step(struct conversation *c)
{
	lock(c->program);
	json_t *event = c->program->step();

	unlock(c->program);
	return event ? say(c, event) : 0;
}

static int sleep_ms(const struct conversation_program *program)
{
	const int wanted_ms = program->timeout_ms();

	return wanted_ms >= 0 && wanted_ms < PARENT_LOOK_MS ? wanted_ms : PARENT_LOOK_MS;
}

/* Time in which this program did not run, or was busy, does not count as silence. */
static void count_silence(struct conversation *c, uint64_t since_ms)
{
	const uint64_t passed_ms = now_ms() - since_ms;

	c->silent_ms += passed_ms < PARENT_LOOK_MS ? passed_ms : PARENT_LOOK_MS;
	if (c->heartbeat_timeout_ms >= 0 && c->silent_ms >= (uint64_t)c->heartbeat_timeout_ms)
		end_silence(c);
}

static int converse(struct conversation *c, const volatile sig_atomic_t *stop)
{
	const pid_t parent = getppid();
	int status = say(c, c->program->hello());

	while (status == 0 && !c->quit && !*stop && getppid() == parent) {
		struct pollfd fds[] = {{.fd = c->reader.fd, .events = POLLIN},
		                       {.fd = c->program->wake_fd(), .events = POLLIN}};
		const uint64_t since_ms = now_ms();

		if (poll(fds, 2, sleep_ms(c->program)) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents) {
			c->silent_ms = 0;
			status = jsonline_fill(&c->reader);
			if (status == 0)
				status = answer_all(c);
		} else {
			count_silence(c, since_ms);
		}
		if (status == 0)
			status = step(c);
	}
	return status;
}

int conversation_run(int in, int out, const struct conversation_program *program,
                     const volatile sig_atomic_t *stop)
{
	struct conversation c = {.program = program, .out = out, .heartbeat_timeout_ms = -1};
	int status = jsonline_open(&c.reader, in);

	if (status == 0)
		status = converse(&c, stop);
	jsonline_close(&c.reader);
	return status;
}
