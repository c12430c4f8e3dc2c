/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encryption in software (DPDK's cryptodev library) for one lcore. It has its own session, queue pair and SA of ESP, so lcores
 * share no line that any of them writes, except one of IPsec MB up to 1.3 (issue 112 of intel-ipsec-mb).
 *
 * A payload alone (payload.h) is encrypted by AES-256-CBC: the IV takes its place, followed by the payload with padding as in
 * CMS (RFC 5652 section 6.3). The key bytes are those of ESP (docs/internals/node-protocol.md).
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
	uint8_t number;                /* of its SA (esp.h) and key */
	struct rte_ether_hdr ethernet; /* of the packets that leave */
};

/* Return the DPDK driver: crypto_aesni_mb if available, otherwise crypto_openssl. NULL before the first encryptor_new(). */
const char *encryptor_driver(void);

/* Main lcore. NULL with err if there is no driver, or if it cannot do this transform. */
struct encryptor *encryptor_new(const struct encryptor_spec *spec, struct node_error *err);

/* NULL is allowed. */
void encryptor_free(struct encryptor *encryptor);

/*
 * Turn at most ACCOUNT_BURST_MAX IPv4 packets into ESP packets, or encrypt their payload, in place and in order. Returns how
 * many; the rest are freed.
 */
uint16_t encryptor_encrypt(struct encryptor *encryptor, struct rte_mbuf **packets, uint16_t n);

#endif
