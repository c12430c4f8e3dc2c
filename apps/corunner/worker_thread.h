/* SPDX-License-Identifier: BSD-3-Clause */
/* One worker that is a thread, on its own CPU. It works from worker_thread_start() to worker_thread_stop() and leaves marks. */
#ifndef WORKER_THREAD_H
#define WORKER_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "frequency.h"
#include "marks.h"
#include "node_error.h"
#include "pmu.h"
#include "work.h"

#define WORKER_NAME_MAX 32

extern const char *const worker_schedulings[]; /* normal, idle (SCHED_IDLE); ends with NULL */

struct worker_thread {
	char name[WORKER_NAME_MAX + 1];
	unsigned int cpu;
	bool idle; /* scheduling idle: works only while no other thread needs the CPU */
	struct work work;
	struct marks marks;
	pthread_t thread;
	atomic_bool stop;
	sem_t begun;               /* posted with the first mark, or if there will be none */
	atomic_uint_fast64_t done; /* for display while it runs */
	/* Written by the thread, read after it has ended. */
	struct pmu pmu;
	struct frequency frequency;
	bool pinned;
	int schedstat; /* -1: the kernel has none */
	long involuntary_switches;
};

/* Make the worker; the memory of its work is made on its CPU. Returns 0, or -1 with err. */
int worker_thread_open(struct worker_thread *worker, const struct work_request *request, const char *at,
                       struct node_error *err);
void worker_thread_close(struct worker_thread *worker);

/* Returns 0 or -errno. */
int worker_thread_start(struct worker_thread *worker);

/* Wait until the worker works. */
void worker_thread_wait_begun(struct worker_thread *worker);

/* Wait until the thread has ended, after its present step. */
void worker_thread_stop(struct worker_thread *worker);

/* Return the worker's element of the reply of `configure`. */
json_t *worker_thread_describe(const struct worker_thread *worker);

/* Return the worker's part of the result of a window, or NULL with err. */
json_t *worker_thread_result(const struct worker_thread *worker, uint64_t start_tsc, uint64_t end_tsc,
                             struct node_error *err);

#endif
