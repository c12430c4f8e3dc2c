/* SPDX-License-Identifier: BSD-3-Clause */
#include "workers.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"
#include "conversation.h"
#include "fields.h"
#include "stress_ng.h"
#include "worker_thread.h"

#define WORKERS_MOST   512
#define TRIAL_NAME_MAX 128
#define FOOTPRINT_MOST ((uint64_t)1 << 42)
#define TIME_MOST_NS   ((uint64_t)24 * 3600 * 1000000000)
/* Within this time the end of stress-ng is noticed. */
#define LOOK_MS 100

/* A thread of this process, or stress-ng. */
struct worker {
	enum work_kind kind;
	struct worker_thread thread; /* name and cpu are also those of stress-ng */
	struct stress_ng stress;
};

enum phase { PHASE_IDLE, PHASE_OPEN, PHASE_WARMUP, PHASE_WINDOW, PHASE_OVER };

static struct {
	struct worker *worker;
	size_t n;
	enum phase phase;
	int timer;
	char trial[TRIAL_NAME_MAX + 1];
	uint64_t window_ns;
	uint64_t start_tsc; /* of the window; 0: none yet */
	uint64_t end_tsc;
} workers = {.timer = -1};

int workers_open(void)
{
	workers.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return workers.timer < 0 ? -errno : 0;
}

static void stop_all(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (workers.worker[i].kind == WORK_STRESS_NG)
			stress_ng_stop(&workers.worker[i].stress);
		else
			worker_thread_stop(&workers.worker[i].thread);
	}
}

static void close_all(struct worker *worker, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (worker[i].kind == WORK_STRESS_NG)
			stress_ng_close(&worker[i].stress);
		else
			worker_thread_close(&worker[i].thread);
	}
	free(worker);
}

void workers_close(void)
{
	if (workers_busy())
		stop_all(workers.n);
	close_all(workers.worker, workers.n);
	workers.worker = NULL;
	workers.n = 0;
	if (workers.timer >= 0)
		close(workers.timer);
	workers.timer = -1;
}

bool workers_busy(void)
{
	return workers.phase == PHASE_OPEN || workers.phase == PHASE_WARMUP || workers.phase == PHASE_WINDOW;
}

/* An element of `workers` as requested. */
struct asked {
	const char *name, *stressor;
	unsigned int cpu, scheduling;
	struct work_request work;
};

#define OF(member) FIELD_OF(struct asked, member)
#define WORKER_FIELDS                                                                                        \
	{"name", FIELD_STRING, OF(name), .max = WORKER_NAME_MAX, .required = true},                          \
	        {"cpu", FIELD_NUMBER, OF(cpu), .max = CPU_SETSIZE - 1, .required = true}, {.key = "work"}
#define THREAD_FIELDS                                                                                        \
	WORKER_FIELDS, {"scheduling", FIELD_CHOICE, OF(scheduling), .names = worker_schedulings},            \
	{                                                                                                    \
		"footprint_bytes", FIELD_NUMBER, OF(work.footprint_bytes), .min = 1, .max = FOOTPRINT_MOST   \
	}

static const struct field fields_of[WORK_KINDS][7] = {
        [WORK_MATMUL] = {THREAD_FIELDS},
        [WORK_POINTER_CHASE] = {THREAD_FIELDS, {"seed", FIELD_NUMBER, OF(work.seed), .max = INT64_MAX}},
        [WORK_MEMORY_STREAM] = {THREAD_FIELDS,
                                {"operation", FIELD_CHOICE, OF(work.operation), .names = stream_operations}},
        [WORK_SPIN] = {THREAD_FIELDS},
        [WORK_STRESS_NG] = {WORKER_FIELDS,
                            {"stressor", FIELD_STRING, OF(stressor), .max = STRESSOR_NAME_MAX}},
};

static int check_cpu(unsigned int cpu, const char *at, struct node_error *err)
{
	cpu_set_t allowed;
	char path[160];

	if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_ISSET(cpu, &allowed))
		return 0;
	return node_fail(err, node_where(path, sizeof(path), at, "cpu"),
	                 "there is no CPU %u here, or it may not be used", cpu);
}

/* It becomes an option of stress-ng, so it must look like the name of a stressor. */
static int set_stressor(struct worker *worker, const char *stressor, const char *at, struct node_error *err)
{
	const char *absent = stress_ng_absent();
	char path[160];

	node_where(path, sizeof(path), at, "stressor");
	if (stressor[strspn(stressor, "abcdefghijklmnopqrstuvwxyz0123456789-")] || *stressor == '-')
		return node_fail(err, path,
		                 "must be made of a-z, 0-9 and -, and begin with a letter or digit");
	if (absent)
		return node_fail(err, at, "%s", absent);
	snprintf(worker->stress.stressor, sizeof(worker->stress.stressor), "%s", stressor);
	worker->stress.metrics = -1;
	return 0;
}

