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

/* All `count` frames are for one queue. */
static inline bool crossover_is_one_run(const uint16_t *queues, uint32_t count)
{
	uint16_t others = 0;

	for (uint32_t i = 1; i < count; i++)
		others |= queues[i] ^ queues[0];
	return others == 0;
}

/* With more queues the runs of a chunk are so short, and each of another length, that sorting costs more than it gains. */
#define CROSSOVER_GROUPED_QUEUES 4

/*
 * Puts frames for the same RX queue side by side, those of a queue in the order in which they were, where 'port' has few queues:
 * frames that leave together for different queues have no order that anybody sees, and a queue's descriptor lines go to the other
 * core and back once. Changes 'verdicts', and copies 'pkts' to 'grouped'. Returns the list to go on with: 'pkts' where nothing moved.
 */
struct rte_mbuf *const *crossover_group(const struct crossover_port *port,
                                        struct crossover_verdicts *verdicts, struct rte_mbuf *const *pkts,
                                        uint32_t count, struct rte_mbuf **grouped);

/* Works out the gate and the classification flags of a port from its configuration, and shows them to the senders. */
void crossover_gate_update(struct crossover_port *port, bool carrier);

#endif
