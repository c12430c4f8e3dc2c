/* SPDX-License-Identifier: BSD-3-Clause */
#include "crew.h"

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
#include "worker.h"

#define WORKERS_MOST   512
#define TRIAL_NAME_MAX 128
#define FOOTPRINT_MOST ((uint64_t)1 << 42)
#define TIME_MOST_NS   ((uint64_t)24 * 3600 * 1000000000)
/* How soon it is noticed that stress-ng has ended. */
#define LOOK_MS 100

/* A place in the crew: a thread of this process, or stress-ng. */
struct place {
	enum work_kind kind;
	struct worker worker; /* its name and cpu also for stress-ng */
	struct stress_ng stress;
};

enum phase { PHASE_IDLE, PHASE_OPEN, PHASE_WARMUP, PHASE_WINDOW, PHASE_OVER };

static struct {
	struct place *place;
	size_t n;
	enum phase phase;
	int timer;
	char trial[TRIAL_NAME_MAX + 1];
	uint64_t window_ns;
	uint64_t start_tsc; /* of the window; 0: none yet */
	uint64_t end_tsc;
} crew = {.timer = -1};

int crew_open(void)
{
	crew.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return crew.timer < 0 ? -errno : 0;
}

static void stop_all(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (crew.place[i].kind == WORK_STRESS_NG)
			stress_ng_stop(&crew.place[i].stress);
		else
			worker_stop(&crew.place[i].worker);
	}
}

static void dismiss(struct place *place, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (place[i].kind == WORK_STRESS_NG)
			stress_ng_close(&place[i].stress);
		else
			worker_close(&place[i].worker);
	}
	free(place);
}

void crew_close(void)
{
	if (crew_busy())
		stop_all(crew.n);
	dismiss(crew.place, crew.n);
	crew.place = NULL;
	crew.n = 0;
	if (crew.timer >= 0)
		close(crew.timer);
	crew.timer = -1;
}

bool crew_busy(void)
{
	return crew.phase == PHASE_OPEN || crew.phase == PHASE_WARMUP || crew.phase == PHASE_WINDOW;
}

/* The keys that each kind of work has besides name, cpu and work. */
static int check_keys(const json_t *object, const char *at, enum work_kind kind, struct node_error *err)
{
	static const char *const keys[WORK_KINDS][6] = {
	        [WORK_MATMUL] = {"name", "cpu", "work", "footprint_bytes"},
	        [WORK_POINTER_CHASE] = {"name", "cpu", "work", "footprint_bytes", "seed"},
	        [WORK_MEMORY_STREAM] = {"name", "cpu", "work", "footprint_bytes", "operation"},
	        [WORK_SPIN] = {"name", "cpu", "work", "footprint_bytes"},
	        [WORK_STRESS_NG] = {"name", "cpu", "work", "stressor"},
	};

	return fields_only(object, at, keys[kind], err);
}

static int read_name(const json_t *object, const char *at, struct place *place, struct node_error *err)
{
	const char *name = NULL;

	if (fields_require(object, at, "name", err) ||
	    fields_string(object, at, "name", WORKER_NAME_MAX, &name, err))
		return -1;
	snprintf(place->worker.name, sizeof(place->worker.name), "%s", name);
	return 0;
}

static int read_cpu(const json_t *object, const char *at, struct place *place, struct node_error *err)
{
	uint64_t cpu = 0;
	cpu_set_t allowed;
	char path[160];

	if (fields_require(object, at, "cpu", err) ||
	    fields_u64(object, at, "cpu", 0, CPU_SETSIZE - 1, &cpu, err))
		return -1;
	node_where(path, sizeof(path), at, "cpu");
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0 || !CPU_ISSET((int)cpu, &allowed))
		return node_fail(err, path, "there is no CPU %u here, or it may not be used",
		                 (unsigned int)cpu);
	place->worker.cpu = place->stress.cpu = (unsigned int)cpu;
	return 0;
}

