/* SPDX-License-Identifier: BSD-3-Clause */
#include "grace.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ENOUGH_NS   1000000
#define SHORTEST_NS 1000000000

struct task {
	int tid;
	uint64_t cpu_ns; /* used when the period began */
};

static struct task *tasks; /* not yet seen outside a callback */
static uint32_t tasks_count, tasks_max;
static uint64_t begun_ns;

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Linux: the clock of a thread's CPU time, by its TID (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED). */
static clockid_t cpu_clock(int tid)
{
	return (clockid_t)(~(unsigned int)tid << 3 | 6);
}

int probe_read_task(int tid, const char *name, char text[], size_t size)
{
	char path[64];
	size_t length;
	FILE *file;

	text[0] = '\0';
	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	file = fopen(path, "re");
	if (file == NULL)
		return -errno;
	length = fread(text, 1, size - 1, file);
	fclose(file);
	text[length] = '\0';
	return 0;
}

/* Returns 0 if the thread has ended. */
static uint64_t cpu_ns_by_proc(int tid)
{
	char text[64];

	probe_read_task(tid, "schedstat", text, sizeof(text));
	return strtoull(text, NULL, 10);
}

/* A TID is another thread's, or nobody's, for clock_gettime() where /proc belongs to another PID namespace. */
static uint64_t cpu_ns(int tid)
{
	struct timespec used;

	if (clock_gettime(cpu_clock(tid), &used) < 0)
		return cpu_ns_by_proc(tid);
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

void *probe_grown(void *array, uint32_t count, uint32_t *max, size_t size)
{
	const uint32_t more = *max == 0 ? 256 : 2 * *max;
	void *larger = array;

	if (count == *max) {
		larger = realloc(array, more * size);
		if (larger != NULL)
			*max = more;
	}
	return larger;
}

static int add_task(int tid)
{
	struct task *larger = probe_grown(tasks, tasks_count, &tasks_max, sizeof(*tasks));

	if (larger == NULL)
		return -ENOMEM;
	tasks = larger;
	tasks[tasks_count++] = (struct task){.tid = tid, .cpu_ns = cpu_ns(tid)};
	return 0;
}

int probe_grace_begin(void)
{
	DIR *folder = opendir("/proc/self/task");
	const struct dirent *entry;
	int status = folder == NULL ? -errno : 0;

	tasks_count = 0;
	begun_ns = monotonic_ns();
	while (status == 0 && (entry = readdir(folder)) != NULL) {
		const int tid = atoi(entry->d_name);

		if (tid > 0 && tid != gettid())
			status = add_task(tid);
	}
	if (folder != NULL)
		closedir(folder);
	return status;
}

/* True also if the thread has ended. The state follows the name, which is in parentheses and may hold any character. */
static bool sleeps(int tid)
{
	char line[256];
	const char *after_name;

	if (probe_read_task(tid, "stat", line, sizeof(line)) == -ENOENT)
		return true;
	after_name = strrchr(line, ')');
	return after_name != NULL && (after_name[1] == ' ') && strchr("SZX", after_name[2]) != NULL;
}

static bool is_outside(const struct task *task)
{
	return cpu_ns(task->tid) >= task->cpu_ns + ENOUGH_NS || sleeps(task->tid);
}

bool probe_grace_over(void)
{
	if (monotonic_ns() < begun_ns + SHORTEST_NS)
		return false;
	while (tasks_count > 0 && is_outside(&tasks[tasks_count - 1]))
		tasks_count--;
	return tasks_count == 0;
}
