/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "histogram.h"

static void refuses_bad_parameters(void)
{
	struct histogram h = {0};

	UNIT_EQUAL(histogram_init(&h, 0, 100, 3), -EINVAL);
	UNIT_EQUAL(histogram_init(&h, 1, 1, 3), -EINVAL);
	UNIT_EQUAL(histogram_init(&h, 1, 100, 0), -EINVAL);
	UNIT_EQUAL(histogram_init(&h, 1, 100, 6), -EINVAL);
	UNIT_EQUAL(histogram_init(&h, 1, 1ull << 63, 3), -EINVAL);
	UNIT_EQUAL(histogram_init(&h, 1ull << 50, 1ull << 60, 5), -EINVAL);
	histogram_free(&h);
}

static void counts_and_refuses(void)
{
	struct histogram h;

	UNIT_EQUAL(histogram_init(&h, 1, 1000000, 3), 0);
	UNIT_CHECK(histogram_record(&h, 0));
	UNIT_CHECK(histogram_record(&h, 1000000));
	UNIT_CHECK(!histogram_record(&h, 1ull << 40));
	UNIT_CHECK(!histogram_record(&h, UINT64_MAX));
	UNIT_EQUAL(h.total, 2);
	UNIT_EQUAL(h.refused, 2);
	UNIT_EQUAL(h.min, 0);
	UNIT_EQUAL(h.max, 1000000);
	UNIT_EQUAL(h.sum, 1000000);
	histogram_reset(&h);
	UNIT_EQUAL(h.total + h.refused + h.sum, 0);
	UNIT_EQUAL(histogram_percentile(&h, 50), 0);
	histogram_free(&h);
}

static bool is_alike(const struct histogram *a, const struct histogram *b)
{
	return a->total == b->total && a->refused == b->refused && a->min == b->min && a->max == b->max &&
	       a->sum == b->sum;
}

/* Recording several at once has the same result as one by one. */
static void many_are_as_one_by_one(void)
{
	uint64_t values[100];
	struct histogram one, all, times;

	UNIT_EQUAL(histogram_init(&one, 1, 100000, 3), 0);
	UNIT_EQUAL(histogram_init(&all, 1, 100000, 3), 0);
	UNIT_EQUAL(histogram_init(&times, 1, 100000, 3), 0);
	for (unsigned int n = 0; n <= 100; n += 20) {
		for (unsigned int i = 0; i < n; i++)
			values[i] =
			        i % 10 == 9 ? 1000000 : (uint64_t)(i + 1) * i * n / 7; /* some are refused */
		for (unsigned int i = 0; i < n; i++)
			for (unsigned int k = 0; k < i % 3; k++)
				histogram_record(&one, values[i]);
		for (unsigned int i = 0; i < n; i++)
			UNIT_EQUAL(histogram_record_times(&times, values[i], i % 3), values[i] < 131072);
		for (unsigned int k = 1; k <= 2; k++) {
			uint64_t some[100];
			unsigned int picked = 0;

			for (unsigned int i = 0; i < n; i++)
				if (i % 3 >= k)
					some[picked++] = values[i];
			histogram_record_all(&all, some, picked);
		}
	}
	UNIT_CHECK(one.total > 100 && one.refused > 10);
	UNIT_CHECK(memcmp(one.counts, all.counts, one.counts_len * sizeof(one.counts[0])) == 0);
	UNIT_CHECK(memcmp(one.counts, times.counts, one.counts_len * sizeof(one.counts[0])) == 0);
	UNIT_CHECK(is_alike(&one, &all) && is_alike(&one, &times));
	histogram_free(&one);
	histogram_free(&all);
	histogram_free(&times);
}

static void writes_sparse_json(void)
{
	struct histogram h;
	json_t *object, *expected;

	UNIT_EQUAL(histogram_init(&h, 1, 1000000, 3), 0);
	histogram_record(&h, 7);
	histogram_record(&h, 7);
	histogram_record(&h, 4096);
	object = histogram_to_json(&h, "ns");
	expected = json_loads(
	        "{\"unit\":\"ns\",\"lowest\":1,\"highest\":1000000,\"significant_digits\":3,\"total\":3,"
	        "\"min\":7,\"max\":4096,\"sum\":4110,\"counts\":[[7,2],[3072,1]]}",
	        0, NULL);
	UNIT_CHECK(expected != NULL && json_equal(object, expected));
	json_decref(object);
	json_decref(expected);
	histogram_free(&h);
}

static void writes_plain_values(void)
{
	const uint64_t counts[] = {5, 0, 2};
	json_t *object = value_counts_to_json(counts, 3, "packets");
	json_t *expected = json_loads("{\"unit\":\"packets\",\"values\":[[0,5],[2,2]]}", 0, NULL);

	UNIT_CHECK(expected != NULL && json_equal(object, expected));
	json_decref(object);
	json_decref(expected);
}

static const struct unit_case cases[] = {
        {"refuses bad parameters", refuses_bad_parameters}, {"counts and refuses", counts_and_refuses},
        {"many are as one by one", many_are_as_one_by_one}, {"writes sparse JSON", writes_sparse_json},
        {"writes plain values", writes_plain_values},       {NULL, NULL},
};

const struct unit_suite unit_histogram = {"histogram", cases};
