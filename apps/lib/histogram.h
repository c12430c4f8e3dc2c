/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Histograms of non-negative integers.
 *
 * `struct histogram` has the counts-array layout of the public HdrHistogram algorithm (hdrhistogram.org): a value keeps
 * `significant_digits` decimal digits whatever its size, so percentiles of latencies from 10 ns to 10 s are equally precise. A
 * reader that builds an HdrHistogram with the same three parameters finds every count at the same index.
 *
 * One lcore records. Another thread may read meanwhile and sees each counter whole, but not all of the same moment. Recording
 * allocates and logs nothing.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

struct histogram {
	uint64_t *counts;
	uint64_t sub_bucket_mask;
	uint32_t counts_len;
	uint8_t unit_magnitude;
	uint8_t sub_bucket_half_count_magnitude;
	uint8_t significant_digits;
	uint64_t lowest;
	uint64_t highest;
	uint64_t total;
	uint64_t refused; /* values that histogram_record() returned false for */
	uint64_t min;     /* of recorded values; UINT64_MAX while total is 0 */
	uint64_t max;
	uint64_t sum; /* wraps beyond 2^64: 10^9 values of 10 s in ns still fit */
};

/*
 * Make an empty histogram that distinguishes values from `lowest` (>= 1; below it all are one) up to at least `highest` (>= 2 *
 * lowest, <= 2^62) with `significant_digits` (1..5) digits. Returns 0, -EINVAL for parameters out of these ranges, or -ENOMEM.
 * Memory: about 8 * 2 * 10^digits bytes per doubling.
 */
int histogram_init(struct histogram *h, uint64_t lowest, uint64_t highest, unsigned int significant_digits);

/* Clear the counts; parameters stay. */
void histogram_reset(struct histogram *h);

/* Free the memory; a zeroed or freed histogram may be freed again. */
void histogram_free(struct histogram *h);

/* Return the index of the counts array for `value`; it can be >= counts_len if the value is out of range. */
static inline uint32_t histogram_index(const struct histogram *h, uint64_t value)
{
	/* value | mask has its highest bit at or above the top of bucket 0, so the difference is never
	 * negative. */
	const unsigned int bits = 64 - (unsigned int)__builtin_clzll(value | h->sub_bucket_mask);
	const unsigned int bucket = bits - h->unit_magnitude - (h->sub_bucket_half_count_magnitude + 1u);
	const uint64_t sub_bucket = value >> (bucket + h->unit_magnitude);

	/* (bucket + 1) * half_count + (sub_bucket - half_count): the halves below half_count exist in bucket
	 * 0 only */
	return (uint32_t)(((uint64_t)bucket << h->sub_bucket_half_count_magnitude) + sub_bucket);
}

/* Return the lowest value with the same index. */
uint64_t histogram_lowest_at(const struct histogram *h, uint32_t index);

/* Count one value. Returns false, and counts it in `refused`, if it lies beyond the range of the counts array. */
static inline bool histogram_record(struct histogram *h, uint64_t value)
{
	const uint32_t index = histogram_index(h, value);

	if (__builtin_expect(index >= h->counts_len, 0)) {
		h->refused++;
		return false;
	}
	h->counts[index]++;
	h->total++;
	h->sum += value;
	if (value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	return true;
}

/* Count one value `times` times. Returns false, and counts them in `refused`, as above. */
static inline bool histogram_record_times(struct histogram *h, uint64_t value, uint64_t times)
{
	const uint32_t index = histogram_index(h, value);

	if (__builtin_expect(index >= h->counts_len, 0)) {
		h->refused += times;
		return false;
	}
	h->counts[index] += times;
	h->total += times;
	h->sum += value * times;
	if (times > 0 && value < h->min)
		h->min = value;
	if (times > 0 && value > h->max)
		h->max = value;
	return true;
}

/* Count n values: cheaper than one by one, because shared fields change once. */
static inline void histogram_record_all(struct histogram *h, const uint64_t *values, unsigned int n)
{
	/* Copies: otherwise the compiler must assume that the stores into counts change *h. */
	const struct histogram shape = *h;
	uint64_t *const counts = shape.counts;
	uint64_t sum = 0, min = h->min, max = h->max;
	unsigned int refused = 0;

	for (unsigned int i = 0; i < n; i++) {
		const uint64_t value = values[i];
		const uint32_t index = histogram_index(&shape, value);

		if (__builtin_expect(index >= shape.counts_len, 0)) {
			refused++;
			continue;
		}
		counts[index]++;
		sum += value;
		min = value < min ? value : min;
		max = value > max ? value : max;
	}
	h->total += n - refused;
	h->refused += refused;
	h->sum += sum;
	h->min = min;
	h->max = max;
}

/*
 * Return the highest value equivalent to the value below which `percentile` (0..100) percent of the recorded values lie, as
 * HdrHistogram defines it; 0 if nothing was recorded.
 */
uint64_t histogram_percentile(const struct histogram *h, double percentile);

/*
 * Return the object H of node-protocol.md, a new reference; NULL when out of memory. An empty histogram has no `min` and
 * `max`; `refused` is omitted if 0.
 */
json_t *histogram_to_json(const struct histogram *h, const char *unit);

/* Return plain values: {"unit":unit,"values":[[value,count],...]} of counts[value], value 0..n-1, without zero counts. */
json_t *value_counts_to_json(const uint64_t *counts, size_t n, const char *unit);

#endif
