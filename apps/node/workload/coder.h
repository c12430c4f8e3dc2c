/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parity in software (ISA-L) for one lcore. A packet's payload is cut into data buffers of equal size, a multiple of 32 bytes,
 * and the last one is filled up with zeros. Their parity buffers leave behind the payload. Arithmetic is in GF(2^8) modulo x^8
 * + x^4 + x^3 + x^2 + 1.
 *
 *	Reed-Solomon  parity i is the sum over j of data j / ((data buffers + i) + j), a Cauchy matrix (+ and / of the field)
 *	P+Q           P is the sum of all data, Q the sum of 2^j x data j
 */
#ifndef CODER_H
#define CODER_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "node_error.h"

#define CODER_DATA_MIN    2
#define CODER_DATA_MAX    32
#define CODER_PARITY_MAX  16
#define CODER_BLOCK_BYTES 32

enum coder_kind { CODER_REED_SOLOMON, CODER_P_Q };

struct coder;

struct coder_spec {
	enum coder_kind kind;
	uint32_t data;   /* buffers */
	uint32_t parity; /* buffers; P+Q: 2 */
	unsigned int lcore;
	struct rte_ether_hdr next_hop;
};

/* Main lcore. NULL with err when out of memory, or if built without ISA-L. */
struct coder *coder_new(const struct coder_spec *spec, struct node_error *err);

/* NULL is allowed. */
void coder_free(struct coder *coder);

/*
 * Append the parity of its payload to the packet, and forward it. False: drop the packet, because payload_bytes() refuses it or
 * there is no room.
 */
bool coder_encode(struct coder *coder, struct rte_mbuf *packet);

#endif
