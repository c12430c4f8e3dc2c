/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics. A frame is counted when it is on the wire, as hardware does, not when it is polled: whenever nobody sends,
 * opackets of one port = ipackets + imissed + ierrors + rx_filtered_packets of the other.
 */
#ifndef CROSSOVER_STATS_H
#define CROSSOVER_STATS_H

#include "crossover_compat.h"
#include "crossover_port.h"

CROSSOVER_STATS_GET(crossover_stats_get);
int crossover_stats_reset(struct rte_eth_dev *dev);
int crossover_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *xstats, unsigned int size);
int crossover_xstats_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names, unsigned int size);

/* An RX queue comes, not seen by anybody yet: what frames met at an earlier one of its number is not its own. */
void crossover_stats_begin(struct crossover_rx_queue *rxq);
/* A TX queue goes away: what its frames met at the peer stays in the peer's statistics. */
void crossover_stats_carry(struct crossover_tx_queue *txq);

#endif
