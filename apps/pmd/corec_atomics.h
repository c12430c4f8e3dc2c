/* SPDX-License-Identifier: BSD-3-Clause */
/* The atomics of corec_protocol.h, by the compiler's builtins. */
#ifndef COREC_ATOMICS_H
#define COREC_ATOMICS_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

typedef uint64_t corec_u64;
typedef uint32_t corec_u32;
typedef uint16_t corec_u16;

#define corec_load_relaxed(at)          __atomic_load_n(at, __ATOMIC_RELAXED)
#define corec_load_acquire(at)          __atomic_load_n(at, __ATOMIC_ACQUIRE)
#define corec_store_relaxed(at, value)  __atomic_store_n(at, value, __ATOMIC_RELAXED)
#define corec_store_release(at, value)  __atomic_store_n(at, value, __ATOMIC_RELEASE)
#define corec_exchange_acquire(at, new) __atomic_exchange_n(at, new, __ATOMIC_ACQUIRE)
#define corec_fence_acquire()           __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define corec_fence_full()              __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* True if *at was `expected` and is now `desired`. */
static inline bool corec_compare_exchange_relaxed(corec_u64 *at, uint64_t expected, uint64_t desired)
{
	return __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#endif
