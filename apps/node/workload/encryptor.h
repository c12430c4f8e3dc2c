/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESP by software (DPDK's cryptodev library) for one lcore: an SA, a session and a queue pair of its own, so that lcores have
 * nothing in common that any of them writes.
 */
#ifndef ENCRYPTOR_H
#define ENCRYPTOR_H

#include <stdint.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "esp.h"
#include "node_error.h"

struct encryptor;

struct encryptor_spec {
	enum esp_transform transform;
	unsigned int lcore;
	uint8_t number;                /* of its SA (esp.h) */
	struct rte_ether_hdr ethernet; /* outer */
};

/* The DPDK driver that does the work: crypto_aesni_mb where it is, else crypto_openssl. NULL before the first encryptor_new(). */
const char *encryptor_driver(void);

/* Main lcore. NULL with err: no driver, or it cannot do this transform. */
struct encryptor *encryptor_new(const struct encryptor_spec *spec, struct node_error *err);

/* NULL is allowed. */
void encryptor_free(struct encryptor *encryptor);

/* At most ACCOUNT_BURST_MAX IPv4 packets become ESP packets, in place and in their order. Returns how many; the rest are freed. */
uint16_t encryptor_encrypt(struct encryptor *encryptor, struct rte_mbuf **packets, uint16_t n);

#endif
