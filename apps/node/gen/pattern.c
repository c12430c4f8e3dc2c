/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <math.h>
#include <stdlib.h>

/* Parts of a cycle that a gap resolves, as far as its 32 bits allow. */
#define UNITS_PER_CYCLE  1024
#define PERIOD_UNITS_MAX (1u << 30)

static int packets_of_period(const struct gen_config *config, double pps, uint32_t *packets,
                             struct node_error *err)
{
	const double period_s = (double)(config->on_ns + config->off_ns) / 1e9;
	const double count = round(pps * period_s);

	*packets = config->burst_packets;
	if (config->arrivals == GEN_BURSTS)
		return 0;
	if (count < 1 || count > GEN_PATTERN_PACKETS_MAX)
		return node_fail(err, "gen.arrivals",
		                 "on-off: %g packets/s are %g packets in a period of %g s, not 1..%u", pps,
		                 pps * period_s, period_s, GEN_PATTERN_PACKETS_MAX);
	*packets = (uint32_t)count;
	return 0;
}

int gen_pattern_make(const struct gen_config *config, double pps, double tsc_hz, struct gen_pattern *pattern,
                     struct node_error *err)
{
	double on_share = 0, period_cycles, units;
	uint32_t before = 0;

	if (packets_of_period(config, pps, &pattern->packets, err))
		return -1;
	if (config->arrivals == GEN_ON_OFF)
		on_share = (double)config->on_ns / (double)(config->on_ns + config->off_ns);
	period_cycles = pattern->packets * tsc_hz / pps;
	units = floor(fmin(PERIOD_UNITS_MAX, period_cycles * UNITS_PER_CYCLE));
	pattern->cycles_per_unit = period_cycles / units;
	pattern->gaps = malloc(pattern->packets * sizeof(*pattern->gaps));
	if (pattern->gaps == NULL)
		return node_fail(err, "gen.arrivals", "no memory for %u distances", pattern->packets);
	for (uint32_t i = 1; i < pattern->packets; i++) {
		const uint32_t place = (uint32_t)(units * on_share * i / pattern->packets);

		pattern->gaps[i] = place - before;
		before = place;
	}
	pattern->gaps[0] = (uint32_t)units - before;
	return 0;
}
