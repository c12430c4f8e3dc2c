/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polls of the heads of empty queues in turn, one cache line each, like a polling core without traffic. With one line (the
 * default) it spins on one queue.
 */
#include "work.h"

#define LINE_BYTES    64
#define WORDS_OF_LINE (LINE_BYTES / sizeof(uint32_t))
#define STEP_POLLS    4096

static uint64_t spin_step(struct work *work)
{
	const size_t heads = work->footprint_bytes / LINE_BYTES;
	const volatile uint32_t *words = work->memory;
	size_t head = work->position;

	for (unsigned int poll = 0; poll < STEP_POLLS; poll++) {
		/* never set; volatile, so that each poll is a load and a branch */
		if (words[head * WORDS_OF_LINE])
			break;
		head = head + 1 < heads ? head + 1 : 0;
	}
	work->position = head;
	return STEP_POLLS;
}

void spin_prepare(struct work *work)
{
	work->footprint_bytes -= work->footprint_bytes % LINE_BYTES;
	work->unit = "polls";
	work->step = spin_step;
}
