/* SPDX-License-Identifier: BSD-3-Clause */
#include "rng.h"

#include <math.h>
#include <string.h>

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014) */
static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

void rng_seed(struct rng *rng, uint64_t seed)
{
	for (unsigned int i = 0; i < 4; i++)
		rng->state[i] = splitmix(&seed);
}

void rng_shuffle(struct rng *rng, void *elements, size_t n, size_t size)
{
	char *base = elements;
	char held[16];

	for (size_t left = n; left > 1; left--) {
		char *last = base + (left - 1) * size;
		char *chosen = base + rng_below(rng, left) * size;

		memcpy(held, last, size);
		memcpy(last, chosen, size);
		memcpy(chosen, held, size);
	}
}

/* Start of the tail, and the area of each region, for 256 layers (table 1 of the paper). */
#define TAIL_START  7.69711747013104972
#define REGION_AREA 0.0039496598225815571993

void rng_exponential_init(struct rng_exponential *layers)
{
	/* Layer 0 is as wide as a rectangle of the same height with the area of box and tail together. */
	layers->edge[0] = REGION_AREA / exp(-TAIL_START);
	layers->edge[1] = TAIL_START;
	for (unsigned int i = 2; i < 256; i++)
		layers->edge[i] = -log(exp(-layers->edge[i - 1]) + REGION_AREA / layers->edge[i - 1]);
	layers->edge[256] = 0;
	for (unsigned int i = 0; i <= 256; i++)
		layers->height[i] = exp(-layers->edge[i]);
}

double rng_exponential_slow(const struct rng_exponential *layers, struct rng *rng, unsigned int layer,
                            double x)
{
	const double *height = layers->height;

	if (layer ==
	    0) /* beyond the start of the tail the distribution has the same shape: it has no memory */
		return TAIL_START - log1p(-rng_uniform(rng));
	/* in the wedge of the layer: below the curve, or drawn again */
	if (height[layer] + rng_uniform(rng) * (height[layer + 1] - height[layer]) < exp(-x))
		return x;
	return rng_exponential(layers, rng);
}
