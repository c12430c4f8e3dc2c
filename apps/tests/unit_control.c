/* SPDX-License-Identifier: BSD-3-Clause */
/* Check the parts of the node's conversation: lines, strict fields, errors, medians, the list of the longest, counters. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fields.h"
#include "jsonline.h"
#include "longest.h"
#include "median.h"
#include "pmu.h"

struct pipe_reader {
	int write_end;
	struct jsonline_reader reader;
};

static struct pipe_reader open_pipe(void)
{
	int ends[2];
	struct pipe_reader p;

	if (pipe(ends) < 0 || jsonline_open(&p.reader, ends[0]) < 0)
		abort();
	p.write_end = ends[1];
	return p;
}

static void feed(struct pipe_reader *p, const char *text, size_t length)
{
	while (length) {
		const size_t part = length < 4096 ? length : 4096;

		UNIT_EQUAL(write(p->write_end, text, part), part);
		UNIT_EQUAL(jsonline_fill(&p->reader), 0);
		text += part;
		length -= part;
	}
}

static void close_pipe(struct pipe_reader *p)
{
	close(p->reader.fd);
	jsonline_close(&p->reader);
}

static void lines_come_whole(void)
{
	struct pipe_reader p = open_pipe();
	size_t length;
	char *line;

	feed(&p, "{\"a\"", 4);
	UNIT_EQUAL(jsonline_next(&p.reader, &line, &length), JSONLINE_NONE);
	feed(&p, ":1}\n\n{}\n{", 9);
	UNIT_EQUAL(jsonline_next(&p.reader, &line, &length), JSONLINE_LINE);
	UNIT_CHECK(strcmp(line, "{\"a\":1}") == 0 && length == 7);
	UNIT_EQUAL(jsonline_next(&p.reader, &line, &length), JSONLINE_LINE);
	UNIT_EQUAL(length, 0);
	UNIT_EQUAL(jsonline_next(&p.reader, &line, &length), JSONLINE_LINE);
	UNIT_CHECK(strcmp(line, "{}") == 0);
	UNIT_EQUAL(jsonline_next(&p.reader, &line, &length), JSONLINE_NONE);
	close(p.write_end);
	UNIT_EQUAL(jsonline_fill(&p.reader), 0);
	UNIT_EQUAL(jsonline_next(&p.reader, &line, &length), JSONLINE_END);
	close_pipe(&p);
}

static void too_long_line_is_reported_once_and_skipped(void)
{
	struct pipe_reader p = open_pipe();
	char chunk[4096];
	unsigned int reported = 0;
	size_t length;
	char *line;

	memset(chunk, 'x', sizeof(chunk));
	for (size_t sent = 0; sent < 3 * (size_t)JSONLINE_MAX_BYTES; sent += sizeof(chunk)) {
		feed(&p, chunk, sizeof(chunk));
		reported += jsonline_next(&p.reader, &line, &length) == JSONLINE_TOO_LONG;
	}
	UNIT_EQUAL(reported, 1);
	feed(&p, "rest\nnext\n", 10);
	UNIT_EQUAL(jsonline_next(&p.reader, &line, &length), JSONLINE_LINE);
	UNIT_CHECK(strcmp(line, "next") == 0);
	close(p.write_end);
	close_pipe(&p);
}

static void fields_are_strict(void)
{
	static const char *const keys[] = {"n", "x", "s", "c", NULL}, *const choices[] = {"one", "two", NULL};
	json_t *o = json_pack("{s:i,s:f,s:s,s:s}", "n", 7, "x", 2.5, "s", "text", "c", "two");
	struct node_error err;
	const char *text = NULL;
	unsigned int choice = 0;
	uint64_t n = 0;
	double x = 0;

	UNIT_EQUAL(fields_only(o, "", keys, &err), 0);
	UNIT_CHECK(fields_u64(o, "", "n", 0, 7, &n, &err) == 0 && n == 7);
	UNIT_CHECK(fields_real(o, "", "x", 0, 3, &x, &err) == 0 && x == 2.5);
	UNIT_CHECK(fields_string(o, "", "s", 4, &text, &err) == 0 && strcmp(text, "text") == 0);
	UNIT_CHECK(fields_choice(o, "", "c", choices, &choice, &err) == 0 && choice == 1);
	UNIT_CHECK(fields_u64(o, "", "absent", 0, 7, &n, &err) == 0 && n == 7);
	UNIT_EQUAL(fields_only(o, "", keys + 1, &err), -1);
	UNIT_CHECK(strcmp(err.where, "n") == 0);
	UNIT_EQUAL(fields_u64(o, "dut", "n", 8, 9, &n, &err), -1);
	UNIT_CHECK(strcmp(err.where, "dut.n") == 0);
	UNIT_EQUAL(fields_u64(o, "", "x", 0, 9, &n, &err), -1);
	UNIT_EQUAL(fields_real(o, "", "x", 3, 4, &x, &err), -1);
	UNIT_EQUAL(fields_real(o, "", "s", 0, 4, &x, &err), -1);
	UNIT_EQUAL(fields_string(o, "", "s", 3, &text, &err), -1);
	UNIT_EQUAL(fields_choice(o, "", "s", choices, &choice, &err), -1);
	UNIT_EQUAL(fields_require(o, "", "absent", &err), -1);
	json_decref(o);
}

static void errors_stay_utf8_when_cut(void)
{
	struct node_error err;
	char umlauts[600];

	for (int i = 0; i < 598; i += 2)
		memcpy(umlauts + i, "\xc3\xa4", 2);
	umlauts[598] = '\0';
	for (int shift = 0; shift < 2; shift++) {
		node_fail(&err, umlauts, "%s%s", shift ? "x" : "", umlauts);
		json_t *text = json_string(err.text), *where = json_string(err.where);

		UNIT_CHECK(text != NULL && where != NULL);
		json_decref(text);
		json_decref(where);
	}
}

static void median_has_its_interval(void)
{
	double values[11] = {5, 3, 9, 1, 7, 11, 2, 10, 4, 8, 6}, two[2] = {4, 1};
	struct median m = median_of(values, 11);

	UNIT_NEAR(m.median, 6, 0);
	/* P(fewer than 2 of 11 below the median) = 0.006, fewer than 3: 0.033 */
	UNIT_NEAR(m.low, 2, 0);
	UNIT_NEAR(m.high, 10, 0);
	m = median_of(two, 2);
	UNIT_NEAR(m.median, 2.5, 0);
	UNIT_NEAR(m.low, 1, 0);
	UNIT_NEAR(m.high, 4, 0);
}

