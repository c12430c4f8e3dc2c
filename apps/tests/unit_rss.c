/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rss.h"

/* Return the RX queue of the tuple. */
static uint16_t rss_queue(const struct rss_target *target, const struct rss_tuple *tuple)
{
	if (target->reta_size == 0)
		return 0;
	return target->reta[rss_hash(target, tuple) & (target->reta_size - 1u)];
}

/* Key and IPv4 vectors of "Verifying the RSS Hash Calculation" in Microsoft's NDIS documentation. */
static const uint8_t microsoft_key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                          0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                          0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                          0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

#define ADDRESS(a, b, c, d) (((uint32_t)(a) << 24) | ((b) << 16) | ((c) << 8) | (d))

static const struct {
	struct rss_tuple tuple;
	uint32_t with_ports;
	uint32_t addresses_only;
} vectors[] = {
        {{ADDRESS(66, 9, 149, 187), ADDRESS(161, 142, 100, 80), 2794, 1766}, 0x51ccc178, 0x323e8fc2},
        {{ADDRESS(199, 92, 111, 2), ADDRESS(65, 69, 140, 83), 14230, 4739}, 0xc626b0ea, 0xd718262a},
        {{ADDRESS(24, 19, 198, 95), ADDRESS(12, 22, 207, 184), 12898, 38024}, 0x5c2b394a, 0xd2d0a5de},
        {{ADDRESS(38, 27, 205, 30), ADDRESS(209, 142, 163, 6), 48228, 2217}, 0xafc7327f, 0x82989176},
        {{ADDRESS(153, 39, 163, 191), ADDRESS(202, 188, 127, 2), 44251, 1303}, 0x10e828a2, 0x5d1809c5},
};

static const struct rss_freedom freedom = {
        .source = 0x000f0000, .destination = 0xff, .source_port = UINT16_MAX};

/* Return a target with a round-robin RETA; the caller frees it. */
static struct rss_target *new_target(uint16_t reta_size, uint16_t queues, bool hashes_ports)
{
	struct rss_target *target = calloc(1, sizeof(*target));

	memcpy(target->key, microsoft_key, sizeof(microsoft_key));
	target->reta_size = reta_size;
	target->queues = queues;
	target->hashes_ports = hashes_ports;
	for (unsigned int i = 0; i < reta_size; i++)
		target->reta[i] = (uint16_t)(i % queues);
	return target;
}

static void hashes_like_microsoft(void)
{
	struct rss_target *four = new_target(128, 8, true), *two = new_target(128, 8, false);

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		UNIT_EQUAL(rss_hash(four, &vectors[i].tuple), vectors[i].with_ports);
		UNIT_EQUAL(rss_hash(two, &vectors[i].tuple), vectors[i].addresses_only);
	}
	free(four);
	free(two);
}

static void queue_is_reta_of_low_hash_bits(void)
{
	struct rss_target *target = new_target(128, 100, true);

	UNIT_EQUAL(rss_queue(target, &vectors[0].tuple), (0x51ccc178 & 127) % 100);
	target->reta_size = 0;
	UNIT_EQUAL(rss_queue(target, &vectors[0].tuple), 0);
	free(target);
}

/* Steer random tuples to every queue; only free bits can change. */
static void check_steering(const struct rss_target *target)
{
	struct rss_inverse *inverse = malloc(sizeof(*inverse));
	struct rng rng;

	rng_seed(&rng, 5);
	UNIT_EQUAL(rss_inverse_init(inverse, target, &freedom), 0);
	for (uint16_t queue = 0; queue < target->queues; queue++) {
		const uint64_t bits = rng_next(&rng);
		const struct rss_tuple before = {.source = (uint32_t)bits,
		                                 .destination = (uint32_t)(bits >> 32),
		                                 .source_port = (uint16_t)(bits >> 16),
		                                 .destination_port = 9};
		struct rss_tuple after = before;

		rss_inverse_steer(inverse, &rng, queue, &after);
		UNIT_EQUAL(rss_queue(target, &after), queue);
		UNIT_EQUAL((before.source ^ after.source) & ~freedom.source, 0);
		UNIT_EQUAL((before.destination ^ after.destination) & ~freedom.destination, 0);
		UNIT_EQUAL(after.destination_port, 9);
	}
	free(inverse);
}

