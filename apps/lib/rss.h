/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invert receive-side scaling: find a UDP/IPv4 flow that a port puts on a wanted RX queue.
 *
 * A port hashes a flow's addresses and ports with Toeplitz under its key; the low bits of the hash select an entry of the RETA,
 * which names the queue. Toeplitz is linear over GF(2): hash(a ^ b) = hash(a) ^ hash(b). So the change to free input bits that
 * moves a hash from any entry to any other is a system of at most log2(reta size) linear equations, solved once by Gaussian
 * elimination. After that a flow costs one hash and a few exclusive-ors, without search. Conventions follow Microsoft's RSS
 * specification, whose verification vectors the unit tests use.
 */
#ifndef RSS_H
#define RSS_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

#define RSS_KEY_BYTES_MIN 16 /* 12 input bytes, and 4 of the window that slides over them */
#define RSS_KEY_BYTES_MAX 256
#define RSS_RETA_MAX      4096
#define RSS_QUEUES_MAX    1024 /* RTE_MAX_QUEUES_PER_PORT of packaged DPDKs, on this host or a target's */

/* The settings that determine the queue of a frame at a port. */
struct rss_target {
	_Alignas(uint32_t) uint8_t key[RSS_KEY_BYTES_MAX];
	uint16_t reta[RSS_RETA_MAX];
	uint16_t reta_size; /* power of two; 0: the port has no RSS and all frames go to queue 0 */
	uint16_t queues;
	bool hashes_ports; /* input is addresses and UDP ports, else only addresses */
};

/* A flow as the hash sees it, host byte order. */
struct rss_tuple {
	uint32_t source;
	uint32_t destination;
	uint16_t source_port;
	uint16_t destination_port;
};

/* The 32-bit hash that the target computes. */
uint32_t rss_hash(const struct rss_target *target, const struct rss_tuple *tuple);

/* Which bits of a tuple may be changed to steer it. */
struct rss_freedom {
	uint32_t source;
	uint32_t destination;
	uint16_t source_port; /* has no effect if the target does not hash ports */
};

/* One solved equation: `change` flips exactly the entry bits `entry_bits`, whose highest is its place in pivots[]. */
struct rss_pivot {
	uint32_t entry_bits;
	struct rss_freedom change;
};

struct rss_inverse {
	const struct rss_target *target;
	struct rss_pivot pivots[16];
	unsigned int rank;                        /* of log2(reta_size) */
	uint16_t entries[RSS_RETA_MAX];           /* RETA entries sorted by queue */
	uint16_t first_entry[RSS_QUEUES_MAX + 1]; /* entries of queue q: entries[first_entry[q]] ..
	                                             entries[first_entry[q + 1] - 1] */
};

/*
 * Prepare the inversion of `target` (kept by reference) with the given free bits. Returns 0; -EINVAL if reta_size is not a
 * power of two up to RSS_RETA_MAX or an entry names a queue >= RSS_QUEUES_MAX; -ERANGE if the key is so degenerate that the
 * free bits do not reach every entry (rank tells how many bits of the entry they reach).
 */
int rss_inverse_init(struct rss_inverse *inverse, const struct rss_target *target,
                     const struct rss_freedom *freedom);

/* Return the RETA entries that name `queue`; 0: no frame can reach it. */
unsigned int rss_inverse_entries(const struct rss_inverse *inverse, uint16_t queue);

/* Change free bits of `tuple` so that it falls on `queue`, on a random entry of the queue, which must have at least one. */
void rss_inverse_steer(const struct rss_inverse *inverse, struct rng *rng, uint16_t queue,
                       struct rss_tuple *tuple);

#endif