static void longest_keeps_the_longest(void)
{
	static struct longest l;
	json_int_t first, second, third;

	longest_reset(&l, 3);
	for (uint64_t i = 0; i < 1000; i++)
		longest_offer(&l, i, (i * 619) % 1000, 1);
	json_t *list = longest_to_json(&l);

	UNIT_EQUAL(json_array_size(list), 3);
	UNIT_EQUAL(json_unpack(list, "[{s:I},{s:I},{s:I}]", "cycles", &first, "cycles", &second, "cycles",
	                       &third),
	           0);
	UNIT_CHECK(first == 999 && second == 998 && third == 997);
	json_decref(list);
	longest_reset(&l, 0);
	longest_offer(&l, 1, UINT64_MAX, 1);
	UNIT_EQUAL(l.n, 0);
}

/* Software events stand in for hardware events, which virtual machines often lack: same calls, same files. */
static void counters_count_and_absent_ones_say_why(void)
{
	struct pmu_event events[PMU_COUNTERS];
	struct pmu_reading from, to;
	double value = 0, share = 1;
	struct pmu pmu;

	for (int i = 0; i < PMU_COUNTERS; i++)
		events[i] = (struct pmu_event){.type = PMU_NO_EVENT};
	events[0] = (struct pmu_event){.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK};
	events[1] = (struct pmu_event){.type = PERF_TYPE_SOFTWARE, .config = UINT64_MAX};
	pmu_open(&pmu, events);
	UNIT_CHECK(pmu.reason[1][0] != '\0' && pmu.reason[2][0] != '\0');
	UNIT_CHECK(!pmu.user_readable);
	if (pmu.any) { /* not if perf_event_paranoid forbids it */
		volatile unsigned int spins = 0;

		pmu_read(&pmu, &from);
		while (spins < 10000000)
			spins++;
		pmu_read(&pmu, &to);
		UNIT_CHECK(pmu_difference(&from, &to, 0, &value, &share));
		UNIT_CHECK(value > 100000 && value < 60e9);
		UNIT_NEAR(share, 0, 0);
		UNIT_CHECK(!pmu_difference(&from, &from, 0, &value, &share));
	}
	pmu_close(&pmu);
}

static void multiplexed_counters_are_scaled(void)
{
	struct pmu_reading from = {0}, to = {0};
	double value, share;

	to.value[3] = 500;
	to.enabled_ns[3] = 1000;
	to.running_ns[3] = 250;
	UNIT_CHECK(pmu_difference(&from, &to, 3, &value, &share));
	UNIT_NEAR(value, 2000, 1e-9);
	UNIT_NEAR(share, 0.75, 1e-9);
}

static const struct unit_case cases[] = {
        {"lines come whole", lines_come_whole},
        {"too long line is reported once and skipped", too_long_line_is_reported_once_and_skipped},
        {"fields are strict", fields_are_strict},
        {"errors stay UTF-8 when cut", errors_stay_utf8_when_cut},
        {"median has its interval", median_has_its_interval},
        {"longest keeps the longest", longest_keeps_the_longest},
        {"counters count, and absent ones say why", counters_count_and_absent_ones_say_why},
        {"multiplexed counters are scaled", multiplexed_counters_are_scaled},
        {NULL, NULL},
};

const struct unit_suite unit_control = {"control", cases};
