/* SPDX-License-Identifier: BSD-3-Clause */
#include "rss.h"

#include <errno.h>
#include <string.h>

#include <rte_thash.h>

uint32_t rss_hash(const struct rss_target *target, const struct rss_tuple *tuple)
{
	uint32_t words[3] = {tuple->source, tuple->destination,
	                     ((uint32_t)tuple->source_port << 16) | tuple->destination_port};

	return rte_softrss(words, target->hashes_ports ? 3 : 2, target->key);
}

static void apply_change(struct rss_tuple *tuple, const struct rss_freedom *change)
{
	tuple->source ^= change->source;
	tuple->destination ^= change->destination;
	tuple->source_port ^= change->source_port;
}

/* Reduce `candidate` by the pivots found so far; any remainder becomes a new pivot. */
static void add_equation(struct rss_inverse *inverse, struct rss_pivot candidate)
{
	while (candidate.entry_bits != 0) {
		struct rss_pivot *pivot = &inverse->pivots[31 - __builtin_clz(candidate.entry_bits)];

		if (pivot->entry_bits == 0) {
			*pivot = candidate;
			inverse->rank++;
			return;
		}
		candidate.entry_bits ^= pivot->entry_bits;
		candidate.change.source ^= pivot->change.source;
		candidate.change.destination ^= pivot->change.destination;
		candidate.change.source_port ^= pivot->change.source_port;
	}
}

/* Make the equation of one free bit: which entry bits it flips. */
static void add_free_bit(struct rss_inverse *inverse, struct rss_freedom bit)
{
	struct rss_tuple unit = {0};

	apply_change(&unit, &bit);
	add_equation(inverse, (struct rss_pivot){
	                              .entry_bits = rss_hash(inverse->target, &unit) &
	                                            (inverse->target->reta_size - 1u),
	                              .change = bit,
	                      });
}

/* Sort the RETA's entries by queue. Returns false if an entry names a queue that no port can have. */
static bool sort_entries(struct rss_inverse *inverse)
{
	const struct rss_target *target = inverse->target;
	unsigned int sorted = 0;

	for (unsigned int queue = 0; queue < RSS_QUEUES_MAX; queue++) {
		inverse->first_entry[queue] = (uint16_t)sorted;
		for (unsigned int i = 0; i < target->reta_size; i++)
			if (target->reta[i] == queue)
				inverse->entries[sorted++] = (uint16_t)i;
	}
	inverse->first_entry[RSS_QUEUES_MAX] = (uint16_t)sorted;
	return sorted == target->reta_size;
}

int rss_inverse_init(struct rss_inverse *inverse, const struct rss_target *target,
                     const struct rss_freedom *freedom)
{
	const unsigned int size = target->reta_size;

	memset(inverse, 0, sizeof(*inverse));
	inverse->target = target;
	if (size == 0 || size > RSS_RETA_MAX || (size & (size - 1)) != 0)
		return -EINVAL;
	for (uint32_t bit = 1; bit != 0; bit <<= 1) { /* ports first: changing them is least visible */
		if (freedom->source_port & bit)
			add_free_bit(inverse, (struct rss_freedom){.source_port = (uint16_t)bit});
	}
	for (uint32_t bit = 1; bit != 0; bit <<= 1) {
		if (freedom->source & bit)
			add_free_bit(inverse, (struct rss_freedom){.source = bit});
		if (freedom->destination & bit)
			add_free_bit(inverse, (struct rss_freedom){.destination = bit});
	}
	if (!sort_entries(inverse))
		return -EINVAL;
	return inverse->rank == (unsigned int)__builtin_ctz(size) ? 0 : -ERANGE;
}

unsigned int rss_inverse_entries(const struct rss_inverse *inverse, uint16_t queue)
{
	return inverse->first_entry[queue + 1] - inverse->first_entry[queue];
}

void rss_inverse_steer(const struct rss_inverse *inverse, struct rng *rng, uint16_t queue,
                       struct rss_tuple *tuple)
{
	const struct rss_target *target = inverse->target;
	const uint64_t choice = rng_below(rng, rss_inverse_entries(inverse, queue));
	const uint16_t entry = inverse->entries[inverse->first_entry[queue] + choice];
	uint32_t difference = (rss_hash(target, tuple) ^ entry) & (target->reta_size - 1u);

	while (difference != 0) {
		const struct rss_pivot *pivot = &inverse->pivots[31 - __builtin_clz(difference)];

		apply_change(tuple, &pivot->change);
		difference ^= pivot->entry_bits;
	}
}
