/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "calibrate.h"
#include "configure.h"
#include "fields.h"
#include "hello.h"
#include "jsonline.h"
#include "noise.h"
#include "runner.h"
#include "selftest.h"
#include "state_lock.h"

#define PARENT_LOOK_MS 1000 /* a parent that died without closing our input is noticed so soon */

static const char *const bare_keys[] = {"cmd", "id", NULL};

/* A reply without `id` and `ok` (new reference), or NULL with err. */
typedef json_t *(*handler_fn)(json_t *request, struct node_error *err);

static json_t *do_configure(json_t *request, struct node_error *err)
{
	return configure(request, err);
}

static json_t *wrap(const char *key, json_t *value)
{
	return value ? json_pack("{s:o}", key, value) : NULL;
}

static json_t *do_calibrate(json_t *request, struct node_error *err)
{
	return wrap("costs", calibrate(request, err));
}

static json_t *do_selftest(json_t *request, struct node_error *err)
{
	return fields_only(request, "", bare_keys, err) ? NULL : wrap("rows", selftest(err));
}

static json_t *do_noise(json_t *request, struct node_error *err)
{
	return wrap("noise", noise(request, err));
}

static json_t *do_start(json_t *request, struct node_error *err)
{
	return runner_start(request, err) < 0 ? NULL : json_object();
}

static json_t *do_read(json_t *request, struct node_error *err)
{
	return fields_only(request, "", bare_keys, err) ? NULL : runner_read(err);
}

static json_t *do_stop(json_t *request, struct node_error *err)
{
	return fields_only(request, "", bare_keys, err) || runner_stop(err) < 0 ? NULL : json_object();
}

static json_t *do_quit(json_t *request, struct node_error *err)
{
	return fields_only(request, "", bare_keys, err) ? NULL : json_object();
}

static const struct command {
	const char *name;
	handler_fn handle;
	bool while_running;
	bool quits;
} commands[] = {
        {"configure", do_configure, false, false},
        {"calibrate", do_calibrate, false, false},
        {"selftest", do_selftest, false, false},
        {"noise", do_noise, false, false},
        {"start", do_start, false, false},
        {"read", do_read, true, false},
        {"stop", do_stop, true, false},
        {"quit", do_quit, true, true},
};

static const struct command *find_command(json_t *request, struct node_error *err)
{
	static const char *const names[] = {"configure", "calibrate", "selftest", "noise", "start",
	                                    "read",      "stop",      "quit",     NULL};
	unsigned int i = 0;

	if (fields_require(request, "", "cmd", err) || fields_choice(request, "", "cmd", names, &i, err))
		return NULL;
	if (runner_busy() && !commands[i].while_running) {
		node_fail(err, "cmd", "%s is refused while a trial is running", commands[i].name);
		return NULL;
	}
	return &commands[i];
}

/* Returns the reply; *quit becomes true when it is the last one. */
static json_t *handle(json_t *request, bool *quit)
{
	struct node_error err = {"internal error", ""};
	const struct command *command = find_command(request, &err);
	json_t *reply = NULL, *id = json_object_get(request, "id");

	if (command) {
		state_lock();
		reply = command->handle(request, &err);
		state_unlock();
	}
	*quit = reply && command->quits;
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

struct conversation {
	struct jsonline_reader reader;
	int out;
	bool quit;
};

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
		reply = handle(request, &c->quit);
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

static int step_runner(struct conversation *c)
{
	state_lock();
	json_t *event = runner_step();

	state_unlock();
	return event ? jsonline_write(c->out, event) : 0;
}

static int sleep_ms(void)
{
	const int runner_ms = runner_timeout_ms();

	return runner_ms >= 0 && runner_ms < PARENT_LOOK_MS ? runner_ms : PARENT_LOOK_MS;
}

static int converse(struct conversation *c, const volatile sig_atomic_t *stop)
{
	const pid_t parent = getppid();
	int status = jsonline_write(c->out, hello());

	while (status == 0 && !c->quit && !*stop && getppid() == parent) {
		struct pollfd fds[] = {{.fd = c->reader.fd, .events = POLLIN},
		                       {.fd = runner_wake_fd(), .events = POLLIN}};

		if (poll(fds, 2, sleep_ms()) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents) {
			status = jsonline_fill(&c->reader);
			if (status == 0)
				status = answer_all(c);
		}
		if (status == 0)
			status = step_runner(c);
	}
	return status;
}

int control_run(int in, int out, const volatile sig_atomic_t *stop)
{
	struct conversation c = {.out = out};
	int status = jsonline_open(&c.reader, in);

	if (status < 0)
		return status;
	status = runner_open();
	if (status == 0)
		status = converse(&c, stop);
	runner_close();
	jsonline_close(&c.reader);
	return status;
}
