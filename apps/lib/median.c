/* SPDX-License-Identifier: BSD-3-Clause */
#include "median.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Return the largest k such that the k-th smallest and k-th largest of n values enclose the median with 95 % (k counts from 1;
 * Binomial(n, 1/2), two-sided: 2 * P(B <= k - 1) <= 0.05).
 */
static size_t interval_rank(size_t n)
{
	double term = pow(0.5, (double)n), sum = 0;
	size_t k = 0;

	if (n > 1000) /* normal approximation: 2^-n underflows */
		return (size_t)floor((double)n / 2 - 0.98 * sqrt((double)n));
	while (k < n && 2 * (sum + term) <= 0.05) {
		sum += term;
		term = term * (double)(n - k) / (double)(k + 1);
		k++;
	}
	return k ? k : 1;
}

struct median median_of(double *values, size_t n)
{
	const size_t k = interval_rank(n);

	qsort(values, n, sizeof(*values), compare);
	return (struct median){
	        .median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2,
	        .low = values[k - 1],
	        .high = values[n - k],
	        .n = n,
	};
}

json_t *median_to_json(const struct median *m)
{
	return json_pack("{s:f,s:f,s:f,s:I}", "median", m->median, "low", m->low, "high", m->high, "n",
	                 (json_int_t)m->n);
}