static int check_alone(const struct worker *list, size_t i, const char *at, struct node_error *err)
{
	for (size_t other = 0; other < i; other++) {
		if (list[other].thread.cpu == list[i].thread.cpu)
			return node_fail(err, at, "CPU %u has a worker already (%s)", list[i].thread.cpu,
			                 list[other].thread.name);
		if (strcmp(list[other].thread.name, list[i].thread.name) == 0)
			return node_fail(err, at, "the name %s is used twice", list[i].thread.name);
	}
	return 0;
}

static int open_one(struct worker *list, size_t i, const json_t *object, struct node_error *err)
{
	struct asked asked = {.stressor = "cpu", .work = {.seed = 1, .operation = STREAM_COPY}};
	struct worker *worker = &list[i];
	unsigned int kind = 0;
	char at[32];

	snprintf(at, sizeof(at), "workers[%zu]", i);
	if (!json_is_object(object))
		return node_fail(err, at, "must be an object");
	if (fields_require(object, at, "work", err) ||
	    fields_choice(object, at, "work", work_names, &kind, err) ||
	    fields_read(object, at, fields_of[kind], &asked, err) || check_cpu(asked.cpu, at, err))
		return -1;
	worker->kind = asked.work.kind = (enum work_kind)kind;
	snprintf(worker->thread.name, sizeof(worker->thread.name), "%s", asked.name);
	worker->thread.cpu = worker->stress.cpu = asked.cpu;
	worker->thread.idle = asked.scheduling;
	if (check_alone(list, i, at, err))
		return -1;
	if (worker->kind == WORK_STRESS_NG)
		return set_stressor(worker, asked.stressor, at, err);
	return worker_thread_open(&worker->thread, &asked.work, at, err);
}

static json_t *describe(const struct worker *worker)
{
	if (worker->kind != WORK_STRESS_NG)
		return worker_thread_describe(&worker->thread);
	return json_pack("{s:s,s:i,s:s,s:s,s:s}", "name", worker->thread.name, "cpu", (int)worker->thread.cpu,
	                 "work", work_names[worker->kind], "unit", "bogo_ops", "stressor",
	                 worker->stress.stressor);
}

/* If the new workers are refused, the present ones stay. */
json_t *workers_configure(json_t *request, struct node_error *err)
{
	static const struct field fields[] = {FIELDS_OF_REQUEST, {.key = "workers", .required = true}, {0}};
	const json_t *list = json_object_get(request, "workers");
	const size_t n = json_array_size(list);

	if (fields_read(request, "", fields, NULL, err))
		return NULL;
	if (!json_is_array(list) || n > WORKERS_MOST) {
		node_fail(err, "workers", "must be a list of at most %d", WORKERS_MOST);
		return NULL;
	}
	struct worker *fresh = calloc(n ? n : 1, sizeof(*fresh));

	if (!fresh) {
		node_fail(err, "workers", "no memory");
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		if (open_one(fresh, i, json_array_get(list, i), err) == 0)
			continue;
		close_all(fresh, i);
		return NULL;
	}
	close_all(workers.worker, workers.n);
	workers.worker = fresh;
	workers.n = n;
	workers.phase = PHASE_IDLE;
	json_t *described = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(described, describe(&fresh[i]));
	return json_pack("{s:o}", "workers", described);
}

static int start_one(size_t i, struct node_error *err)
{
	struct worker *worker = &workers.worker[i];
	char at[32];

	snprintf(at, sizeof(at), "workers[%zu]", i);
	if (worker->kind == WORK_STRESS_NG)
		return stress_ng_start(&worker->stress, at, err);
	const int status = worker_thread_start(&worker->thread);

	return status < 0 ? node_fail(err, at, "no thread: %s", strerror(-status)) : 0;
}

static int arm(uint64_t ns)
{
	const struct itimerspec when = {
	        .it_value = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}};

	return timerfd_settime(workers.timer, 0, &when, NULL);
}

struct start {
	const char *trial;
	uint64_t warmup_ns, window_ns;
};

static int read_start(const json_t *request, struct start *start, struct node_error *err)
{
	static const struct field fields[] = {
	        FIELDS_OF_REQUEST,
	        {"trial", FIELD_STRING, FIELD_OF(struct start, trial), .max = TRIAL_NAME_MAX},
	        {"warmup_ns", FIELD_NUMBER, FIELD_OF(struct start, warmup_ns), .min = 1, .max = TIME_MOST_NS},
	        {"window_ns", FIELD_NUMBER, FIELD_OF(struct start, window_ns), .min = 1, .max = TIME_MOST_NS},
	        {0}};

	if (fields_read(request, "", fields, start, err))
		return -1;
	snprintf(workers.trial, sizeof(workers.trial), "%s", start->trial);
	if (start->warmup_ns && !start->window_ns)
		return node_fail(err, "window_ns", "is required beside warmup_ns");
	return 0;
}

json_t *workers_start(json_t *request, struct node_error *err)
{
	struct start start = {.trial = ""};

	if (read_start(request, &start, err) < 0)
		return NULL;
	workers.start_tsc = workers.end_tsc = 0;
	workers.window_ns = start.window_ns;
	for (size_t i = 0; i < workers.n; i++) {
		if (start_one(i, err) == 0)
			continue;
		stop_all(i);
		return NULL;
	}
	for (size_t i = 0; i < workers.n; i++)
		if (workers.worker[i].kind != WORK_STRESS_NG)
			worker_thread_wait_begun(&workers.worker[i].thread);
	/* 1 ns, because a timer of 0 never fires */
	workers.phase = start.window_ns && arm(start.warmup_ns ? start.warmup_ns : 1) == 0 ? PHASE_WARMUP
	                                                                                   : PHASE_OPEN;
	return json_object();
}

