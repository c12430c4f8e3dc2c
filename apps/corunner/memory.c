/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

void *memory_map(size_t bytes)
{
	/* a whole number of huge pages, or none, because the last one would consist of small pages */
	const size_t unit = bytes < HUGE_PAGE_BYTES ? 4096 : HUGE_PAGE_BYTES;
	const size_t whole = (bytes + unit - 1) / unit * unit;
	void *memory = aligned_alloc(unit, whole);

	if (!memory)
		return NULL;
	/* advice only: if it is refused the pages are small, and huge_bytes says so */
	madvise(memory, whole, MADV_HUGEPAGE);
	memset(memory, 0, whole);
	return memory;
}

void memory_unmap(void *memory)
{
	free(memory);
}

size_t memory_huge_bytes(const void *memory, size_t bytes)
{
	const uintptr_t first = (uintptr_t)memory, last = first + bytes - 1;
	uintptr_t from = 0, to = 0;
	size_t found = 0, kib;
	char line[512];
	FILE *maps = fopen("/proc/self/smaps", "r");

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
			continue;
		if (sscanf(line, "AnonHugePages: %zu kB", &kib) == 1 && from <= last && to > first)
			found += kib * 1024;
	}
	if (maps)
		fclose(maps);
	return found < bytes ? found : bytes;
}

uint64_t memory_available_bytes(void)
{
	uint64_t kib, found = UINT64_MAX;
	char line[128];
	FILE *info = fopen("/proc/meminfo", "r");

	while (info && fgets(line, sizeof(line), info))
		if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
			found = kib * 1024;
	if (info)
		fclose(info);
	return found;
}
