/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seeded random numbers, cheap enough for the poll loop. The same seed gives the same numbers on every machine. Not for
 * secrets.
 */
#ifndef RNG_H
#define RNG_H

#include <stddef.h>
#include <stdint.h>

/* xoshiro256++ 1.0 (Blackman and Vigna, ACM TOMS 47(4), 2021): period 2^256 - 1. */
struct rng {
	uint64_t state[4];
};

/* Any seed will do, including 0: splitmix64 spreads it over the state. */
void rng_seed(struct rng *rng, uint64_t seed);

static inline uint64_t rng_rotate_left(uint64_t x, unsigned int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t *s = rng->state;
	const uint64_t result = rng_rotate_left(s[0] + s[3], 23) + s[0];
	const uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rng_rotate_left(s[3], 45);
	return result;
}

/* Uniform in [0, 1), 53 bits. */
static inline double rng_uniform(struct rng *rng)
{
	return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

/* Uniform in [0, n), n >= 1; the bias is at most n / 2^64 (Lemire's multiply-shift without the rejection
 * step). */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)rng_next(rng) * n) >> 64);
}

/* Put `n` elements of `size` bytes (at most 16) into random order (Fisher and Yates). */
void rng_shuffle(struct rng *rng, void *elements, size_t n, size_t size);

/*
 * Layers of the ziggurat under exp(-x) (Marsaglia and Tsang, J. Stat. Software 5(8), 2000): 256 regions of
 * equal area. edge[i] is the right edge of layer i, height[i] = exp(-edge[i]); layer 0 carries the tail.
 */
struct rng_exponential {
	double edge[257];
	double height[257];
};

void rng_exponential_init(struct rng_exponential *layers);

/* Draw the 1 in 50 values that need more than one comparison. */
double rng_exponential_slow(const struct rng_exponential *layers, struct rng *rng, unsigned int layer,
                            double x);

/* Draw from the exponential distribution with mean 1. Layer and position come from different bits of one draw. */
static inline double rng_exponential(const struct rng_exponential *layers, struct rng *rng)
{
	const uint64_t bits = rng_next(rng);
	const unsigned int layer = bits & 255;
	const double x = (double)(bits >> 11) * 0x1p-53 * layers->edge[layer];

	if (__builtin_expect(x < layers->edge[layer + 1], 1))
		return x;
	/* a copy, so that the state of a loop's generator can stay in registers */
	struct rng copy = *rng;
	const double slow = rng_exponential_slow(layers, &copy, layer, x);

	*rng = copy;
	return slow;
}

#endif
