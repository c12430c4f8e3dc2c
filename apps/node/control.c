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
#include "telemetry.h"

static json_t *do_calibrate(json_t *request, struct node_error *err)
{
	return calibrate(dut_rx_poller(), gen_spinning_lcore(), request, err);
}

static json_t *do_selftest(json_t *request, struct node_error *err)
{
	RTE_SET_USED(request);
	return selftest(err);
}

static json_t *do_queue_polls(json_t *request, struct node_error *err)
{
	return gen_set_queue_polls(request, err) ? NULL : json_object();
}

static json_t *do_links(json_t *request, struct node_error *err)
{
	RTE_SET_USED(request);
	RTE_SET_USED(err);
	return ports_links();
}

static json_t *do_start(json_t *request, struct node_error *err)
{
	return runner_start(request, err) < 0 ? NULL : json_object();
}

static json_t *do_read(json_t *request, struct node_error *err)
{
	RTE_SET_USED(request);
	return runner_read(err);
}

static json_t *do_stop(json_t *request, struct node_error *err)
{
	RTE_SET_USED(request);
	return runner_stop(err) < 0 ? NULL : json_object();
}

static struct conversation_command commands[] = {
        {.name = "configure", .handle = configure},
        {"calibrate", do_calibrate, .key = "costs"},
        {"selftest", do_selftest, .bare = true, .key = "rows"},
        {"noise", noise, .key = "noise"},
        {"host_state", host_state, .key = "host_state"},
        {.name = "start", .handle = do_start},
        {"read", do_read, .bare = true, .while_running = true},
        {"stop", do_stop, .bare = true, .while_running = true},
        CONVERSATION_QUIT,
        {"links", do_links, .bare = true, .key = "links"},
        {"queue_polls", do_queue_polls, .while_running = true},
        {0}, /* place of `own` */
        {0},
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
