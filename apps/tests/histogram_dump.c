/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests-histogram LOWEST HIGHEST DIGITS: record the integers of standard input, write the histogram as JSON
 * and then the percentiles 0, 1, ..., 100, one a line. For comparison with other implementations.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "histogram.h"

int main(int argc, char **argv)
{
	struct histogram h;
	uint64_t value;

	if (argc != 4 || histogram_init(&h, strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10),
	                                (unsigned int)atoi(argv[3])) != 0) {
		fprintf(stderr, "usage: tests-histogram LOWEST HIGHEST DIGITS < VALUES\n");
		return 2;
	}
	while (scanf("%" SCNu64, &value) == 1)
		histogram_record(&h, value);

	json_t *object = histogram_to_json(&h, "ns");
	json_dumpf(object, stdout, JSON_COMPACT);
	putchar('\n');
	for (unsigned int percent = 0; percent <= 100; percent++)
		printf("%" PRIu64 "\n", histogram_percentile(&h, percent));
	json_decref(object);
	histogram_free(&h);
	return 0;
}