static void steers_to_every_queue(void)
{
	static const uint16_t sizes[] = {2, 64, 128, 512, 1024, 2048, 4096};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct rss_target *target = new_target(sizes[i], sizes[i] < 1024 ? sizes[i] : 1024, true);

		check_steering(target);
		free(target);
	}
}

static void steers_by_addresses_alone(void)
{
	struct rss_target *target = new_target(128, 100, false);

	check_steering(target);
	free(target);
}

static void steers_with_random_keys(void)
{
	struct rss_target *target = new_target(1024, 1000, true);
	struct rng rng;

	rng_seed(&rng, 99);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 40; i++)
			target->key[i] = (uint8_t)rng_next(&rng);
		check_steering(target);
	}
	free(target);
}

static void uses_all_entries_of_a_queue(void)
{
	struct rss_target *target = new_target(128, 4, true);
	struct rss_inverse *inverse = malloc(sizeof(*inverse));
	bool seen[128] = {false};
	unsigned int entries = 0;
	struct rng rng;

	rng_seed(&rng, 3);
	UNIT_EQUAL(rss_inverse_init(inverse, target, &freedom), 0);
	UNIT_EQUAL(rss_inverse_entries(inverse, 3), 32);
	for (int i = 0; i < 1000; i++) {
		struct rss_tuple tuple = {
		        .source = (uint32_t)i, .destination = ADDRESS(10, 0, 0, 1), .destination_port = 9};

		rss_inverse_steer(inverse, &rng, 3, &tuple);
		seen[rss_hash(target, &tuple) & 127] = true;
	}
	for (int i = 0; i < 128; i++)
		entries += seen[i];
	UNIT_EQUAL(entries, 32);
	free(inverse);
	free(target);
}

static void says_which_queues_are_out_of_reach(void)
{
	struct rss_target *target = new_target(128, 128, true);
	struct rss_inverse *inverse = malloc(sizeof(*inverse));

	target->queues = 1024; /* more queues than entries */
	UNIT_EQUAL(rss_inverse_init(inverse, target, &freedom), 0);
	UNIT_EQUAL(rss_inverse_entries(inverse, 127), 1);
	UNIT_EQUAL(rss_inverse_entries(inverse, 128), 0);
	UNIT_EQUAL(rss_inverse_entries(inverse, 1023), 0);
	free(inverse);
	free(target);
}

static void refuses_what_cannot_be_inverted(void)
{
	struct rss_target *target = new_target(128, 8, true);
	struct rss_inverse *inverse = malloc(sizeof(*inverse));

	target->reta_size = 100;
	UNIT_EQUAL(rss_inverse_init(inverse, target, &freedom), -EINVAL);
	target->reta_size = 128;
	target->reta[5] = RSS_QUEUES_MAX;
	UNIT_EQUAL(rss_inverse_init(inverse, target, &freedom), -EINVAL);
	target->reta[5] = 5;
	memset(target->key, 0, sizeof(target->key)); /* every hash is 0 */
	UNIT_EQUAL(rss_inverse_init(inverse, target, &freedom), -ERANGE);
	UNIT_EQUAL(inverse->rank, 0);
	free(inverse);
	free(target);
}

static const struct unit_case cases[] = {
        {"hashes the published vectors", hashes_like_microsoft},
        {"queue is the RETA entry of the low hash bits", queue_is_reta_of_low_hash_bits},
        {"steers to every queue", steers_to_every_queue},
        {"steers by addresses alone", steers_by_addresses_alone},
        {"steers with random keys", steers_with_random_keys},
        {"uses all entries of a queue", uses_all_entries_of_a_queue},
        {"says which queues are out of reach", says_which_queues_are_out_of_reach},
        {"refuses what cannot be inverted", refuses_what_cannot_be_inverted},
        {NULL, NULL},
};

const struct unit_suite unit_rss = {"rss", cases};
