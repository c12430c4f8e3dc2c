/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock of one CPU: APERF / MPERF x TSC frequency (Intel SDM volume 3, 15.5.5: the mean frequency while not halted) through
 * perf's msr PMU or the MSR device; otherwise sampled from cpufreq; otherwise absent with every reason.
 */
#ifndef FREQUENCY_H
#define FREQUENCY_H

#include <stdint.h>

enum frequency_source { FREQUENCY_ABSENT, FREQUENCY_PERF, FREQUENCY_MSR, FREQUENCY_CPUFREQ };

extern const char *const frequency_sources[];

struct frequency {
	enum frequency_source source;
	int fd[2];         /* APERF and MPERF; MSR device and cpufreq use the first */
	char reason[256];  /* why absent */
	uint64_t last_khz; /* cpufreq: held between samples */
	uint64_t last_tsc;
	uint64_t cycles;      /* cpufreq: integral of the frequency, instead of APERF */
	unsigned int samples; /* cpufreq */
};

/* Open for the calling thread, pinned to `cpu` (perf counts the thread). Never fails: see `source`. */
void frequency_open(struct frequency *frequency, unsigned int cpu);
void frequency_close(struct frequency *frequency);

/* Read APERF and MPERF (or their stand-ins: cycles by cpufreq, and the TSC). */
void frequency_read(struct frequency *frequency, uint64_t tsc, uint64_t tsc_hz, uint64_t *core,
                    uint64_t *base);

#endif
