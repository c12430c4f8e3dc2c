/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encryption by software (DPDK's cryptodev library) for one lcore: a session and a queue pair of its own, and its own SA of ESP, so
 * that lcores have nothing in common that any of them writes, but for one line of IPsec MB up to 1.3 (issue 112 of intel-ipsec-mb).
 *
 * A payload alone (payload.h) is encrypted by AES-256-CBC: the IV takes its place, then comes the payload, padded as in CMS
 * (RFC 5652 section 6.3). The key is made of bytes as those of ESP (docs/node-protocol.md).
 */
#ifndef ENCRYPTOR_H
#define ENCRYPTOR_H

#include <stdint.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "esp.h"
#include "node_error.h"

struct encryptor;

enum encryption { ENCRYPT_ESP, ENCRYPT_PAYLOAD };

struct encryptor_spec {
	enum encryption encryption;
	enum esp_transform transform; /* ENCRYPT_ESP */
	unsigned int lcore;
	uint8_t number;                /* of its SA (esp.h), and of its key */
	struct rte_ether_hdr ethernet; /* of what leaves */
};

/* The DPDK driver that does the work: crypto_aesni_mb where it is, else crypto_openssl. NULL before the first encryptor_new(). */
const char *encryptor_driver(void);

/* Main lcore. NULL with err: no driver, or it cannot do this transform. */
struct encryptor *encryptor_new(const struct encryptor_spec *spec, struct node_error *err);

/* NULL is allowed. */
void encryptor_free(struct encryptor *encryptor);

/*
 * At most ACCOUNT_BURST_MAX IPv4 packets become ESP packets, or get another payload, in place and in their order. Returns how many;
 * the rest are freed.
 */
uint16_t encryptor_encrypt(struct encryptor *encryptor, struct rte_mbuf **packets, uint16_t n);

#endif