static int read_kind(const json_t *object, const char *at, enum work_kind *kind, struct node_error *err)
{
	unsigned int choice = 0;

	if (fields_require(object, at, "work", err) ||
	    fields_choice(object, at, "work", work_names, &choice, err))
		return -1;
	*kind = (enum work_kind)choice;
	return check_keys(object, at, *kind, err);
}

static int read_work(const json_t *object, const char *at, struct work_request *work, struct node_error *err)
{
	uint64_t bytes = 0;
	unsigned int operation = STREAM_COPY;

	if (fields_u64(object, at, "footprint_bytes", 1, FOOTPRINT_MOST, &bytes, err) ||
	    fields_u64(object, at, "seed", 0, INT64_MAX, &work->seed, err) ||
	    fields_choice(object, at, "operation", stream_operations, &operation, err))
		return -1;
	work->footprint_bytes = bytes;
	work->operation = (enum stream_operation)operation;
	return 0;
}

/* It becomes an option of stress-ng, so it must look like the name of a stressor. */
static int read_stressor(const json_t *object, const char *at, struct place *place, struct node_error *err)
{
	const char *absent = stress_ng_absent(), *stressor = "cpu";
	char path[160];

	if (fields_string(object, at, "stressor", STRESSOR_NAME_MAX, &stressor, err))
		return -1;
	node_where(path, sizeof(path), at, "stressor");
	if (stressor[strspn(stressor, "abcdefghijklmnopqrstuvwxyz0123456789-")] || *stressor == '-')
		return node_fail(err, path,
		                 "must be made of a-z, 0-9 and -, and begin with a letter or digit");
	if (absent)
		return node_fail(err, at, "%s", absent);
	snprintf(place->stress.stressor, sizeof(place->stress.stressor), "%s", stressor);
	place->stress.metrics = -1;
	return 0;
}

static int check_alone(const struct place *places, size_t i, const char *at, struct node_error *err)
{
	for (size_t other = 0; other < i; other++) {
		if (places[other].worker.cpu == places[i].worker.cpu)
			return node_fail(err, at, "CPU %u has a worker already (%s)", places[i].worker.cpu,
			                 places[other].worker.name);
		if (strcmp(places[other].worker.name, places[i].worker.name) == 0)
			return node_fail(err, at, "the name %s is there twice", places[i].worker.name);
	}
	return 0;
}

static int engage(struct place *places, size_t i, const json_t *object, struct node_error *err)
{
	struct work_request work = {.seed = 1};
	struct place *place = &places[i];
	char at[32];

	snprintf(at, sizeof(at), "workers[%zu]", i);
	if (!json_is_object(object))
		return node_fail(err, at, "must be an object");
	if (read_kind(object, at, &place->kind, err) || read_name(object, at, place, err) ||
	    read_cpu(object, at, place, err) || check_alone(places, i, at, err))
		return -1;
	if (place->kind == WORK_STRESS_NG)
		return read_stressor(object, at, place, err);
	work.kind = place->kind;
	return read_work(object, at, &work, err) || worker_open(&place->worker, &work, at, err) ? -1 : 0;
}

static json_t *describe(const struct place *place)
{
	if (place->kind != WORK_STRESS_NG)
		return worker_describe(&place->worker);
	return json_pack("{s:s,s:i,s:s,s:s,s:s}", "name", place->worker.name, "cpu", (int)place->worker.cpu,
	                 "work", work_names[place->kind], "unit", "bogo_ops", "stressor",
	                 place->stress.stressor);
}

static json_t *describe_all(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < crew.n; i++)
		json_array_append_new(list, describe(&crew.place[i]));
	return json_pack("{s:o}", "workers", list);
}

