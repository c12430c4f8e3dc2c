/* SPDX-License-Identifier: BSD-3-Clause */
#include "stress_ng.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "stress-ng"
/* stress-ng ends within tens of ms; after this time it hangs. */
#define END_LIMIT_MS 5000

const char *stress_ng_absent(void)
{
	const char *paths = getenv("PATH");
	char path[512];

	while (paths && *paths) {
		const char *end = strchrnul(paths, ':');

		snprintf(path, sizeof(path), "%.*s/" PROGRAM, (int)(end - paths), paths);
		if (access(path, X_OK) == 0)
			return NULL;
		paths = *end ? end + 1 : end;
	}
	return PROGRAM " is not installed";
}

/* Become stress-ng in the child: bound to its CPU, ended with its parent, silent on the parent's protocol. Does not return. */
static void become(const struct stress_ng *stress, pid_t parent)
{
	char option[STRESSOR_NAME_MAX + 3], file[64];
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(stress->cpu, &set);
	snprintf(option, sizeof(option), "--%s", stress->stressor);
	snprintf(file, sizeof(file), "/proc/%d/fd/%d", (int)parent, stress->metrics);
	/* not SIGTERM, which stress-ng loses while it starts; its own children die with it in the same way */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
	    sched_setaffinity(0, sizeof(set), &set) < 0)
		_exit(126);
	signal(SIGPIPE, SIG_DFL);
	const int nothing = open("/dev/null", O_RDONLY);

	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(126);
	execlp(PROGRAM, PROGRAM, option, "1", "--metrics", "--yaml", file, "--temp-path", P_tmpdir,
	       (char *)NULL);
	_exit(127);
}

int stress_ng_start(struct stress_ng *stress, const char *at, struct node_error *err)
{
	const pid_t parent = getpid();

	stress_ng_close(stress);
	stress->problem[0] = '\0';
	stress->metrics = memfd_create(PROGRAM, MFD_CLOEXEC);
	if (stress->metrics < 0)
		return node_fail(err, at, "no memory file for its numbers: %s", strerror(errno));
	stress->pid = fork();
	if (stress->pid == 0)
		become(stress, parent);
	if (stress->pid > 0)
		return 0;
	stress->pid = 0;
	return node_fail(err, at, PROGRAM " cannot be started: %s", strerror(errno));
}

static void note_end(struct stress_ng *stress, int status)
{
	if (WIFSIGNALED(status))
		snprintf(stress->problem, sizeof(stress->problem), PROGRAM " was ended by signal %d",
		         WTERMSIG(status));
	else
		snprintf(stress->problem, sizeof(stress->problem), PROGRAM " ended with status %d",
		         WEXITSTATUS(status));
	stress->pid = 0;
}

bool stress_ng_died(struct stress_ng *stress)
{
	int status;

	if (stress->pid > 0 && waitpid(stress->pid, &status, WNOHANG) == stress->pid)
		note_end(stress, status);
	return stress->problem[0] != '\0';
}

/* Return whether it has ended within the limit. */
static bool wait_for_end(pid_t pid)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned int ms = 0; ms < END_LIMIT_MS; ms++) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

void stress_ng_stop(struct stress_ng *stress)
{
	if (stress->pid <= 0 || stress_ng_died(stress))
		return;
	kill(stress->pid, SIGINT);
	if (!wait_for_end(stress->pid)) {
		kill(stress->pid, SIGKILL);
		waitpid(stress->pid, NULL, 0);
		snprintf(stress->problem, sizeof(stress->problem), PROGRAM " did not end");
	}
	stress->pid = 0;
}

/* Return the value of `key: value` in the output of stress-ng (YAML, one stressor); -1 if it is missing. */
static double value_of(const char *text, const char *key)
{
	char line[64];

	snprintf(line, sizeof(line), " %s: ", key);
	const char *found = strstr(text, line);

	return found ? strtod(found + strlen(line), NULL) : -1;
}

json_t *stress_ng_result(const struct stress_ng *stress, const char *at, struct node_error *err)
{
	char text[16384] = {0};

	if (stress->problem[0]) {
		node_fail(err, at, "%s", stress->problem);
		return NULL;
	}
	if (stress->metrics < 0 || pread(stress->metrics, text, sizeof(text) - 1, 0) <= 0) {
		node_fail(err, at, PROGRAM " wrote no numbers");
		return NULL;
	}
	const double ops = value_of(text, "bogo-ops"), run_s = value_of(text, "wall-clock-time"),
	             rate = value_of(text, "bogo-ops-per-second-real-time");

	if (ops < 0 || run_s <= 0 || rate < 0) {
		node_fail(err, at, "what " PROGRAM " wrote has no bogo-ops or no time");
		return NULL;
	}
	return json_pack("{s:f,s:f,s:f}", "bogo_ops", ops, "run_s", run_s, "bogo_ops_per_s", rate);
}

void stress_ng_close(struct stress_ng *stress)
{
	stress_ng_stop(stress);
	if (stress->metrics >= 0)
		close(stress->metrics);
	stress->metrics = -1;
}