/* Stop all workers; an open window ends here. */
static void end_trial(void)
{
	if (workers.phase == PHASE_WINDOW)
		workers.end_tsc = clock_tsc();
	workers.phase = PHASE_OVER;
	stop_all(workers.n);
}

json_t *workers_stop(json_t *request, struct node_error *err)
{
	(void)request;
	if (!workers_busy()) {
		node_fail(err, "cmd", "no trial is running");
		return NULL;
	}
	end_trial();
	return json_object();
}

int workers_wake_fd(void)
{
	return workers.timer;
}

static const struct worker *find_dead(void)
{
	for (size_t i = 0; i < workers.n; i++)
		if (workers.worker[i].kind == WORK_STRESS_NG && stress_ng_died(&workers.worker[i].stress))
			return &workers.worker[i];
	return NULL;
}

int workers_timeout_ms(void)
{
	for (size_t i = 0; workers_busy() && i < workers.n; i++)
		if (workers.worker[i].kind == WORK_STRESS_NG)
			return LOOK_MS;
	return -1;
}

json_t *workers_step(void)
{
	const struct worker *dead = workers_busy() ? find_dead() : NULL;
	uint64_t times;

	if (dead) {
		end_trial();
		return json_pack("{s:s,s:s,s:s}", "event", "failed", "trial", workers.trial, "error",
		                 dead->stress.problem);
	}
	if (read(workers.timer, &times, sizeof(times)) != sizeof(times))
		return NULL;
	if (workers.phase == PHASE_WARMUP) {
		workers.start_tsc = clock_tsc();
		workers.phase = PHASE_WINDOW;
		arm(workers.window_ns);
		return NULL;
	}
	if (workers.phase != PHASE_WINDOW)
		return NULL;
	end_trial();
	return json_pack("{s:s,s:s}", "event", "done", "trial", workers.trial);
}

static json_t *live(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < workers.n; i++) {
		const struct worker_thread *thread = &workers.worker[i].thread;
		json_t *entry = describe(&workers.worker[i]);

		if (workers.worker[i].kind != WORK_STRESS_NG)
			json_object_set_new(entry, "done",
			                    json_real((double)atomic_load(&thread->done) /
			                              (double)thread->work.per_unit));
		json_array_append_new(list, entry);
	}
	return json_pack("{s:s,s:s,s:o}", "state", "running", "trial", workers.trial, "workers", list);
}

static json_t *result_of(size_t i, uint64_t start_tsc, uint64_t end_tsc, struct node_error *err)
{
	const struct worker *worker = &workers.worker[i];
	char at[32];

	if (worker->kind != WORK_STRESS_NG)
		return worker_thread_result(&worker->thread, start_tsc, end_tsc, err);
	snprintf(at, sizeof(at), "workers[%zu]", i);
	json_t *measured = stress_ng_result(&worker->stress, at, err),
	       *result = measured ? describe(worker) : NULL;

	if (result)
		json_object_update(result, measured);
	json_decref(measured);
	return result;
}

static json_t *results(uint64_t start_tsc, uint64_t end_tsc, struct node_error *err)
{
	json_t *list = json_array();

	for (size_t i = 0; i < workers.n; i++) {
		json_t *result = result_of(i, start_tsc, end_tsc, err);

		if (!result) {
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, result);
	}
	return json_pack("{s:s,s:s,s:{s:I,s:I,s:I},s:o}", "state", "done", "trial", workers.trial, "window",
	                 "start_tsc", (json_int_t)start_tsc, "end_tsc", (json_int_t)end_tsc, "tsc_hz",
	                 (json_int_t)clock_tsc_hz(), "workers", list);
}

json_t *workers_read(json_t *request, struct node_error *err)
{
	struct window {
		uint64_t start_tsc, end_tsc;
	} window = {workers.start_tsc, workers.end_tsc};
	static const struct field fields[] = {
	        FIELDS_OF_REQUEST,
	        {"start_tsc", FIELD_NUMBER, FIELD_OF(struct window, start_tsc), .min = 1, .max = INT64_MAX},
	        {"end_tsc", FIELD_NUMBER, FIELD_OF(struct window, end_tsc), .min = 1, .max = INT64_MAX},
	        {0}};

	if (fields_read(request, "", fields, &window, err))
		return NULL;
	if (workers_busy())
		return live();
	if (workers.phase == PHASE_IDLE) {
		node_fail(err, "cmd", "there was no trial yet");
		return NULL;
	}
	if (!window.start_tsc || window.end_tsc <= window.start_tsc) {
		node_fail(
		        err, "start_tsc",
		        "the trial had no window of its own, so start_tsc and a later end_tsc are required");
		return NULL;
	}
	return results(window.start_tsc, window.end_tsc, err);
}
