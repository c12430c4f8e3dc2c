/* SPDX-License-Identifier: BSD-3-Clause */
#include "conversation.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "fields.h"
#include "jsonline.h"

#define PARENT_LOOK_MS 1000 /* a parent that died without closing our input is noticed so soon */
#define COMMANDS_MAX   16

struct conversation {
	const struct conversation_program *program;
	struct jsonline_reader reader;
	int out;
	bool quit;
};

int conversation_bare(const json_t *request, struct node_error *err)
{
	static const char *const keys[] = {"cmd", "id", NULL};

	return fields_only(request, "", keys, err);
}

static const struct conversation_command *find_command(const struct conversation_program *program,
                                                       json_t *request, struct node_error *err)
{
	const char *names[COMMANDS_MAX + 1] = {NULL};
	unsigned int i;

	for (i = 0; i < COMMANDS_MAX && program->commands[i].name; i++)
		names[i] = program->commands[i].name;
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

static json_t *handle(struct conversation *c, json_t *request)
{
	struct node_error err = {"internal error", ""};
	const struct conversation_command *command = find_command(c->program, request, &err);
	json_t *reply = NULL, *id = json_object_get(request, "id");

	if (command) {
		lock(c->program);
		reply = command->handle(request, &err);
		unlock(c->program);
	}
	c->quit = reply && command->quits;
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
	return jsonline_write(c->out, reply);
}

/* Answer all requests that are complete. */
static int answer_all(struct conversation *c)
{
	size_t length;
	char *line;
	int status = 0;

	while (status == 0 && !c->quit) {
		switch (jsonline_next(&c->reader, &line, &length)) {
		case JSONLINE_LINE:
			status = answer(c, line, length);
			break;
		case JSONLINE_TOO_LONG:
			status = jsonline_write(c->out, refuse("a request line is longer than 1 MiB"));
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
	return event ? jsonline_write(c->out, event) : 0;
}

static int sleep_ms(const struct conversation_program *program)
{
	const int wanted_ms = program->timeout_ms();

	return wanted_ms >= 0 && wanted_ms < PARENT_LOOK_MS ? wanted_ms : PARENT_LOOK_MS;
}

static int converse(struct conversation *c, const volatile sig_atomic_t *stop)
{
	const pid_t parent = getppid();
	int status = jsonline_write(c->out, c->program->hello());

	while (status == 0 && !c->quit && !*stop && getppid() == parent) {
		struct pollfd fds[] = {{.fd = c->reader.fd, .events = POLLIN},
		                       {.fd = c->program->wake_fd(), .events = POLLIN}};

		if (poll(fds, 2, sleep_ms(c->program)) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents) {
			status = jsonline_fill(&c->reader);
			if (status == 0)
				status = answer_all(c);
		}
		if (status == 0)
			status = step(c);
	}
	return status;
}

int conversation_run(int in, int out, const struct conversation_program *program,
                     const volatile sig_atomic_t *stop)
{
	struct conversation c = {.program = program, .out = out};
	int status = jsonline_open(&c.reader, in);

	if (status == 0)
		status = converse(&c, stop);
	jsonline_close(&c.reader);
	return status;
}
