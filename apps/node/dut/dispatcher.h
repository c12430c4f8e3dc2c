/* SPDX-License-Identifier: BSD-3-Clause */
/* A dispatcher reads its RX queues and hands every burst on through poller->ring. */
#ifndef DISPATCHER_H
#define DISPATCHER_H

#include "loop/poller.h"

/* In mode sampled, as the workers that take from the ring. */
extern const poll_loop_fn dispatcher_loop;

#endif
