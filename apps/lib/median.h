/* SPDX-License-Identifier: BSD-3-Clause */
/* Median with its 95 % interval from order statistics: no assumption about the distribution of the values. */
#ifndef MEDIAN_H
#define MEDIAN_H

#include <stddef.h>
#include <jansson.h>

struct median {
	double median;
	double low; /* with n < 6 the interval is the whole range: less than 95 % cannot be avoided */
	double high;
	size_t n;
};

/* Sorts `values` in place. n >= 1. */
struct median median_of(double *values, size_t n);

/* {"median":...,"low":...,"high":...,"n":...}, a new reference. */
json_t *median_to_json(const struct median *m);

#endif
