/* SPDX-License-Identifier: BSD-3-Clause */
#include "rebalance.h"

#include <stdbool.h>
#include <stddef.h>

#include "rss.h"

/* By queue; the mean covers all queues, also those without load. */
struct spread {
	uint64_t loads[RSS_QUEUES_MAX];
	unsigned int most, least;
	double mean;
};

static void find_edges(struct spread *spread, unsigned int queues)
{
	spread->most = spread->least = 0;
	for (unsigned int q = 1; q < queues; q++) {
		if (spread->loads[q] > spread->loads[spread->most])
			spread->most = q;
		if (spread->loads[q] < spread->loads[spread->least])
			spread->least = q;
	}
}

static struct spread spread_of(const uint64_t *loads, const uint16_t *reta, unsigned int entries,
                               unsigned int queues)
{
	struct spread spread = {0};
	double sum = 0;

	for (unsigned int i = 0; i < entries; i++) {
		spread.loads[reta[i]] += loads[i];
		sum += (double)loads[i];
	}
	spread.mean = queues == 0 ? 0 : sum / queues;
	find_edges(&spread, queues);
	return spread;
}

static double excess_of(const struct spread *spread)
{
	return spread->mean > 0 ? (double)spread->loads[spread->most] / spread->mean - 1 : 0;
}

double rebalance_excess(const uint64_t *loads, const uint16_t *reta, unsigned int entries,
                        unsigned int queues)
{
	const struct spread spread = spread_of(loads, reta, entries, queues);

	return excess_of(&spread);
}

static double distance(double a, double b)
{
	return a < b ? b - a : a - b;
}

/*
 * Return the entry of the fullest queue whose load is nearest to what both it and the emptiest one need; `entries`: none. A
 * load of the whole difference or more would only make the other queue the fullest.
 */
static unsigned int find_entry(const struct spread *spread, const uint64_t *loads, const uint16_t *reta,
                               unsigned int entries, const bool *moved)
{
	const uint64_t difference = spread->loads[spread->most] - spread->loads[spread->least];
	const double excess = (double)spread->loads[spread->most] - spread->mean,
	             room = spread->mean - (double)spread->loads[spread->least],
	             wanted = excess < room ? excess : room;
	unsigned int best = entries;

	for (unsigned int i = 0; i < entries; i++) {
		if (reta[i] != spread->most || moved[i] || loads[i] == 0 || loads[i] >= difference)
			continue;
		if (best == entries ||
		    distance((double)loads[i], wanted) < distance((double)loads[best], wanted))
			best = i;
	}
	return best;
}

unsigned int rebalance(const uint64_t *loads, uint16_t *reta, unsigned int entries, unsigned int queues,
                       double threshold)
{
	struct spread spread = spread_of(loads, reta, entries, queues);
	bool moved[RSS_RETA_MAX] = {false};
	unsigned int moves = 0;

	for (; excess_of(&spread) > threshold; moves++) {
		const unsigned int entry = find_entry(&spread, loads, reta, entries, moved);

		if (entry == entries)
			break;
		moved[entry] = true;
		spread.loads[spread.most] -= loads[entry];
		spread.loads[spread.least] += loads[entry];
		reta[entry] = (uint16_t)spread.least;
		find_edges(&spread, queues);
	}
	return moves;
}
