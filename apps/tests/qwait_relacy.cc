/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qwait_protocol.h under Relacy (Debian's relacy-dev), C11 memory orders: qwait_model.h says what is checked, corec_relacy.cc describes the tool. With
 * -DQWAIT_WEAK atomics are acquire and release only, as if x86 had no barrier: later loads may then pass stores. With -DQWAIT_EVENTS_RELAXED
 * events are relaxed.
 *
 * usage: tests-qwait-relacy preemptions N     all schedules with at most N preemptions
 *        tests-qwait-relacy random N          N schedules
 * exit codes: 0 nothing found, 1 found (printed on standard output)
 */
#include <stdint.h>

#include "relacy_explore.hpp"

#define QWAIT_ATOMICS_H
typedef rl::atomic<uint64_t> qwait_u64;
typedef rl::atomic<uint32_t> qwait_u32;
typedef rl::var<int> plain_int;

#ifndef QWAIT_WEAK
#define TO_LOAD   rl::mo_seq_cst
#define TO_STORE  rl::mo_seq_cst
#define TO_CHANGE rl::mo_seq_cst
#else
#define TO_LOAD   rl::mo_acquire
#define TO_STORE  rl::mo_release
#define TO_CHANGE rl::mo_acq_rel
#endif

#define qwait_will_write(at)      ((void)(at))
#define qwait_load(at)            ((*(at))($).load(TO_LOAD))
#define qwait_peek(at)            ((*(at))($).load(rl::mo_relaxed))
#ifndef QWAIT_EVENTS_RELAXED
#define qwait_acquire(at)        ((*(at))($).load(rl::mo_acquire))
#define qwait_release(at, value) ((*(at))($).store(value, rl::mo_release))
#else
#define qwait_acquire(at)        qwait_peek(at)
#define qwait_release(at, value) ((*(at))($).store(value, rl::mo_relaxed))
#endif
#define qwait_store(at, value)    ((*(at))($).store(value, TO_STORE))
#define qwait_exchange(at, value) ((*(at))($).exchange(value, TO_CHANGE))
#define qwait_fetch_add(at, n)    ((*(at))($).fetch_add(n, TO_CHANGE))
/* AT_ONCE, EVENTS: weaker than DD's release, which marks an item in the driver. A stronger order would hide a missing barrier. */
#define weak_fetch_add(at, n) ((*(at))($).fetch_add(n, rl::mo_relaxed))
#define plain_get(x)          ((int)VAR(x))
#define plain_set(x, value)   (VAR(x) = (value))
#define WRONG(text)           RL_ASSERT(!text)

/* Relacy has no atomic bits. */
static inline uint64_t qwait_fetch_or(qwait_u64 *at, uint64_t bits)
{
	uint64_t was = qwait_load(at);

	while (!(*at)($).compare_exchange_strong(was, was | bits, TO_CHANGE))
		;
	return was;
}

static inline uint64_t qwait_fetch_and(qwait_u64 *at, uint64_t bits)
{
	uint64_t was = qwait_load(at);

	while (!(*at)($).compare_exchange_strong(was, was & bits, TO_CHANGE))
		;
	return was;
}

#include "qwait_model.h"

struct suite : rl::test_suite<suite, PRODUCERS + CONSUMERS> {
	model world;

	void before()
	{
		model_begin(&world);
	}

	void thread(unsigned int index)
	{
		if (index < PRODUCERS)
			for (int i = 0; i < ARRIVALS; i++)
				model_arrive(&world, (int)index, i);
		else
			for (int i = 0; i < TURNS && model_serve(&world, (int)index - PRODUCERS); i++)
				;
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
