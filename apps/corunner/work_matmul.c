/* SPDX-License-Identifier: BSD-3-Clause */
/* Multiplication of two matrices of doubles, repeated: the same work each time, so the rate is the speed. */
#include "work.h"

#include <math.h>
#include <string.h>

/* Multiplications and additions per step, about 10 us. */
#define STEP_PRODUCTS 65536

static void matmul_row(const double *restrict a, const double *restrict b, double *restrict c, size_t n,
                       size_t i)
{
	double *row = c + i * n;

	memset(row, 0, n * sizeof(*row));
	for (size_t k = 0; k < n; k++) {
		const double factor = a[i * n + k];
		const double *with = b + k * n;

		for (size_t j = 0; j < n; j++)
			row[j] += factor * with[j];
	}
}

static uint64_t matmul_step(struct work *work)
{
	const size_t n = work->size, rows = n * n < STEP_PRODUCTS ? STEP_PRODUCTS / (n * n) : 1;
	double *a = work->memory, *b = a + n * n, *c = b + n * n;

	for (size_t row = 0; row < rows; row++) {
		matmul_row(a, b, c, n, work->position);
		work->position = work->position + 1 < n ? work->position + 1 : 0;
	}
	return rows;
}

void matmul_prepare(struct work *work)
{
	const size_t n = (size_t)sqrt((double)work->footprint_bytes / (3 * sizeof(double)));
	double *a = work->memory;

	/* small integers: products and sums are exact, and nothing becomes infinite or denormal */
	for (size_t i = 0; i < 2 * n * n; i++)
		a[i] = (double)(i % 7);
	work->size = n;
	work->per_unit = n;
	work->footprint_bytes = 3 * n * n * sizeof(double);
	work->unit = "iterations";
	work->step = matmul_step;
}
