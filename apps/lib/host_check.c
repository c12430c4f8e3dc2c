/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_check.h"

#include <unistd.h>

#include "cycles.h"

#define MULTIPLIER UINT64_C(6364136223846793005) /* Knuth's MMIX; any odd number will do */
#define LOOK_EVERY 1024                          /* looks at the line per look at the clock */

_Static_assert(HOST_CHECK_LINE_BATCHES * HOST_CHECK_LINE_TRIPS * 2 < UINT32_MAX, "turns do not wrap");

void host_check_line_reset(struct host_check_line *line, uint64_t deadline_tsc)
{
	line->deadline_tsc = deadline_tsc;
	line->complete = false;
	atomic_store(&line->turn, 0);
}

/* Wait without a pause between looks, as the loops poll. Returns false if the other side did not come in time. */
static bool await(struct host_check_line *line, uint32_t turn)
{
	for (;;) {
		for (unsigned int look = 0; look < LOOK_EVERY; look++)
			if (atomic_load_explicit(&line->turn, memory_order_acquire) == turn)
				return true;
		if (cycles_stamp() > line->deadline_tsc)
			return false;
	}
}

void host_check_line_lead(struct host_check_line *line)
{
	uint32_t turn = 0;

	for (unsigned int batch = 0; batch < HOST_CHECK_LINE_BATCHES; batch++) {
		const uint64_t start = cycles_stamp();

		for (unsigned int trip = 0; trip < HOST_CHECK_LINE_TRIPS; trip++, turn += 2) {
			atomic_store_explicit(&line->turn, turn + 1, memory_order_release);
			if (!await(line, turn + 2))
				return;
		}
		line->cycles[batch] = cycles_stamp() - start;
	}
	line->complete = true;
}

void host_check_line_follow(struct host_check_line *line)
{
	for (uint32_t turn = 0; turn < 2 * HOST_CHECK_LINE_BATCHES * HOST_CHECK_LINE_TRIPS; turn += 2) {
		if (!await(line, turn + 1))
			return;
		atomic_store_explicit(&line->turn, turn + 2, memory_order_release);
	}
}

size_t host_check_stream_bytes(void)
{
	const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE); /* 0 or -1 if unknown */
	const uint64_t wanted = l2 > 0 ? 4 * (uint64_t)l2 : 0;

	if (wanted < HOST_CHECK_STREAM_MIN)
		return HOST_CHECK_STREAM_MIN;
	return wanted > HOST_CHECK_STREAM_MAX ? HOST_CHECK_STREAM_MAX : wanted & ~UINT64_C(63);
}

static uint64_t time_chain(void)
{
	uint64_t x = MULTIPLIER;
	const uint64_t start = cycles_stamp();

	for (unsigned int step = 0; step < HOST_CHECK_STEPS; step++) {
		x *= MULTIPLIER;
		__asm__ volatile("" : "+r"(x)); /* otherwise the compiler would multiply by a power */
	}
	return cycles_stamp() - start;
}

static uint64_t time_wide(void)
{
	uint64_t a = 1, b = 3, c = 5, d = 7;
	const uint64_t start = cycles_stamp();

	for (unsigned int step = 0; step < HOST_CHECK_STEPS; step++) {
		a *= MULTIPLIER;
		b *= MULTIPLIER;
		c *= MULTIPLIER;
		d *= MULTIPLIER;
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
	}
	return cycles_stamp() - start;
}

static uint64_t time_stream(const uint64_t *words, size_t count)
{
	uint64_t sum = 0;
	const uint64_t start = cycles_stamp();

	for (size_t i = 0; i < count; i += 8)
		sum += words[i] ^ words[i + 1] ^ words[i + 2] ^ words[i + 3] ^ words[i + 4] ^ words[i + 5] ^
		       words[i + 6] ^ words[i + 7];
	__asm__ volatile("" : : "r"(sum));
	return cycles_stamp() - start;
}

void host_check_core_run(struct host_check_core *core, const void *buffer, size_t bytes)
{
	time_chain(); /* the first run finds caches, branch predictor and clock as sleep left them */
	for (unsigned int batch = 0; batch < HOST_CHECK_STEP_BATCHES; batch++) {
		core->chain[batch] = time_chain();
		core->wide[batch] = time_wide();
	}
	time_stream(buffer, bytes / sizeof(uint64_t)); /* from the state that the last trial left */
	for (unsigned int batch = 0; batch < HOST_CHECK_STREAM_BATCHES; batch++)
		core->stream[batch] = time_stream(buffer, bytes / sizeof(uint64_t));
}
