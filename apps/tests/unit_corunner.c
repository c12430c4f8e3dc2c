/* SPDX-License-Identifier: BSD-3-Clause */
/* Check the work of co-runners, and how their windows are cut. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "marks.h"
#include "memory.h"
#include "work.h"

static struct work open_work(enum work_kind kind, size_t bytes, enum stream_operation operation)
{
	const struct work_request request = {kind, bytes, 7, operation};
	struct node_error err;
	struct work work;

	if (work_open(&work, &request, "workers[0]", &err) < 0)
		abort();
	return work;
}

/* The sums of the definition, with the loops in the other order. */
static double product(const double *a, const double *b, size_t n, size_t i, size_t j)
{
	double sum = 0;

	for (size_t k = 0; k < n; k++)
		sum += a[i * n + k] * b[k * n + j];
	return sum;
}

static void check_product(size_t bytes, size_t n)
{
	struct work work = open_work(WORK_MATMUL, bytes, STREAM_READ);
	const double *a = work.memory, *b = a + n * n, *c = b + n * n;
	uint64_t rows = 0;
	size_t wrong = 0;

	UNIT_EQUAL(work.size, n);
	UNIT_EQUAL(work.per_unit, n);
	UNIT_EQUAL(work.footprint_bytes, 3 * 8 * n * n);
	while (rows < n)
		rows += work.step(&work);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			wrong += c[i * n + j] != product(a, b, n, i, j);
	UNIT_EQUAL(wrong, 0);
	UNIT_CHECK(c[1] > 0);
	work_close(&work);
}

static void matrices_are_multiplied(void)
{
	check_product(1536, 8);
	check_product((size_t)96 * 1024, 64);
	check_product((size_t)3 * 8 * 300 * 300 + 100, 300);
}

static void a_step_counts_the_rows_that_it_made(void)
{
	struct work work = open_work(WORK_MATMUL, (size_t)96 * 1024, STREAM_READ);
	double *c = (double *)work.memory + (size_t)2 * 64 * 64;

	c[64 * 20] = -1;
	/* 65536 products per step, 4096 per row */
	UNIT_EQUAL(work.step(&work), 16);
	UNIT_CHECK(c[(size_t)64 * 20] == -1);
	UNIT_EQUAL(work.step(&work), 16);
	UNIT_CHECK(c[(size_t)64 * 20] != -1);
	work_close(&work);
}

static void one_cycle(size_t n, uint64_t seed)
{
	struct chase_element *elements = calloc(n, sizeof(*elements));
	char *seen = calloc(n, 1);
	const struct chase_element *at = elements;
	size_t polled = 0;

	if (!elements || !seen)
		abort();
	chase_link(elements, n, seed);
	for (size_t hop = 0; hop < n; hop++) {
		polled += !seen[at - elements];
		seen[at - elements] = 1;
		at = at->next;
	}
	UNIT_EQUAL(polled, n);
	UNIT_CHECK(at == elements);
	free(seen);
	free(elements);
}

static void a_chase_reaches_each_element_once_per_cycle(void)
{
	for (size_t n = 1; n <= 64; n++)
		for (uint64_t seed = 0; seed < 8; seed++)
			one_cycle(n, seed);
	one_cycle(100003, 1);
}

static void a_chase_fills_its_footprint(void)
{
	struct work work = open_work(WORK_POINTER_CHASE, 1000000, STREAM_READ);
	const char *memory = work.memory, *end = memory + work.footprint_bytes, *first = end, *last = memory;
	uint64_t hops = 0;

	UNIT_EQUAL(work.footprint_bytes, 1000000 / 64 * 64);
	UNIT_EQUAL(work.size, 1000000 / 64);
	while (hops < 40 * work.size) {
		const char *at = work.at;

		first = at < first ? at : first;
		last = at > last ? at : last;
		hops += work.step(&work);
	}
	UNIT_CHECK((const char *)work.at >= memory);
	UNIT_CHECK((const char *)work.at < end);
	/* of about 2400 places, some lie in the first and in the last tenth */
	UNIT_CHECK(first < memory + work.footprint_bytes / 10);
	UNIT_CHECK(last > memory + work.footprint_bytes / 10 * 9);
	work_close(&work);
}

static void streams_count_the_bytes_that_they_touch(void)
{
	const size_t bytes = (size_t)300 * 1024; /* not a whole number of chunks */

	for (unsigned int operation = STREAM_READ; operation <= STREAM_COPY; operation++) {
		struct work work = open_work(WORK_MEMORY_STREAM, bytes, (enum stream_operation)operation);
		uint64_t done = 0;

		memset(work.memory, 0x5a, bytes);
		do
			done += work.step(&work);
		while (work.position);
		/* one round: each byte once; copied ones are read in one half and written in the other */
		UNIT_EQUAL(done, bytes);
		if (operation == STREAM_WRITE)
			UNIT_CHECK(!memchr(work.memory, 0x5a, bytes));
		work_close(&work);
	}
}

