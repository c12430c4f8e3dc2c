/* SPDX-License-Identifier: BSD-3-Clause */
#include "histogram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HIGHEST_MAX (1ull << 62)

static unsigned int log2_ceil(uint64_t value)
{
	return value <= 1 ? 0 : 64 - (unsigned int)__builtin_clzll(value - 1);
}

/* Return the doublings from the top of bucket 0 until `highest` fits. */
static uint32_t bucket_count(uint64_t highest, uint64_t bucket0_end)
{
	uint32_t count = 1;

	for (uint64_t end = bucket0_end; end <= highest; end <<= 1)
		count++;
	return count;
}

int histogram_init(struct histogram *h, uint64_t lowest, uint64_t highest, unsigned int significant_digits)
{
	uint64_t single_unit_values = 2; /* values that must be distinguished one by one: 2 * 10^digits */
	uint64_t sub_bucket_count;

	if (significant_digits < 1 || significant_digits > 5 || lowest < 1 || highest > HIGHEST_MAX ||
	    lowest > highest / 2)
		return -EINVAL;
	for (unsigned int i = 0; i < significant_digits; i++)
		single_unit_values *= 10;
	sub_bucket_count = 1ull << log2_ceil(single_unit_values);

	*h = (struct histogram){
	        .lowest = lowest,
	        .highest = highest,
	        .significant_digits = (uint8_t)significant_digits,
	        .unit_magnitude = (uint8_t)(63 - __builtin_clzll(lowest)),
	        .sub_bucket_half_count_magnitude = (uint8_t)(log2_ceil(single_unit_values) - 1),
	};
	if (h->unit_magnitude + h->sub_bucket_half_count_magnitude + 1 > 61)
		return -EINVAL;
	h->sub_bucket_mask = (sub_bucket_count - 1) << h->unit_magnitude;
	h->counts_len = (bucket_count(highest, sub_bucket_count << h->unit_magnitude) + 1) *
	                (uint32_t)(sub_bucket_count / 2);
	h->counts = calloc(h->counts_len, sizeof(*h->counts));
	if (h->counts == NULL)
		return -ENOMEM;
	histogram_reset(h);
	return 0;
}

void histogram_reset(struct histogram *h)
{
	/* Nothing lies above the largest value, and a histogram of large range mostly holds small ones. */
	if (h->total > 0)
		memset(h->counts, 0, (histogram_index(h, h->max) + 1) * sizeof(*h->counts));
	h->total = h->refused = h->max = h->sum = 0;
	h->min = UINT64_MAX;
}

void histogram_free(struct histogram *h)
{
	free(h->counts);
	h->counts = NULL;
}

/* Return the width of the range of values that share index `index`, as a power of two. */
static unsigned int width_log2_at(const struct histogram *h, uint32_t index)
{
	const uint32_t bucket = index >> h->sub_bucket_half_count_magnitude;

	return (bucket == 0 ? 0 : bucket - 1) + h->unit_magnitude;
}

uint64_t histogram_lowest_at(const struct histogram *h, uint32_t index)
{
	const uint32_t half_count = 1u << h->sub_bucket_half_count_magnitude;
	const uint32_t bucket = index >> h->sub_bucket_half_count_magnitude;
	const uint64_t sub_bucket = bucket == 0 ? index : (index & (half_count - 1)) + half_count;

	return sub_bucket << width_log2_at(h, index);
}

uint64_t histogram_percentile(const struct histogram *h, double percentile)
{
	uint64_t wanted = (uint64_t)(percentile / 100.0 * (double)h->total + 0.5);
	uint64_t seen = 0;

	if (wanted < 1)
		wanted = 1;
	for (uint32_t i = 0; i < h->counts_len; i++) {
		seen += h->counts[i];
		if (seen >= wanted)
			return histogram_lowest_at(h, i) +
			       (percentile > 0 ? (1ull << width_log2_at(h, i)) - 1 : 0);
	}
	return 0;
}

/* Return [[index,count],...] of the counts that are not zero. */
static json_t *sparse_counts(const uint64_t *counts, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		if (counts[i] == 0)
			continue;
		json_t *pair = json_pack("[I, I]", (json_int_t)i, (json_int_t)counts[i]);
		if (json_array_append_new(list, pair) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

json_t *histogram_to_json(const struct histogram *h, const char *unit)
{
	json_t *object =
	        json_pack("{s:s, s:I, s:I, s:i, s:I, s:I, s:o}", "unit", unit, "lowest",
	                  (json_int_t)h->lowest, "highest", (json_int_t)h->highest, "significant_digits",
	                  h->significant_digits, "total", (json_int_t)h->total, "sum", (json_int_t)h->sum,
	                  "counts", sparse_counts(h->counts, h->counts_len));

	if (object != NULL && h->total > 0) {
		json_object_set_new(object, "min", json_integer((json_int_t)h->min));
		json_object_set_new(object, "max", json_integer((json_int_t)h->max));
	}
	if (object != NULL && h->refused > 0)
		json_object_set_new(object, "refused", json_integer((json_int_t)h->refused));
	return object;
}

json_t *value_counts_to_json(const uint64_t *counts, size_t n, const char *unit)
{
	return json_pack("{s:s, s:o}", "unit", unit, "values", sparse_counts(counts, n));
}
