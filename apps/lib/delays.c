/* SPDX-License-Identifier: BSD-3-Clause */
#include "delays.h"

#include <math.h>
#include <pthread.h>

static struct rng_exponential layers;

static void make_layers(void)
{
	rng_exponential_init(&layers);
}

double delay_mean(const struct delay_distribution *d)
{
	double sum = 0;

	switch (d->kind) {
	case DELAY_NONE:
		return 0;
	case DELAY_FIXED:
	case DELAY_EXPONENTIAL:
		return d->cycles;
	case DELAY_BIMODAL:
		return d->cycles + d->long_probability * (d->long_cycles - d->cycles);
	case DELAY_LIST:
		break;
	}
	for (uint32_t i = 0; i < d->listed; i++)
		sum += d->list[i];
	return sum / d->listed;
}

static double draw(const struct delay_distribution *d, struct rng *rng)
{
	switch (d->kind) {
	case DELAY_NONE:
		return 0;
	case DELAY_FIXED:
		return d->cycles;
	case DELAY_EXPONENTIAL:
		return d->cycles * rng_exponential(&layers, rng);
	case DELAY_BIMODAL:
		return rng_uniform(rng) < d->long_probability ? d->long_cycles : d->cycles;
	case DELAY_LIST:
		break;
	}
	return d->list[rng_below(rng, d->listed)];
}

uint64_t delay_draw(const struct delay_distribution *distribution, struct rng *rng)
{
	return (uint64_t)llround(draw(distribution, rng));
}

double delays_mean(const struct delays_config *config)
{
	return delay_mean(&config->service) + config->hiccup_probability * delay_mean(&config->hiccup);
}

/*
 * Draw the packets up to and including the next hiccup: geometric on 1, 2, ..., by inversion. 1 - u lies in (0, 1]. With
 * probability 1 the logarithm below is minus infinity, and every packet has a hiccup.
 */
static uint64_t draw_distance(double probability, struct rng *rng)
{
	if (probability <= 0)
		return UINT64_MAX;
	const double distance = floor(log1p(-rng_uniform(rng)) / log1p(-probability));

	return distance < 0x1p63 ? 1 + (uint64_t)distance : UINT64_MAX;
}

/* Return the seed of stream `stream`: rng_seed() spreads neighbouring seeds and lcores. */
static uint64_t stream_seed(uint64_t seed, unsigned int stream)
{
	struct rng rng;

	rng_seed(&rng, seed);
	rng_seed(&rng, rng_next(&rng) + stream);
	return rng_next(&rng) >> 1;
}

void delay_streams_begin(struct delay_streams *streams, const struct delays_config *config,
                         unsigned int lcore)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_layers);
	*streams = (struct delay_streams){
	        .config = config,
	        .fixed_cycles =
	                config->service.kind == DELAY_FIXED ? (uint64_t)llround(config->service.cycles) : 0,
	        .service_drawn = config->service.kind != DELAY_NONE && config->service.kind != DELAY_FIXED,
	        .service_seed = stream_seed(config->service_seed, 2 * lcore),
	        .hiccup_seed = stream_seed(config->hiccup_seed, 2 * lcore + 1),
	};
	rng_seed(&streams->service, streams->service_seed);
	rng_seed(&streams->hiccup, streams->hiccup_seed);
	streams->hiccup_distance = draw_distance(config->hiccup_probability, &streams->hiccup);
}

uint64_t delays_service(struct delay_streams *streams, uint32_t n)
{
	uint64_t cycles = 0;

	for (uint32_t i = 0; i < n; i++)
		cycles += delay_draw(&streams->config->service, &streams->service);
	return cycles;
}

uint64_t delays_hiccups(struct delay_streams *streams, uint32_t n, struct delay_counts *counts)
{
	const struct delays_config *config = streams->config;
	uint64_t cycles = 0;

	while (streams->hiccup_distance <= n) {
		n -= (uint32_t)streams->hiccup_distance;
		cycles += delay_draw(&config->hiccup, &streams->hiccup);
		counts->hiccups++;
		streams->hiccup_distance = draw_distance(config->hiccup_probability, &streams->hiccup);
	}
	streams->hiccup_distance -= n;
	counts->hiccup_cycles += cycles;
	return cycles;
}