/* The present crew stays when the new one is refused. */
json_t *crew_configure(json_t *request, struct node_error *err)
{
	static const char *const keys[] = {"cmd", "id", "workers", NULL};
	const json_t *list = json_object_get(request, "workers");
	const size_t n = json_array_size(list);

	if (fields_only(request, "", keys, err) || fields_require(request, "", "workers", err))
		return NULL;
	if (!json_is_array(list) || n > WORKERS_MOST) {
		node_fail(err, "workers", "must be a list of at most %d", WORKERS_MOST);
		return NULL;
	}
	struct place *places = calloc(n ? n : 1, sizeof(*places));

	if (!places) {
		node_fail(err, "workers", "no memory");
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		if (engage(places, i, json_array_get(list, i), err) == 0)
			continue;
		dismiss(places, i);
		return NULL;
	}
	dismiss(crew.place, crew.n);
	crew.place = places;
	crew.n = n;
	crew.phase = PHASE_IDLE;
	return describe_all();
}

static int start_one(size_t i, struct node_error *err)
{
	struct place *place = &crew.place[i];
	char at[32];

	snprintf(at, sizeof(at), "workers[%zu]", i);
	if (place->kind == WORK_STRESS_NG)
		return stress_ng_start(&place->stress, at, err);
	const int status = worker_start(&place->worker);

	return status < 0 ? node_fail(err, at, "no thread: %s", strerror(-status)) : 0;
}

static int arm(uint64_t ns)
{
	const struct itimerspec when = {
	        .it_value = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}};

	return timerfd_settime(crew.timer, 0, &when, NULL);
}

static int read_start(const json_t *request, uint64_t *warmup_ns, uint64_t *window_ns, struct node_error *err)
{
	static const char *const keys[] = {"cmd", "id", "trial", "warmup_ns", "window_ns", NULL};
	const char *trial = "";

	if (fields_only(request, "", keys, err) ||
	    fields_string(request, "", "trial", TRIAL_NAME_MAX, &trial, err) ||
	    fields_u64(request, "", "warmup_ns", 1, TIME_MOST_NS, warmup_ns, err) ||
	    fields_u64(request, "", "window_ns", 1, TIME_MOST_NS, window_ns, err))
		return -1;
	snprintf(crew.trial, sizeof(crew.trial), "%s", trial);
	if (*warmup_ns && !*window_ns)
		return node_fail(err, "window_ns", "is required beside warmup_ns");
	return 0;
}

json_t *crew_start(json_t *request, struct node_error *err)
{
	uint64_t warmup_ns = 0, window_ns = 0;

	if (read_start(request, &warmup_ns, &window_ns, err) < 0)
		return NULL;
	crew.start_tsc = crew.end_tsc = 0;
	crew.window_ns = window_ns;
	for (size_t i = 0; i < crew.n; i++) {
		if (start_one(i, err) == 0)
			continue;
		stop_all(i);
		return NULL;
	}
	for (size_t i = 0; i < crew.n; i++)
		if (crew.place[i].kind != WORK_STRESS_NG)
			worker_wait_begun(&crew.place[i].worker);
	/* 1 ns: a timer of 0 is never due */
	crew.phase = window_ns && arm(warmup_ns ? warmup_ns : 1) == 0 ? PHASE_WARMUP : PHASE_OPEN;
	return json_object();
}

/* Stop everybody; the window that is open ends here. */
static void end_trial(void)
{
	if (crew.phase == PHASE_WINDOW)
		crew.end_tsc = clock_tsc();
	crew.phase = PHASE_OVER;
	stop_all(crew.n);
}

json_t *crew_stop(json_t *request, struct node_error *err)
{
	if (conversation_bare(request, err))
		return NULL;
	if (!crew_busy()) {
		node_fail(err, "cmd", "no trial is running");
		return NULL;
	}
	end_trial();
	return json_object();
}

int crew_wake_fd(void)
{
	return crew.timer;
}

static const struct place *find_dead(void)
{
	for (size_t i = 0; i < crew.n; i++)
		if (crew.place[i].kind == WORK_STRESS_NG && stress_ng_died(&crew.place[i].stress))
			return &crew.place[i];
	return NULL;
}

