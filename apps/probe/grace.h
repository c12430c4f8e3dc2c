/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tell when no thread of this process can be inside a callback that was removed before.
 *
 * A thread that DPDK's poll has taken into a callback runs until it leaves it: callbacks do not sleep. So a thread is outside if, since
 * the removal, it has used 1 ms of CPU time, or sleeps in the kernel, or has ended. A thread that was preempted inside a callback is
 * none of these, however long it waits for a CPU. In a virtual machine, the CPU time of a running thread also grows while the host has
 * stopped its CPU, until the host reports that time as stolen. A period therefore lasts at least 1 s.
 */
#ifndef PROBE_GRACE_H
#define PROBE_GRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begin a grace period for all threads but the caller. Returns 0 or -errno. One period at a time, one thread. */
int probe_grace_begin(void);

/* Return whether the period is over. */
bool probe_grace_over(void);

/* Read the start of a file under /proc/self/task/TID. Returns 0, or -errno and an empty text: -ENOENT if the thread has ended. */
int probe_read_task(int tid, const char *name, char text[], size_t size);

/* Return the array with room for one more element; NULL without memory, then the array is as before. */
void *probe_grown(void *array, uint32_t count, uint32_t *max, size_t size);

#endif
