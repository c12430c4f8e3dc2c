/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Self-monitoring of the calling thread with perf_event_open: user-mode counts of a thread, read by that thread. Counters that
 * cannot be opened are absent with the reason.
 */
#ifndef PMU_H
#define PMU_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/perf_event.h>
#include <x86intrin.h>

enum pmu_counter {
	PMU_INSTRUCTIONS,
	PMU_CYCLES,
	PMU_L1D_LOADS,
	PMU_L1D_MISSES,
	PMU_L2_MISSES,
	PMU_LLC_LOADS,
	PMU_LLC_MISSES,
	PMU_COUNTERS
};

extern const char *const pmu_names[PMU_COUNTERS];

/* The event of one counter; type PMU_NO_EVENT: no such event is known for this processor. */
#define PMU_NO_EVENT UINT32_MAX
struct pmu_event {
	uint64_t config;
	uint32_t type; /* PERF_TYPE_* */
	uint8_t group; /* counters of a group count at the same time */
};

struct pmu {
	int fd[PMU_COUNTERS]; /* -1: absent */
	struct perf_event_mmap_page *page[PMU_COUNTERS];
	char reason[PMU_COUNTERS][96]; /* why it is absent */
	bool any;                      /* at least one counter is open */
	bool user_readable;            /* all open counters can be read with rdpmc */
};

struct pmu_reading {
	uint64_t value[PMU_COUNTERS];
	uint64_t enabled_ns[PMU_COUNTERS];
	uint64_t running_ns[PMU_COUNTERS];
};

/* Return the events of this processor: generic ones, and raw L2 misses for the vendors whose encoding is known. */
void pmu_events_of_host(struct pmu_event events[PMU_COUNTERS]);

/* Open for the calling thread; counting starts at once. Never fails as a whole: see `any` and `reason`. */
void pmu_open(struct pmu *pmu, const struct pmu_event events[PMU_COUNTERS]);
void pmu_close(struct pmu *pmu);

/* Read all open counters by system call. */
void pmu_read(const struct pmu *pmu, struct pmu_reading *reading);

/*
 * Return counter i between two readings, scaled up if the kernel multiplexed it. False if it never ran between them.
 * *multiplexed_share becomes the share of time in which it did not count.
 */
bool pmu_difference(const struct pmu_reading *from, const struct pmu_reading *to, unsigned int i,
                    double *value, double *multiplexed_share);

/*
 * Read one counter without a system call: the protocol of perf_event_mmap_page (lock = sequence count). Counting thread only.
 * False if the counter is not on the PMU now.
 */
static inline bool pmu_read_user(const struct perf_event_mmap_page *page, uint64_t *value)
{
	uint32_t sequence, index;
	int64_t count;

	do {
		sequence = *(volatile const uint32_t *)&page->lock;
		__asm__ volatile("" ::: "memory");
		index = page->index;
		count = page->offset;
		if (index) {
			const int unused_bits = 64 - page->pmc_width;

			count += (int64_t)((uint64_t)__rdpmc((int)index - 1) << unused_bits) >> unused_bits;
		}
		__asm__ volatile("" ::: "memory");
	} while (*(volatile const uint32_t *)&page->lock != sequence);
	*value = (uint64_t)count;
	return index != 0;
}

/* Read all open counters without a system call; false if one is not on the PMU now. Absent ones are unchanged. */
static inline bool pmu_read_all_user(const struct pmu *pmu, uint64_t value[PMU_COUNTERS])
{
	bool all = true;

	for (int i = 0; i < PMU_COUNTERS; i++)
		if (pmu->page[i])
			all &= pmu_read_user(pmu->page[i], &value[i]);
	return all;
}

#endif
