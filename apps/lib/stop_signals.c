/* SPDX-License-Identifier: BSD-3-Clause */
#include "stop_signals.h"

#include <stddef.h>

static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

const volatile sig_atomic_t *stop_signals_catch(void)
{
	/* no SA_RESTART: a sleeping poll() must return */
	struct sigaction end = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGHUP, &end, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	return &stop;
}
