/* SPDX-License-Identifier: BSD-3-Clause */
#include "frequency.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/perf_event.h>

#define MSR_MPERF 0xe7
#define MSR_APERF 0xe8
/* Read cpufreq once per this many marks: some kernels interrupt the CPU or sleep for an answer. */
#define CPUFREQ_EVERY 64

const char *const frequency_sources[] = {
        [FREQUENCY_ABSENT] = "absent",
        [FREQUENCY_PERF] = "APERF/MPERF (perf)",
        [FREQUENCY_MSR] = "APERF/MPERF (MSR device)",
        [FREQUENCY_CPUFREQ] = "cpufreq",
};

static void add_reason(struct frequency *frequency, const char *what, const char *why)
{
	const size_t used = strlen(frequency->reason);

	snprintf(frequency->reason + used, sizeof(frequency->reason) - used, "%s%s: %s", used ? "; " : "",
	         what, why);
}

static int read_number(const char *path, const char *format, uint64_t *value)
{
	FILE *file = fopen(path, "r");
	const int got = file ? fscanf(file, format, value) : 0;

	if (file)
		fclose(file);
	return got == 1 ? 0 : -1;
}

static int open_event(uint32_t type, const char *name)
{
	struct perf_event_attr attr = {.size = sizeof(attr), .type = type};
	char path[96];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/msr/events/%s", name);
	if (read_number(path, "event=%" SCNx64, (uint64_t *)&attr.config) < 0) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void close_both(struct frequency *frequency)
{
	for (int i = 0; i < 2; i++) {
		if (frequency->fd[i] >= 0)
			close(frequency->fd[i]);
		frequency->fd[i] = -1;
	}
}

static enum frequency_source open_perf(struct frequency *frequency)
{
	uint64_t type;

	if (read_number("/sys/bus/event_source/devices/msr/type", "%" SCNu64, &type) < 0) {
		add_reason(frequency, "APERF/MPERF by perf", "the kernel has no msr PMU");
		return FREQUENCY_ABSENT;
	}
	frequency->fd[0] = open_event((uint32_t)type, "aperf");
	frequency->fd[1] = frequency->fd[0] < 0 ? -1 : open_event((uint32_t)type, "mperf");
	if (frequency->fd[1] >= 0)
		return FREQUENCY_PERF;
	add_reason(frequency, "APERF/MPERF by perf",
	           errno == ENOENT ? "the processor shows neither" : strerror(errno));
	close_both(frequency);
	return FREQUENCY_ABSENT;
}

static enum frequency_source open_msr(struct frequency *frequency, unsigned int cpu)
{
	uint64_t value;
	char path[64];

	snprintf(path, sizeof(path), "/dev/cpu/%u/msr", cpu);
	frequency->fd[0] = open(path, O_RDONLY | O_CLOEXEC);
	if (frequency->fd[0] >= 0 &&
	    pread(frequency->fd[0], &value, sizeof(value), MSR_APERF) == sizeof(value) &&
	    pread(frequency->fd[0], &value, sizeof(value), MSR_MPERF) == sizeof(value))
		return FREQUENCY_MSR;
	add_reason(frequency, path, strerror(errno));
	close_both(frequency);
	return FREQUENCY_ABSENT;
}

/* Return scaling_cur_freq in kHz; 0 if it cannot be read. */
static uint64_t cpufreq_khz(int fd)
{
	char text[32] = {0};

	return pread(fd, text, sizeof(text) - 1, 0) > 0 ? strtoull(text, NULL, 10) : 0;
}

static enum frequency_source open_cpufreq(struct frequency *frequency, unsigned int cpu)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_cur_freq", cpu);
	frequency->fd[0] = open(path, O_RDONLY | O_CLOEXEC);
	if (frequency->fd[0] >= 0 && cpufreq_khz(frequency->fd[0]))
		return FREQUENCY_CPUFREQ;
	add_reason(frequency, path, frequency->fd[0] < 0 ? strerror(errno) : "holds no number");
	close_both(frequency);
	return FREQUENCY_ABSENT;
}

void frequency_open(struct frequency *frequency, unsigned int cpu)
{
	memset(frequency, 0, sizeof(*frequency));
	frequency->fd[0] = frequency->fd[1] = -1;
	frequency->source = open_perf(frequency);
	if (frequency->source == FREQUENCY_ABSENT)
		frequency->source = open_msr(frequency, cpu);
	if (frequency->source == FREQUENCY_ABSENT)
		frequency->source = open_cpufreq(frequency, cpu);
}

void frequency_close(struct frequency *frequency)
{
	close_both(frequency);
}

static void read_cpufreq(struct frequency *frequency, uint64_t tsc, uint64_t tsc_hz)
{
	if (frequency->last_tsc)
		frequency->cycles += (uint64_t)((unsigned __int128)(tsc - frequency->last_tsc) *
		                                frequency->last_khz * 1000 / tsc_hz);
	frequency->last_tsc = tsc;
	if (frequency->samples++ % CPUFREQ_EVERY)
		return;
	const uint64_t khz = cpufreq_khz(frequency->fd[0]);

	if (khz)
		frequency->last_khz = khz;
}

void frequency_read(struct frequency *frequency, uint64_t tsc, uint64_t tsc_hz, uint64_t *core,
                    uint64_t *base)
{
	*core = *base = 0;
	switch (frequency->source) {
	case FREQUENCY_PERF:
		if (read(frequency->fd[0], core, sizeof(*core)) != sizeof(*core) ||
		    read(frequency->fd[1], base, sizeof(*base)) != sizeof(*base))
			*core = *base = 0;
		break;
	case FREQUENCY_MSR:
		if (pread(frequency->fd[0], core, sizeof(*core), MSR_APERF) != sizeof(*core) ||
		    pread(frequency->fd[0], base, sizeof(*base), MSR_MPERF) != sizeof(*base))
			*core = *base = 0;
		break;
	case FREQUENCY_CPUFREQ:
		read_cpufreq(frequency, tsc, tsc_hz);
		*core = frequency->cycles;
		*base = tsc;
		break;
	case FREQUENCY_ABSENT:
		break;
	}
}
