/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a worker: touched when it is made, in huge pages if the kernel gives them. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Return zeroed, touched memory, aligned to a huge page; NULL with errno. */
void *memory_map(size_t bytes);
void memory_unmap(void *memory);

/* Return how many of these bytes lie in transparent huge pages now; 0 0 also if the kernel does not report it. */
size_t memory_huge_bytes(const void *memory, size_t bytes);

/* Return MemAvailable; UINT64_MAX if the kernel does not say. */
uint64_t memory_available_bytes(void);

#endif