int crew_timeout_ms(void)
{
	for (size_t i = 0; crew_busy() && i < crew.n; i++)
		if (crew.place[i].kind == WORK_STRESS_NG)
			return LOOK_MS;
	return -1;
}

json_t *crew_step(void)
{
	const struct place *dead = crew_busy() ? find_dead() : NULL;
	uint64_t times;

	if (dead) {
		end_trial();
		return json_pack("{s:s,s:s,s:s}", "event", "failed", "trial", crew.trial, "error",
		                 dead->stress.problem);
	}
	if (read(crew.timer, &times, sizeof(times)) != sizeof(times))
		return NULL;
	if (crew.phase == PHASE_WARMUP) {
		crew.start_tsc = clock_tsc();
		crew.phase = PHASE_WINDOW;
		arm(crew.window_ns);
		return NULL;
	}
	if (crew.phase != PHASE_WINDOW)
		return NULL;
	end_trial();
	return json_pack("{s:s,s:s}", "event", "done", "trial", crew.trial);
}

static json_t *live(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < crew.n; i++) {
		const struct worker *worker = &crew.place[i].worker;
		json_t *entry = describe(&crew.place[i]);

		if (crew.place[i].kind != WORK_STRESS_NG)
			json_object_set_new(entry, "done",
			                    json_real((double)atomic_load(&worker->done) /
			                              (double)worker->work.per_unit));
		json_array_append_new(list, entry);
	}
	return json_pack("{s:s,s:s,s:o}", "state", "running", "trial", crew.trial, "workers", list);
}

static json_t *result_of(size_t i, uint64_t start_tsc, uint64_t end_tsc, struct node_error *err)
{
	const struct place *place = &crew.place[i];
	char at[32];

	if (place->kind != WORK_STRESS_NG)
		return worker_result(&place->worker, start_tsc, end_tsc, err);
	snprintf(at, sizeof(at), "workers[%zu]", i);
	json_t *measured = stress_ng_result(&place->stress, at, err),
	       *result = measured ? describe(place) : NULL;

	if (result)
		json_object_update(result, measured);
	json_decref(measured);
	return result;
}

static json_t *results(uint64_t start_tsc, uint64_t end_tsc, struct node_error *err)
{
	json_t *list = json_array();

	for (size_t i = 0; i < crew.n; i++) {
		json_t *result = result_of(i, start_tsc, end_tsc, err);

		if (!result) {
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, result);
	}
	return json_pack("{s:s,s:s,s:{s:I,s:I,s:I},s:o}", "state", "done", "trial", crew.trial, "window",
	                 "start_tsc", (json_int_t)start_tsc, "end_tsc", (json_int_t)end_tsc, "tsc_hz",
	                 (json_int_t)clock_tsc_hz(), "workers", list);
}

json_t *crew_read(json_t *request, struct node_error *err)
{
	static const char *const keys[] = {"cmd", "id", "start_tsc", "end_tsc", NULL};
	uint64_t start_tsc = crew.start_tsc, end_tsc = crew.end_tsc;

	if (fields_only(request, "", keys, err) ||
	    fields_u64(request, "", "start_tsc", 1, INT64_MAX, &start_tsc, err) ||
	    fields_u64(request, "", "end_tsc", 1, INT64_MAX, &end_tsc, err))
		return NULL;
	if (crew_busy())
		return live();
	if (crew.phase == PHASE_IDLE) {
		node_fail(err, "cmd", "there was no trial yet");
		return NULL;
	}
	if (!start_tsc || !end_tsc || end_tsc <= start_tsc) {
		node_fail(
		        err, "start_tsc",
		        "the trial had no window of its own, so start_tsc and a later end_tsc are required");
		return NULL;
	}
	return results(start_tsc, end_tsc, err);
}
