/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UMONITOR and UMWAIT for a test on processors without WAITPKG: such processors raise SIGILL, whose handler emulates the instruction. UMWAIT ends when the
 * monitored line differs from its state at UMONITOR, or long after its time, so that no test can rely on the time.
 */
#ifndef UMWAIT_IN_SOFTWARE_H
#define UMWAIT_IN_SOFTWARE_H

#include <cpuid.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

/* Report WAITPKG. cpuid.h does not undo this if it is included again. */
#define __get_cpuid_count(leaf, subleaf, a, b, c, d) (*(a) = *(b) = *(d) = 0, *(c) = UINT32_C(1) << 5, 1)

#define LINE_BYTES  64
#define LATE_CYCLES UINT64_C(100000000)

static _Thread_local struct {
	const volatile uint64_t *line; /* NULL: none is monitored */
	uint64_t was[LINE_BYTES / sizeof(uint64_t)];
} monitored;

static uint64_t halts, halts_by_time; /* of all threads */

static bool line_is_as_it_was(void)
{
	for (unsigned int i = 0; i < LINE_BYTES / sizeof(uint64_t); i++)
		if (__atomic_load_n(&monitored.line[i], __ATOMIC_SEQ_CST) != monitored.was[i])
			return false;
	return true;
}

static void umonitor(uint64_t address)
{
	monitored.line = (const volatile uint64_t *)(address & ~(uint64_t)(LINE_BYTES - 1));
	for (unsigned int i = 0; i < LINE_BYTES / sizeof(uint64_t); i++)
		monitored.was[i] = __atomic_load_n(&monitored.line[i], __ATOMIC_SEQ_CST);
}

static void umwait(uint64_t end_tsc)
{
	bool halted = monitored.line != NULL && line_is_as_it_was();

	__atomic_fetch_add(&halts, halted, __ATOMIC_RELAXED);
	while (halted && __rdtsc() < end_tsc + LATE_CYCLES) {
		sched_yield();
		halted = line_is_as_it_was();
	}
	__atomic_fetch_add(&halts_by_time, halted, __ATOMIC_RELAXED);
	monitored.line = NULL;
}

/* F3 [REX] 0F AE /6: UMONITOR of a register; F2 [REX] 0F AE /6: UMWAIT until EDX:EAX (Intel SDM, volume 2). */
static void on_sigill(int signal, siginfo_t *info, void *context)
{
	static const int registers[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
	                                REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
	                                REG_R12, REG_R13, REG_R14, REG_R15};
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *code = (const uint8_t *)(uintptr_t)regs[REG_RIP];
	const bool rex = (code[1] & 0xf0) == 0x40;
	const uint8_t *opcode = code + 1 + rex;

	(void)info;
	if ((code[0] != 0xf3 && code[0] != 0xf2) || opcode[0] != 0x0f || opcode[1] != 0xae ||
	    (opcode[2] & 0xf8) != 0xf0)
		_exit(128 + signal);
	if (code[0] == 0xf3)
		umonitor((uint64_t)regs[registers[(opcode[2] & 7) + (rex ? (code[1] & 1) * 8 : 0)]]);
	else
		umwait((uint64_t)regs[REG_RDX] << 32 | (uint32_t)regs[REG_RAX]);
	regs[REG_RIP] = (greg_t)(uintptr_t)(opcode + 3);
}

static void umwait_in_software(void)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};

	action.sa_sigaction = on_sigill;
	sigaction(SIGILL, &action, NULL);
}

#endif
