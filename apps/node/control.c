/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"

#include <rte_common.h>

#include "loop/calibrate.h"
#include "configure.h"
#include "conversation.h"
#include "dut/dut.h"
#include "gen/gen.h"
#include "host_state.h"
#include "hello.h"
#include "noise.h"
#include "ports/ports.h"
#include "runner.h"
#include "loop/selftest.h"
#include "state_lock.h"

static json_t *wrap(const char *key, json_t *value)
{
	return value ? json_pack("{s:o}", key, value) : NULL;
}

static json_t *do_calibrate(json_t *request, struct node_error *err)
{
	return wrap("costs", calibrate(dut_rx_poller(), gen_spinning_lcore(), request, err));
}

static json_t *do_selftest(json_t *request, struct node_error *err)
{
	return conversation_bare(request, err) ? NULL : wrap("rows", selftest(err));
}

static json_t *do_noise(json_t *request, struct node_error *err)
{
	return wrap("noise", noise(request, err));
}

static json_t *do_queue_polls(json_t *request, struct node_error *err)
{
	return gen_set_queue_polls(request, err) ? NULL : json_object();
}

static json_t *do_host_state(json_t *request, struct node_error *err)
{
	return wrap("host_state", host_state(request, err));
}

static json_t *do_links(json_t *request, struct node_error *err)
{
	return conversation_bare(request, err) ? NULL : wrap("links", ports_links());
}

static json_t *do_start(json_t *request, struct node_error *err)
{
	return runner_start(request, err) < 0 ? NULL : json_object();
}

static json_t *do_read(json_t *request, struct node_error *err)
{
	return conversation_bare(request, err) ? NULL : runner_read(err);
}

static json_t *do_stop(json_t *request, struct node_error *err)
{
	return conversation_bare(request, err) || runner_stop(err) < 0 ? NULL : json_object();
}

static json_t *do_quit(json_t *request, struct node_error *err)
{
	return conversation_bare(request, err) ? NULL : json_object();
}

static struct conversation_command commands[] = {
        {"configure", configure, false, false},
        {"calibrate", do_calibrate, false, false},
        {"selftest", do_selftest, false, false},
        {"noise", do_noise, false, false},
        {"host_state", do_host_state, false, false},
        {"start", do_start, false, false},
        {"read", do_read, true, false},
        {"stop", do_stop, true, false},
        {"quit", do_quit, true, true},
        {"links", do_links, false, false},
        {"queue_polls", do_queue_polls, true, false},
        {NULL, NULL, false, false}, /* place of `own` */
        {NULL, NULL, false, false},
};

static const struct conversation_program node = {
        .commands = commands,
        .hello = hello,
        .busy = runner_busy,
        .wake_fd = runner_wake_fd,
        .timeout_ms = runner_timeout_ms,
        .step = runner_step,
        .lock = state_lock,
        .unlock = state_unlock,
};

int control_run(int in, int out, const struct conversation_command *own, const volatile sig_atomic_t *stop)
{
	const int status = runner_open();

	if (own)
		commands[RTE_DIM(commands) - 2] = *own;
	if (status < 0)
		return status;
	const int end = conversation_run(in, out, &node, stop);
	const int closed = runner_close();

	return closed < 0 ? closed : end;
}
