/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces encryptor.c if DPDK was built without cryptodev: no encryptor can be made, so none is used. */
#include <stddef.h>

#include "encryptor.h"

const char *encryptor_driver(void)
{
	return NULL;
}

struct encryptor *encryptor_new(const struct encryptor_spec *spec, struct node_error *err)
{
	(void)spec;
	node_fail(err, "dut.workload",
	          "ipsec and crypto: pollscope-node was built with a DPDK without the cryptodev library; "
	          "install or build DPDK with it (Debian: libdpdk-dev) and build again");
	return NULL;
}

void encryptor_free(struct encryptor *encryptor)
{
	(void)encryptor;
}

uint16_t encryptor_encrypt(struct encryptor *encryptor, struct rte_mbuf **packets, uint16_t n)
{
	(void)encryptor;
	rte_pktmbuf_free_bulk(packets, n);
	return 0;
}
