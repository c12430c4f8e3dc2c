/* SPDX-License-Identifier: BSD-3-Clause */
/* pollscope-corunner works beside the DUT, as requests on standard input say (docs/internals/corunner-protocol.md). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conversation.h"
#include "hello.h"
#include "stop_signals.h"
#include "workers.h"

static const struct conversation_command commands[] = {
        {.name = "configure", .handle = workers_configure},
        {.name = "start", .handle = workers_start},
        {"read", workers_read, .while_running = true},
        {"stop", workers_stop, .bare = true, .while_running = true},
        CONVERSATION_QUIT,
        {0},
};

static const struct conversation_program corunner = {
        .commands = commands,
        .hello = hello,
        .busy = workers_busy,
        .wake_fd = workers_wake_fd,
        .timeout_ms = workers_timeout_ms,
        .step = workers_step,
};

int main(int argc, char *argv[])
{
	if (argc > 1) {
		fprintf(stderr, "pollscope-corunner: unknown argument %s\nusage: pollscope-corunner\n",
		        argv[1]);
		return 2;
	}
	const volatile sig_atomic_t *const stop = stop_signals_catch();
	int status = workers_open();

	if (status == 0)
		status = conversation_run(STDIN_FILENO, STDOUT_FILENO, &corunner, stop);
	workers_close();
	if (status == 0)
		return 0;
	fprintf(stderr, "pollscope-corunner: %s\n", strerror(-status));
	return 1;
}
