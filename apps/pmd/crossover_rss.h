/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive-side scaling: Toeplitz hash (Microsoft RSS specification) over the addresses and ports of a frame.
 *
 * The hash is linear over GF(2): the hash of the input is the XOR of the hashes of its 4-bit pieces. A table of 16
 * entries per piece (4.5 KiB for the longest input) makes a hash of an IPv4 4-tuple cost 24 loads, all within L1.
 */
#ifndef CROSSOVER_RSS_H
#define CROSSOVER_RSS_H

#include <stdbool.h>
#include <stdint.h>

#define CROSSOVER_RSS_KEY_BYTES   40
#define CROSSOVER_RSS_INPUT_BYTES 36 /* IPv6: two addresses and two ports */

struct crossover_hash {
	uint8_t key[CROSSOVER_RSS_KEY_BYTES];
	uint64_t types; /* RTE_ETH_RSS_* */
	uint32_t table[2 * CROSSOVER_RSS_INPUT_BYTES][16];
};

extern const uint8_t crossover_default_rss_key[CROSSOVER_RSS_KEY_BYTES];

/* Flow types that can be hashed: RTE_ETH_RSS_*. */
uint64_t crossover_rss_types(void);

/* Fills 'hash' for a key of CROSSOVER_RSS_KEY_BYTES and a set of RTE_ETH_RSS_* types. */
void crossover_hash_init(struct crossover_hash *hash, const uint8_t *key, uint64_t types);

/*
 * Hash of the frame whose first 'length' bytes lie at 'frame'. Frames with at most two VLAN tags are looked through;
 * IPv4 options and fragments are understood, IPv6 extension headers are not (the addresses are hashed alone).
 * Returns false if the frame is of no type that is switched on; such frames go to queue 0.
 */
bool crossover_hash_frame(const struct crossover_hash *hash, const uint8_t *frame, uint32_t length,
                          uint32_t *value);

/* Bytes at the start of a frame that crossover_hash_frame() may look at: Ethernet, 2 VLAN tags, IPv4 with options, ports. */
#define CROSSOVER_RSS_LOOK_BYTES (14 + 8 + 60 + 4)

#endif
