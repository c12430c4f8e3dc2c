/* SPDX-License-Identifier: BSD-3-Clause */
/* The atomics of qwait_protocol.h, as the compiler has them. All but qwait_peek(), qwait_acquire() and qwait_release() are SC. */
#ifndef QWAIT_ATOMICS_H
#define QWAIT_ATOMICS_H

#include <stdint.h>

typedef uint64_t qwait_u64;
typedef uint32_t qwait_u32;

#define qwait_will_write(at)      __builtin_prefetch(at, 1)
#define qwait_peek(at)            __atomic_load_n(at, __ATOMIC_RELAXED)
#define qwait_acquire(at)         __atomic_load_n(at, __ATOMIC_ACQUIRE)
#define qwait_release(at, value)  __atomic_store_n(at, value, __ATOMIC_RELEASE)
#define qwait_load(at)            __atomic_load_n(at, __ATOMIC_SEQ_CST)
#define qwait_store(at, value)    __atomic_store_n(at, value, __ATOMIC_SEQ_CST)
#define qwait_exchange(at, value) __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST)
#define qwait_fetch_add(at, n)    __atomic_fetch_add(at, n, __ATOMIC_SEQ_CST)
#define qwait_fetch_or(at, bits)  __atomic_fetch_or(at, bits, __ATOMIC_SEQ_CST)
#define qwait_fetch_and(at, bits) __atomic_fetch_and(at, bits, __ATOMIC_SEQ_CST)

#endif
