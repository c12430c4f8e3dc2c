/* SPDX-License-Identifier: BSD-3-Clause */
/* What a NIC does between the wire and its RX rings: MAC filter, RSS, packet type and checksums. Run by the sender's core. */
#ifndef CROSSOVER_CLASSIFY_H
#define CROSSOVER_CLASSIFY_H

#include "crossover_port.h"

#define CROSSOVER_FILTERED UINT16_MAX

struct crossover_verdicts {
	uint16_t queue[CROSSOVER_CHUNK]; /* RX queue, or CROSSOVER_FILTERED */
	uint64_t tag[CROSSOVER_CHUNK];   /* hash, type and flags for the write-back word, or 0 */
};

/* Finds the RX queue of 'port' for each of 'count' (at most CROSSOVER_CHUNK) frames. */
void crossover_classify(const struct crossover_port *port, struct rte_mbuf *const *pkts, uint32_t count,
                        struct crossover_verdicts *verdicts);

/* Works out the gate and the classification flags of a port from its configuration, and shows them to the senders. */
void crossover_gate_update(struct crossover_port *port, bool carrier);

#endif
