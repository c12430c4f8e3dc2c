/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delays added to packets on purpose: a service time per packet, and hiccups, which hit a packet with a given probability. Both
 * come from streams of their own, so that one does not change with the other, and are in TSC cycles. The poll loop does the
 * waiting.
 *
 * The number of packets until the next hiccup is drawn from the geometric distribution, which equals an independent draw per
 * packet: a packet without a hiccup costs no draw.
 */
#ifndef DELAYS_H
#define DELAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

#define DELAY_LIST_MAX 1024

enum delay_kind { DELAY_NONE, DELAY_FIXED, DELAY_EXPONENTIAL, DELAY_BIMODAL, DELAY_LIST };

struct delay_distribution {
	enum delay_kind kind;
	double cycles; /* fixed: each; exponential: mean; bimodal: the short one */
	double long_cycles;
	double long_probability;
	uint32_t listed; /* list: one of these, with equal probability */
	double list[DELAY_LIST_MAX];
};

/* Mean of the distribution in cycles; 0 for DELAY_NONE. */
double delay_mean(const struct delay_distribution *distribution);

/* Draw one value, rounded to whole cycles. */
uint64_t delay_draw(const struct delay_distribution *distribution, struct rng *rng);

/* The configured delays; constant while lcores run. */
struct delays_config {
	struct delay_distribution service;
	uint64_t service_seed;
	struct delay_distribution hiccup;
	double hiccup_probability; /* per packet */
	uint64_t hiccup_seed;
};

/* Return the expected delay per packet, in cycles. */
double delays_mean(const struct delays_config *config);

/* Sums over the drawn delays. */
struct delay_counts {
	uint64_t packets; /* that went by */
	uint64_t service_cycles;
	uint64_t hiccups;
	uint64_t hiccup_cycles;
};

/* The streams of one lcore. */
struct delay_streams {
	const struct delays_config *config;
	uint64_t fixed_cycles;    /* service of the kind DELAY_FIXED */
	uint64_t hiccup_distance; /* packets up to and including the next hiccup; never left at 0 */
	bool service_drawn;       /* any other kind */
	struct rng service;
	struct rng hiccup;
	uint64_t service_seed; /* seed of this lcore, as given to rng_seed() */
	uint64_t hiccup_seed;
};

/*
 * Restart the streams of `lcore`; `config` must outlive them. The seeds follow from the configured ones and the lcore, are
 * below 2^63 (so that JSON holds them), and differ between lcores and between service and hiccups.
 */
void delay_streams_begin(struct delay_streams *streams, const struct delays_config *config,
                         unsigned int lcore);

/* Return the service time of n packets together, if it is drawn. */
uint64_t delays_service(struct delay_streams *streams, uint32_t n);

/* Return the hiccups of the next n packets, of which at least one has one; booked in `counts`. */
uint64_t delays_hiccups(struct delay_streams *streams, uint32_t n, struct delay_counts *counts);

/* Return the delay of the next n packets together in cycles, booked in `counts`. */
static inline uint64_t delays_due(struct delay_streams *streams, uint32_t n, struct delay_counts *counts)
{
	uint64_t cycles = n * streams->fixed_cycles;

	if (streams->service_drawn)
		cycles = delays_service(streams, n);
	counts->packets += n;
	counts->service_cycles += cycles;
	if (__builtin_expect(streams->hiccup_distance > n, 1))
		streams->hiccup_distance -= n;
	else
		cycles += delays_hiccups(streams, n, counts);
	return cycles;
}

#endif
