/* SPDX-License-Identifier: BSD-3-Clause */
/* A dispatcher reads its RX queues and puts every burst into poller->ring. */
#ifndef DISPATCHER_H
#define DISPATCHER_H

#include "loop/poller.h"

/* Mode sampled, like the workers that take from the ring. */
extern const poll_loop_fn dispatcher_loop;

#endif
