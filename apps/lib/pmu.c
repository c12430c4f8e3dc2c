/* SPDX-License-Identifier: BSD-3-Clause */
#include "pmu.h"

#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *const pmu_names[PMU_COUNTERS] = {
        [PMU_INSTRUCTIONS] = "instructions", [PMU_CYCLES] = "cycles",       [PMU_L1D_LOADS] = "l1d_loads",
        [PMU_L1D_MISSES] = "l1d_misses",     [PMU_L2_MISSES] = "l2_misses", [PMU_LLC_LOADS] = "llc_loads",
        [PMU_LLC_MISSES] = "llc_misses",
};

#define CACHE_READ(cache, result)                                                                            \
	((uint64_t)(cache) | ((uint64_t)PERF_COUNT_HW_CACHE_OP_READ << 8) | ((uint64_t)(result) << 16))

/* Intel SDM volume 3, L2_RQSTS.MISS: event 24h, umask 3Fh (Skylake server and later). */
#define INTEL_L2_MISSES 0x3f24
/* AMD PPR family 17h/19h, PMCx064 core to L2 requests, LsRdBlkC miss: umask 08h (data cache misses that miss L2). */
#define AMD_L2_MISSES 0x0864

static struct pmu_event l2_misses_of_host(void)
{
	unsigned int eax, ebx, ecx, edx;

	if (__get_cpuid(0, &eax, &ebx, &ecx, &edx)) {
		if (ebx == signature_INTEL_ebx)
			return (struct pmu_event){INTEL_L2_MISSES, PERF_TYPE_RAW, 1};
		if (ebx == signature_AMD_ebx)
			return (struct pmu_event){AMD_L2_MISSES, PERF_TYPE_RAW, 1};
	}
	return (struct pmu_event){0, PMU_NO_EVENT, 1};
}

void pmu_events_of_host(struct pmu_event events[PMU_COUNTERS])
{
	const struct pmu_event generic[PMU_COUNTERS] = {
	        [PMU_INSTRUCTIONS] = {PERF_COUNT_HW_INSTRUCTIONS, PERF_TYPE_HARDWARE, 0},
	        [PMU_CYCLES] = {PERF_COUNT_HW_CPU_CYCLES, PERF_TYPE_HARDWARE, 0},
	        [PMU_L1D_LOADS] = {CACHE_READ(PERF_COUNT_HW_CACHE_L1D, PERF_COUNT_HW_CACHE_RESULT_ACCESS),
	                           PERF_TYPE_HW_CACHE, 0},
	        [PMU_L1D_MISSES] = {CACHE_READ(PERF_COUNT_HW_CACHE_L1D, PERF_COUNT_HW_CACHE_RESULT_MISS),
	                            PERF_TYPE_HW_CACHE, 0},
	        [PMU_LLC_LOADS] = {CACHE_READ(PERF_COUNT_HW_CACHE_LL, PERF_COUNT_HW_CACHE_RESULT_ACCESS),
	                           PERF_TYPE_HW_CACHE, 1},
	        [PMU_LLC_MISSES] = {CACHE_READ(PERF_COUNT_HW_CACHE_LL, PERF_COUNT_HW_CACHE_RESULT_MISS),
	                            PERF_TYPE_HW_CACHE, 1},
	};

	memcpy(events, generic, sizeof(generic));
	events[PMU_L2_MISSES] = l2_misses_of_host();
}

static int open_event(const struct pmu_event *event, int leader)
{
	struct perf_event_attr attr = {
	        .size = sizeof(attr),
	        .type = event->type,
	        .config = event->config,
	        .exclude_kernel = 1,
	        .exclude_hv = 1,
	        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

static void explain(char reason[96], int error)
{
	snprintf(reason, 96, "perf_event_open: %s (%s)",
	         error == ENOENT ? "no such hardware counter here" : strerror(error),
	         strerrorname_np(error) ? strerrorname_np(error) : "unknown");
}

static struct perf_event_mmap_page *map_page(int fd)
{
	void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

static void open_counter(struct pmu *pmu, unsigned int i, const struct pmu_event *event, int *leader)
{
	if (event->type == PMU_NO_EVENT) {
		snprintf(pmu->reason[i], sizeof(pmu->reason[i]), "no event is known for this processor");
		return;
	}
	pmu->fd[i] = open_event(event, *leader);
	if (pmu->fd[i] < 0) {
		explain(pmu->reason[i], errno);
		return;
	}
	if (*leader < 0)
		*leader = pmu->fd[i];
	pmu->any = true;
	pmu->page[i] = map_page(pmu->fd[i]);
	pmu->user_readable &= pmu->page[i] && pmu->page[i]->cap_user_rdpmc;
}

void pmu_open(struct pmu *pmu, const struct pmu_event events[PMU_COUNTERS])
{
	int leader[PMU_COUNTERS];

	memset(pmu, 0, sizeof(*pmu));
	memset(pmu->fd, 0xff, sizeof(pmu->fd));
	memset(leader, 0xff, sizeof(leader));
	pmu->user_readable = true;
	for (unsigned int i = 0; i < PMU_COUNTERS; i++)
		open_counter(pmu, i, &events[i], &leader[events[i].group % PMU_COUNTERS]);
	pmu->user_readable &= pmu->any;
}

void pmu_close(struct pmu *pmu)
{
	for (int i = 0; i < PMU_COUNTERS; i++) {
		if (pmu->page[i])
			munmap(pmu->page[i], (size_t)sysconf(_SC_PAGESIZE));
		if (pmu->fd[i] >= 0)
			close(pmu->fd[i]);
	}
	memset(pmu->page, 0, sizeof(pmu->page));
	memset(pmu->fd, 0xff, sizeof(pmu->fd));
	pmu->any = false;
}

void pmu_read(const struct pmu *pmu, struct pmu_reading *reading)
{
	memset(reading, 0, sizeof(*reading));
	for (int i = 0; i < PMU_COUNTERS; i++) {
		uint64_t words[3]; /* value, time enabled, time running */

		if (pmu->fd[i] < 0 || read(pmu->fd[i], words, sizeof(words)) != sizeof(words))
			continue;
		reading->value[i] = words[0];
		reading->enabled_ns[i] = words[1];
		reading->running_ns[i] = words[2];
	}
}

bool pmu_difference(const struct pmu_reading *from, const struct pmu_reading *to, unsigned int i,
                    double *value, double *multiplexed_share)
{
	const double enabled = (double)(to->enabled_ns[i] - from->enabled_ns[i]);
	const double running = (double)(to->running_ns[i] - from->running_ns[i]);

	if (running <= 0)
		return false;
	*value = (double)(to->value[i] - from->value[i]) * enabled / running;
	*multiplexed_share = running < enabled ? 1 - running / enabled : 0;
	return true;
}
