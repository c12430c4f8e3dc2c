/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delays that are added to packets on purpose: a service time for each packet, and hiccups, which strike a packet with a
 * given probability. Both are drawn from streams of their own, so that one does not change with the other, and in TSC
 * cycles; the waiting itself is done by the poll loop.
 *
 * Whether a packet has a hiccup is decided by drawing how many packets go by until the next one (the geometric
 * distribution, which is the same as an independent draw for every packet): nothing is drawn for a packet without one.
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
	uint32_t listed; /* list: one of these, all alike */
	double list[DELAY_LIST_MAX];
};

/* Mean of the distribution in cycles; 0 for DELAY_NONE. */
double delay_mean(const struct delay_distribution *distribution);

/* One value, rounded to whole cycles. */
uint64_t delay_draw(const struct delay_distribution *distribution, struct rng *rng);

/* What a configuration says; constant while lcores run. */
struct delays_config {
	struct delay_distribution service;
	uint64_t service_seed;
	struct delay_distribution hiccup;
	double hiccup_probability; /* per packet */
	uint64_t hiccup_seed;
};

/* Delay per packet that is to be expected, in cycles. */
double delays_mean(const struct delays_config *config);

/* What was drawn. */
struct delay_counts {
	uint64_t packets; /* that went by */
	uint64_t service_cycles;
	uint64_t hiccups;
	uint64_t hiccup_cycles;
};

/* The streams of one lcore. */
struct delay_streams {
	const struct delays_config *config;
	uint64_t fixed_cycles; /* service of the kind DELAY_FIXED */
	uint64_t
	        hiccup_distance; /* packets up to and with the next that has a hiccup; 0 is never left standing */
	bool service_drawn;      /* any other kind */
	struct rng service;
	struct rng hiccup;
	uint64_t service_seed; /* of this lcore: what rng_seed() was given */
	uint64_t hiccup_seed;
};

/*
 * Begin the streams of `lcore` anew; `config` must outlive them. The seeds follow from the configured ones and the lcore, are
 * below 2^63 (so that JSON holds them) and differ between lcores and between service and hiccups.
 */
void delay_streams_begin(struct delay_streams *streams, const struct delays_config *config,
                         unsigned int lcore);

/* Service of n packets together, when it is drawn. */
uint64_t delays_service(struct delay_streams *streams, uint32_t n);

/* Hiccups among the next n packets, at least one of which has one; booked in `counts`. */
uint64_t delays_hiccups(struct delay_streams *streams, uint32_t n, struct delay_counts *counts);

/* The delay of the next n packets together in cycles, booked in `counts`. */
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
