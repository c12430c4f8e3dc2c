/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"

/* 1 ms: a border is right to a thousandth of a window of 1 s, and the marks cost next to nothing. */
#define MARKS_A_SECOND 1000

const char *const worker_schedulings[] = {"normal", "idle", NULL};

static int pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

int worker_thread_open(struct worker_thread *worker, const struct work_request *request, const char *at,
                       struct node_error *err)
{
	cpu_set_t before;

	if (sched_getaffinity(0, sizeof(before), &before) < 0 || pin(worker->cpu) < 0)
		return node_fail(err, at, "CPU %u cannot be used: %s", worker->cpu, strerror(errno));
	const int status = work_open(&worker->work, request, at, err);

	sched_setaffinity(0, sizeof(before), &before);
	if (status < 0)
		return -1;
	if (marks_open(&worker->marks, clock_tsc_hz() / MARKS_A_SECOND) < 0) {
		work_close(&worker->work);
		return node_fail(err, at, "no memory for the marks");
	}
	return 0;
}

void worker_thread_close(struct worker_thread *worker)
{
	marks_close(&worker->marks);
	work_close(&worker->work);
}

/* Open only instructions and cycles, because more counters would be multiplexed. */
static void open_pmu(struct pmu *pmu)
{
	struct pmu_event events[PMU_COUNTERS];

	pmu_events_of_host(events);
	for (int i = 0; i < PMU_COUNTERS; i++)
		if (i != PMU_INSTRUCTIONS && i != PMU_CYCLES)
			events[i].type = PMU_NO_EVENT;
	pmu_open(pmu, events);
}

