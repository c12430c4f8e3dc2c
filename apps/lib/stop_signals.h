/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals with which a user or a terminal ends a program. */
#ifndef STOP_SIGNALS_H
#define STOP_SIGNALS_H

#include <signal.h>

/*
 * From now on SIGINT, SIGTERM and SIGHUP set a flag and interrupt a sleeping poll(). A closed reader is an error of write(),
 * not a signal. Returns the flag: 0 until one of them came.
 */
const volatile sig_atomic_t *stop_signals_catch(void);

#endif
