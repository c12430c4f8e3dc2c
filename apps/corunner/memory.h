/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a worker: touched when it is made, in huge pages where the kernel gives them (it is asked, not forced). */
#ifndef MEMORY_H
#define MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed, aligned to a huge page, pages there. Returns NULL with errno. */
void *memory_map(size_t bytes);
void memory_unmap(void *memory);

/* How many of these bytes lie in transparent huge pages now; 0 also where the kernel does not say. */
size_t memory_huge_bytes(const void *memory, size_t bytes);

/* MemAvailable; UINT64_MAX where the kernel does not say. */
uint64_t memory_available_bytes(void);

#endif