/* Read the second field of schedstat; 0 in a kernel without it. */
static uint64_t waited_ns(int schedstat)
{
	char text[96] = {0};
	uint64_t ran, waited;

	if (schedstat < 0 || pread(schedstat, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	return sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2 ? waited : 0;
}

static void add_mark(struct worker_thread *worker, uint64_t tsc, uint64_t done, uint64_t longest_cycles)
{
	struct mark mark = {.tsc = tsc, .longest_cycles = longest_cycles};
	struct pmu_reading reading;

	mark.count[MARK_DONE] = done;
	mark.count[MARK_WAITED] = waited_ns(worker->schedstat);
	frequency_read(&worker->frequency, tsc, clock_tsc_hz(), &mark.count[MARK_CORE],
	               &mark.count[MARK_BASE]);
	if (worker->pmu.any) {
		pmu_read(&worker->pmu, &reading);
		mark.count[MARK_INSTRUCTIONS] = reading.value[PMU_INSTRUCTIONS];
		mark.count[MARK_CYCLES] = reading.value[PMU_CYCLES];
	}
	marks_add(&worker->marks, &mark);
	atomic_store_explicit(&worker->done, done, memory_order_relaxed);
}

static void work_on(struct worker_thread *worker)
{
	uint64_t done = 0, longest = 0, last = clock_tsc();

	add_mark(worker, last, done, 0);
	sem_post(&worker->begun);
	/* one more step after the end is seen, so that the last mark lies behind it */
	for (bool stop = false; !stop;) {
		stop = atomic_load_explicit(&worker->stop, memory_order_acquire);
		done += worker->work.step(&worker->work);
		const uint64_t now = clock_tsc(), took = now - last;

		longest = took > longest ? took : longest;
		last = now;
		if (marks_due(&worker->marks, now)) {
			add_mark(worker, now, done, longest);
			longest = 0;
		}
	}
	if (last > worker->marks.mark[worker->marks.n - 1].tsc)
		add_mark(worker, last, done, longest);
}

static int open_schedstat(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)gettid());
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void *run(void *argument)
{
	struct worker_thread *worker = argument;
	const struct sched_param none = {0};
	struct rusage usage;

	worker->pinned =
	        pin(worker->cpu) == 0 && (!worker->idle || sched_setscheduler(0, SCHED_IDLE, &none) == 0);
	if (!worker->pinned) {
		sem_post(&worker->begun);
		return NULL;
	}
	open_pmu(&worker->pmu);
	frequency_open(&worker->frequency, worker->cpu);
	worker->schedstat = open_schedstat();
	work_on(worker);
	if (getrusage(RUSAGE_THREAD, &usage) == 0)
		worker->involuntary_switches = usage.ru_nivcsw;
	if (worker->schedstat >= 0)
		close(worker->schedstat);
	frequency_close(&worker->frequency);
	pmu_close(&worker->pmu);
	return NULL;
}

int worker_thread_start(struct worker_thread *worker)
{
	marks_clear(&worker->marks, clock_tsc_hz() / MARKS_A_SECOND);
	atomic_store(&worker->stop, false);
	atomic_store(&worker->done, 0);
	worker->involuntary_switches = 0;
	sem_init(&worker->begun, 0, 0);
	return -pthread_create(&worker->thread, NULL, run, worker);
}

void worker_thread_wait_begun(struct worker_thread *worker)
{
	while (sem_wait(&worker->begun) < 0)
		; /* a signal: it is handled after the reply */
}

void worker_thread_stop(struct worker_thread *worker)
{
	atomic_store(&worker->stop, true);
	pthread_join(worker->thread, NULL);
}

json_t *worker_thread_describe(const struct worker_thread *worker)
{
	const struct work *work = &worker->work;

	return json_pack("{s:s,s:i,s:s,s:s,s:s,s:I,s:I}", "name", worker->name, "cpu", (int)worker->cpu,
	                 "scheduling", worker_schedulings[worker->idle], "work", work_names[work->kind],
	                 "unit", work->unit, "footprint_bytes", (json_int_t)work->footprint_bytes,
	                 "huge_bytes", (json_int_t)work->huge_bytes);
}

static json_t *absent(const char *reason)
{
	return json_pack("{s:s+}", "absent", reason, "");
}

static json_t *pmu_json(const struct worker_thread *worker, const struct marks_window *window)
{
	const struct pmu *pmu = &worker->pmu;

	if (*pmu->reason[PMU_CYCLES] || *pmu->reason[PMU_INSTRUCTIONS])
		return absent(pmu->reason[*pmu->reason[PMU_CYCLES] ? PMU_CYCLES : PMU_INSTRUCTIONS]);
	if (window->count[MARK_CYCLES] <= 0)
		return absent("the counters were not on the PMU in the window");
	return json_pack("{s:f,s:f}", "instructions", window->count[MARK_INSTRUCTIONS], "cycles",
	                 window->count[MARK_CYCLES]);
}

static json_t *frequency_json(const struct worker_thread *worker, const struct marks_window *window)
{
	const struct frequency *frequency = &worker->frequency;

	if (frequency->source == FREQUENCY_ABSENT)
		return absent(frequency->reason);
	if (window->count[MARK_BASE] <= 0 || window->count[MARK_CORE] <= 0)
		return absent("the processor's counters of its frequency do not move");
	return json_real((double)clock_tsc_hz() * window->count[MARK_CORE] / window->count[MARK_BASE]);
}

static json_t *window_json(const struct worker_thread *worker, const struct marks_window *window)
{
	const double per_unit = (double)worker->work.per_unit, longest = (double)window->longest_cycles;
	json_t *waited = worker->schedstat < 0 ? absent("the kernel does not count waiting (no schedstat)")
	                                       : json_real(window->count[MARK_WAITED]);

	return json_pack("{s:f,s:f,s:I,s:o,s:o,s:s,s:o,s:I}", "done", window->count[MARK_DONE] / per_unit,
	                 "longest_step_ns", longest / (double)clock_tsc_hz() * 1e9, "marks",
	                 (json_int_t)window->marks, "pmu", pmu_json(worker, window), "frequency_hz",
	                 frequency_json(worker, window), "frequency_source",
	                 frequency_sources[worker->frequency.source], "waited_ns", waited,
	                 "involuntary_switches", (json_int_t)worker->involuntary_switches);
}

json_t *worker_thread_result(const struct worker_thread *worker, uint64_t start_tsc, uint64_t end_tsc,
                             struct node_error *err)
{
	struct marks_window window;

	if (!worker->pinned) {
		node_fail(err, worker->name, "could not be bound to CPU %u, or idle there", worker->cpu);
		return NULL;
	}
	if (!marks_cut(&worker->marks, start_tsc, end_tsc, &window)) {
		node_fail(err, "start_tsc", "%s did not work through all of the window", worker->name);
		return NULL;
	}
	json_t *result = worker_thread_describe(worker), *measured = window_json(worker, &window);

	json_object_update(result, measured);
	json_decref(measured);
	return result;
}
