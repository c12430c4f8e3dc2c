/* SPDX-License-Identifier: BSD-3-Clause */
#include "frame_sizes.h"

#include <math.h>
#include <stdio.h>

#include "fields.h"
#include "packets.h"
#include "rng.h"

#define WEIGHT_MAX 1000000

static int read_size(const json_t *object, const char *at, struct frame_size *size, struct node_error *err)
{
	static const struct field fields[] = {
	        {"bytes", FIELD_NUMBER, FIELD_OF(struct frame_size, bytes), .min = PACKET_FRAME_BYTES_MIN,
	         .max = PACKET_FRAME_BYTES_MAX, .required = true},
	        {"weight", FIELD_NUMBER, FIELD_OF(struct frame_size, weight), .min = 1, .max = WEIGHT_MAX},
	        {0}};

	size->weight = 1;
	return fields_read(object, at, fields, size, err);
}

int frame_sizes_read(const json_t *list, const char *at, struct frame_sizes *sizes, struct node_error *err)
{
	const size_t n = json_array_size(list);
	char path[64];

	if (!list)
		return 0;
	if (!json_is_array(list) || n < 1 || n > FRAME_SIZES_MAX)
		return node_fail(err, at, "must be an array of 1..%u sizes", FRAME_SIZES_MAX);
	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s[%zu]", at, i);
		if (read_size(json_array_get(list, i), path, &sizes->sizes[i], err))
			return -1;
	}
	sizes->count = (unsigned int)n;
	return 0;
}

static double total_weight(const struct frame_sizes *sizes)
{
	double total = 0;

	for (unsigned int i = 0; i < sizes->count; i++)
		total += sizes->sizes[i].weight;
	return total;
}

double frame_sizes_mean(const struct frame_sizes *sizes)
{
	double bytes = 0;

	for (unsigned int i = 0; i < sizes->count; i++)
		bytes += (double)sizes->sizes[i].bytes * sizes->sizes[i].weight;
	return bytes / total_weight(sizes);
}

uint32_t frame_sizes_largest(const struct frame_sizes *sizes)
{
	uint32_t largest = 0;

	for (unsigned int i = 0; i < sizes->count; i++)
		if (sizes->sizes[i].bytes > largest)
			largest = sizes->sizes[i].bytes;
	return largest;
}

void frame_sizes_deal(const struct frame_sizes *sizes, struct rng *rng, uint8_t *order, uint32_t count)
{
	const double total = total_weight(sizes);
	double before = 0;
	uint32_t place = 0;

	for (unsigned int i = 0; i < sizes->count; i++) {
		before += sizes->sizes[i].weight;
		for (const uint32_t end = (uint32_t)lround(before / total * count); place < end; place++)
			order[place] = (uint8_t)i;
	}
	rng_shuffle(rng, order, count, sizeof(*order));
}
