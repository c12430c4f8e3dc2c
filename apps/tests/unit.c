/* SPDX-License-Identifier: BSD-3-Clause */
/* The unit-test program: `tests-unit [SUITE...]`. The last line is `N passed, M failed`; status 1 when M > 0.
 */
#include "unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

extern const struct unit_suite unit_accounting, unit_host_check, unit_control, unit_corunner, unit_delays,
        unit_handoff, unit_histogram, unit_packets, unit_pacing, unit_probe, unit_qwait, unit_rebalance,
        unit_rng, unit_rss, unit_sequence, unit_series, unit_shape, unit_tsc_offset, unit_tunnel;

static const struct unit_suite *const suites[] = {
        &unit_accounting, &unit_host_check, &unit_control,    &unit_corunner, &unit_delays,
        &unit_handoff,    &unit_histogram,  &unit_packets,    &unit_pacing,   &unit_probe,
        &unit_qwait,      &unit_rebalance,  &unit_rng,        &unit_rss,      &unit_sequence,
        &unit_series,     &unit_shape,      &unit_tsc_offset, &unit_tunnel,
};

#define SUITES (sizeof(suites) / sizeof(suites[0]))

static bool case_failed;

void unit_fail(const char *file, int line, const char *format, ...)
{
	va_list arguments;

	case_failed = true;
	printf("%s:%d: ", file, line);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

static bool is_wanted(const char *suite, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], suite) == 0)
			return true;
	return argc < 2;
}

static bool is_known(const char *suite)
{
	for (size_t i = 0; i < SUITES; i++)
		if (strcmp(suites[i]->name, suite) == 0)
			return true;
	return false;
}

/* Return the number of failed cases, and add the others to *passed. */
static unsigned int run_suite(const struct unit_suite *suite, unsigned int *passed)
{
	unsigned int failed = 0;

	for (const struct unit_case *test = suite->cases; test->name != NULL; test++) {
		case_failed = false;
		test->run();
		printf("%s  %s: %s\n", case_failed ? "FAIL" : "ok  ", suite->name, test->name);
		failed += case_failed;
		*passed += !case_failed;
	}
	return failed;
}

int main(int argc, char **argv)
{
	unsigned int passed = 0, failed = 0;

	for (int i = 1; i < argc; i++) {
		if (!is_known(argv[i])) {
			fprintf(stderr, "tests-unit: no suite '%s'\n", argv[i]);
			return 2;
		}
	}
	for (size_t i = 0; i < SUITES; i++)
		if (is_wanted(suites[i]->name, argc, argv))
			failed += run_suite(suites[i], &passed);
	printf("%u passed, %u failed\n", passed, failed);
	return failed > 0;
}
