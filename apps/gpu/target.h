/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The differences between the targets of the agent: a thread of the host, or, with AGENT_ON_GPU, a block of a GPU (clang -x cuda). agent.c uses
 * nothing else of a target: no library, no other atomics. Loads and stores below reach memory that the driver shares; only fences order them.
 */
#ifndef AGENT_TARGET_H
#define AGENT_TARGET_H

#include <stdint.h>

#ifdef AGENT_ON_GPU

#define AGENT_CODE    __attribute__((device))
#define AGENT_LANE    __nvvm_read_ptx_sreg_tid_x()
#define AGENT_LANES   __nvvm_read_ptx_sreg_ntid_x()
#define AGENT_SHARED  static __attribute__((shared))
#define AGENT_BARRIER __asm__ volatile("bar.sync 0;" ::: "memory")
/* Earlier loads and stores of this lane, and of those that it met at a barrier, come before later ones, for the host as well. */
#define AGENT_FENCE      __asm__ volatile("fence.acq_rel.sys;" ::: "memory")
#define AGENT_FENCE_FULL __asm__ volatile("fence.sc.sys;" ::: "memory")

/* Rings without frames are looked at so often: 17 ms. */
#define AGENT_SCAN_TICKS (UINT64_C(1) << 24)

static inline AGENT_CODE uint64_t agent_clock(void)
{
	uint64_t now;

	__asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

/* The first lane's value for all. */
static inline AGENT_CODE uint64_t agent_same(uint64_t value)
{
	AGENT_SHARED uint64_t same;

	if (AGENT_LANE == 0)
		same = value;
	AGENT_BARRIER;
	value = same;
	AGENT_BARRIER;
	return value;
}

/* A descriptor in one store. */
static inline AGENT_CODE void agent_store16(void *at, uint64_t low, uint64_t high)
{
	__asm__ volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(low), "l"(high)
	                 : "memory");
}

#define agent_write16 agent_store16

/* The first `bytes` (at most 8) at any address of a frame. */
static inline AGENT_CODE uint64_t agent_load_bytes(const uint8_t *at, uint32_t bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value |= (uint64_t)(*(const volatile uint8_t *)&at[i]) << (8 * i);
	return value;
}

#else

#define AGENT_CODE
#define AGENT_LANE       0u
#define AGENT_LANES      1u
#define AGENT_SHARED                                       /* a variable of the function */
#define AGENT_BARRIER    __asm__ volatile("" ::: "memory") /* order of the source, for the compiler */
#define AGENT_FENCE      __atomic_thread_fence(__ATOMIC_ACQ_REL)
#define AGENT_FENCE_FULL __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Rings without frames are looked at so often: at most 17 ms with a TSC of 1 GHz or more, 42 ms with a counter of 25 MHz. */
#ifdef __x86_64__
#define AGENT_SCAN_TICKS (UINT64_C(1) << 24)
#else
#define AGENT_SCAN_TICKS (UINT64_C(1) << 20)
#endif

/* TSC cycles; elsewhere the counter that the architecture has in its place. */
static inline uint64_t agent_clock(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	uint64_t now;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
	return now;
#endif
}

static inline uint64_t agent_same(uint64_t value)
{
	return value;
}

static inline uint64_t agent_load_bytes(const uint8_t *at, uint32_t bytes)
{
	uint64_t value = 0;

	__builtin_memcpy(&value, at, bytes);
	return value;
}

/* A part of a frame, before a fence. */
static inline void agent_write16(void *at, uint64_t low, uint64_t high)
{
	uint64_t *words = (uint64_t *)at;

	words[0] = low;
	words[1] = high;
}

/* Two stores: the second one has DD, and is not seen before the first. */
static inline void agent_store16(void *at, uint64_t low, uint64_t high)
{
	uint64_t *words = (uint64_t *)at;

	__atomic_store_n(&words[0], low, __ATOMIC_RELAXED);
	__atomic_store_n(&words[1], high, __ATOMIC_RELEASE);
}

#endif

#define AGENT_LOAD(at)         (*(const volatile __typeof__(*(at)) *)(at))
#define AGENT_STORE(at, value) (*(volatile __typeof__(*(at)) *)(at) = (value))

/* One lane reads a word that steers all, so that they stay together, and one stores a word that all would store alike. */
#define AGENT_LOAD_SAME(at) ((__typeof__(*(at) + 0))agent_same(AGENT_LANE == 0 ? AGENT_LOAD(at) : 0))
#define AGENT_STORE_ONCE(at, value)                                                                          \
	do {                                                                                                 \
		if (AGENT_LANE == 0)                                                                         \
			AGENT_STORE(at, value);                                                              \
	} while (0)

#endif
