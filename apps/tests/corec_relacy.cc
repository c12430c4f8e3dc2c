/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * corec_protocol.h under Relacy (Debian's relacy-dev): C11 memory orders, and data races on everything that is no atomic. It explores schedules up to a
 * number of preemptions, and random ones beyond; each load of an atomic may return any value that C11 allows.
 *
 * usage: tests-corec-relacy-VARIANT preemptions N     all schedules with at most N preemptions
 *        tests-corec-relacy-VARIANT random N          N schedules
 * exit codes: 0 nothing found, 1 found (printed on standard output)
 */
#include <stdint.h>

#include "relacy_explore.hpp"

#define COREC_ATOMICS_H
typedef rl::atomic<uint64_t> corec_u64;
typedef rl::atomic<uint32_t> corec_u32;
typedef rl::atomic<uint16_t> corec_u16;
typedef rl::var<int> plain_int;

#define corec_load_relaxed(at)         ((*(at))($).load(rl::mo_relaxed))
#define corec_load_acquire(at)         ((*(at))($).load(rl::mo_acquire))
#define corec_store_relaxed(at, value) ((*(at))($).store(value, rl::mo_relaxed))
#ifndef COREC_WEAK /* for a test: all stores are relaxed */
#define corec_store_release(at, value) ((*(at))($).store(value, rl::mo_release))
#else
#define corec_store_release(at, value) corec_store_relaxed(at, value)
#endif
#define corec_exchange_acquire(at, new) ((*(at))($).exchange(new, rl::mo_acquire))
#define corec_fence_acquire()           rl::atomic_thread_fence(rl::mo_acquire, $)
#ifndef COREC_UNFENCED /* for a test */
#define corec_fence_release() rl::atomic_thread_fence(rl::mo_release, $)
#else
#define corec_fence_release()
#endif
#ifndef COREC_WEAK_FENCE /* for a test */
#define corec_fence_full() rl::atomic_thread_fence(rl::mo_seq_cst, $)
#else
#define corec_fence_full() rl::atomic_thread_fence(rl::mo_acq_rel, $)
#endif
#define plain_get(x)        ((int)VAR(x))
#define plain_set(x, value) (VAR(x) = (value))
#define WRONG(text)         RL_ASSERT(!text)

static inline bool corec_compare_exchange_relaxed(corec_u64 *at, uint64_t expected, uint64_t desired)
{
	return (*at)($).compare_exchange_strong(expected, desired, rl::mo_relaxed);
}

#include "corec_model.h"

struct suite : rl::test_suite<suite, CONSUMERS + 1> {
	model world;

	void before()
	{
		model_begin(&world);
	}

	void thread(unsigned int index)
	{
		if (index == CONSUMERS) {
			for (int i = 0; i < ATTEMPTS; i++)
				model_deliver(&world);
		} else {
			for (int i = 0; i < POLLS; i++)
#ifdef HALTS
				if (model_poll(&world, (int)index) == 0 && model_halt(&world, (int)index))
					break;
#else
				model_poll(&world, (int)index);
#endif
		}
	}

	void after()
	{
		model_end(&world);
	}
};

int main(int argc, char **argv)
{
	return explore<suite>(argc, argv);
}
