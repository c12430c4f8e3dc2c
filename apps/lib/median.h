/* SPDX-License-Identifier: BSD-3-Clause */
/* Median with its 95 % interval from order statistics, without an assumption about the distribution. */
#ifndef MEDIAN_H
#define MEDIAN_H

#include <stddef.h>
#include <jansson.h>

struct median {
	double median;
	double low; /* with n < 6 the interval is the whole range, which covers less than 95 % */
	double high;
	size_t n;
};

/* Return the median; sorts `values` in place. n >= 1. */
struct median median_of(double *values, size_t n);

/* Return {"median":...,"low":...,"high":...,"n":...}, a new reference. */
json_t *median_to_json(const struct median *m);

#endif
