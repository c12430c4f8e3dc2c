/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of the unit tests. A suite is a file unit_<name>.c that defines `const struct unit_suite unit_<name>`, listed in
 * unit.c. A case fails if one of its checks fails; it continues, so that all failing checks are printed.
 */
#ifndef UNIT_H
#define UNIT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unit_case {
	const char *name;
	void (*run)(void);
};

struct unit_suite {
	const char *name;
	const struct unit_case *cases; /* ends with a case whose name is NULL */
};

/* Note and print a failed check of the running case. */
void unit_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define UNIT_CHECK(condition)                                                                                \
	do {                                                                                                 \
		if (!(condition))                                                                            \
			unit_fail(__FILE__, __LINE__, "%s", #condition);                                     \
	} while (0)

/* Integers of up to 64 bits. */
#define UNIT_EQUAL(found, expected)                                                                          \
	do {                                                                                                 \
		const int64_t found_ = (int64_t)(found), expected_ = (int64_t)(expected);                    \
		if (found_ != expected_)                                                                     \
			unit_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #found, (long long)found_,     \
			          (long long)expected_);                                                     \
	} while (0)

#define UNIT_NEAR(found, expected, tolerance)                                                                \
	do {                                                                                                 \
		const double found_ = (double)(found), expected_ = (double)(expected);                       \
		if (!(fabs(found_ - expected_) <= (tolerance)))                                              \
			unit_fail(__FILE__, __LINE__, "%s is %.9g, not within %.3g of %.9g", #found, found_, \
			          (double)(tolerance), expected_);                                           \
	} while (0)

#endif