static void a_copy_fills_the_first_half_from_the_second(void)
{
	const size_t half = (size_t)150 * 1024;
	struct work work = open_work(WORK_MEMORY_STREAM, 2 * half, STREAM_COPY);

	char *memory = work.memory;

	for (size_t i = 0; i < half; i++)
		memory[half + i] = (char)(i % 251);
	do
		work.step(&work);
	while (work.position);
	UNIT_CHECK(memcmp(memory, memory + half, half) == 0);
	work_close(&work);
}

static void a_spinner_finds_nothing(void)
{
	struct work work = open_work(WORK_SPIN, 640, STREAM_READ);

	UNIT_EQUAL(work.step(&work), 4096);
	UNIT_EQUAL(work.position, 4096 % 10);
	work_close(&work);
}

static struct mark mark_of(uint64_t tsc, uint64_t done, uint64_t longest)
{
	return (struct mark){
	        .tsc = tsc, .count = {done, 2 * done, tsc, 3 * done, 1, 0}, .longest_cycles = longest};
}

static void windows_are_cut_between_marks(void)
{
	struct marks_window window;
	struct marks marks;

	UNIT_EQUAL(marks_open(&marks, 10), 0);
	const struct mark mark[] = {mark_of(1000, 0, 0), mark_of(1010, 100, 4), mark_of(1030, 200, 9),
	                            mark_of(1040, 400, 6)};

	for (size_t i = 0; i < 4; i++)
		marks_add(&marks, &mark[i]);
	UNIT_CHECK(marks_cut(&marks, 1000, 1040, &window));
	UNIT_NEAR(window.count[MARK_DONE], 400, 1e-9);
	UNIT_EQUAL(window.longest_cycles, 9);
	UNIT_CHECK(marks_cut(&marks, 1005, 1020, &window));
	UNIT_NEAR(window.count[MARK_DONE], 100, 1e-9); /* 150 - 50 */
	UNIT_NEAR(window.count[MARK_CORE], 200, 1e-9);
	UNIT_NEAR(window.count[MARK_BASE], 15, 1e-9);
	UNIT_NEAR(window.count[MARK_INSTRUCTIONS], 300, 1e-9);
	UNIT_CHECK(marks_cut(&marks, 1012, 1014, &window));
	UNIT_NEAR(window.count[MARK_DONE], 10, 1e-9);
	UNIT_CHECK(marks_cut(&marks, 1000, 1005, &window));
	UNIT_EQUAL(window.longest_cycles, 4);
	UNIT_CHECK(!marks_cut(&marks, 999, 1020, &window));
	UNIT_CHECK(!marks_cut(&marks, 1000, 1041, &window));
	UNIT_CHECK(!marks_cut(&marks, 1020, 1020, &window));
	marks_close(&marks);
}

static void a_full_list_is_thinned_out(void)
{
	struct marks_window window;
	struct marks marks;

	UNIT_EQUAL(marks_open(&marks, 1), 0);
	for (uint64_t i = 0; i < 3 * (uint64_t)MARKS_MOST; i++) {
		const struct mark mark = mark_of(1000 + i, 7 * i, i == 4321 ? 99 : 5);

		if (marks_due(&marks, mark.tsc))
			marks_add(&marks, &mark);
	}
	UNIT_CHECK(marks.n <= MARKS_MOST && marks.n > MARKS_MOST / 4);
	UNIT_EQUAL(marks.every_cycles, 4);
	UNIT_CHECK(marks_cut(&marks, 1000, 1000 + 2 * (uint64_t)MARKS_MOST, &window));
	UNIT_NEAR(window.count[MARK_DONE], 14.0 * MARKS_MOST, 1e-6);
	marks_close(&marks);
}

static const struct unit_case cases[] = {
        {"matrices are multiplied", matrices_are_multiplied},
        {"a step counts the rows that it made", a_step_counts_the_rows_that_it_made},
        {"a chase reaches each element once per cycle", a_chase_reaches_each_element_once_per_cycle},
        {"a chase fills its footprint", a_chase_fills_its_footprint},
        {"streams count the bytes that they touch", streams_count_the_bytes_that_they_touch},
        {"a copy fills the first half from the second", a_copy_fills_the_first_half_from_the_second},
        {"a spinner finds nothing", a_spinner_finds_nothing},
        {"windows are cut between marks", windows_are_cut_between_marks},
        {"a full list is thinned out", a_full_list_is_thinned_out},
        {NULL, NULL},
};

const struct unit_suite unit_corunner = {"corunner", cases};
