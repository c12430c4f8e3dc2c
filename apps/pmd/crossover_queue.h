/* SPDX-License-Identifier: BSD-3-Clause */
/* Set-up, start, stop and release of queues: ethdev's operations, and what starting a whole port shares with them. */
#ifndef CROSSOVER_QUEUE_H
#define CROSSOVER_QUEUE_H

#include <ethdev_driver.h>

#include "crossover_port.h"

/* ethdev operations; -EINVAL with a log line for what desc_lim, thresholds or the mempool do not allow. */
int crossover_rx_queue_setup(struct rte_eth_dev *dev, uint16_t queue_id, uint16_t nb_desc,
                             unsigned int socket_id, const struct rte_eth_rxconf *conf,
                             struct rte_mempool *pool);
int crossover_tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue_id, uint16_t nb_desc,
                             unsigned int socket_id, const struct rte_eth_txconf *conf);
void crossover_rx_queue_release(struct rte_eth_dev *dev, uint16_t queue_id);
void crossover_tx_queue_release(struct rte_eth_dev *dev, uint16_t queue_id);
int crossover_rx_queue_start(struct rte_eth_dev *dev, uint16_t queue_id);
int crossover_rx_queue_stop(struct rte_eth_dev *dev, uint16_t queue_id);
int crossover_tx_queue_start(struct rte_eth_dev *dev, uint16_t queue_id);
int crossover_tx_queue_stop(struct rte_eth_dev *dev, uint16_t queue_id);
void crossover_rxq_info(struct rte_eth_dev *dev, uint16_t queue_id, struct rte_eth_rxq_info *info);
void crossover_txq_info(struct rte_eth_dev *dev, uint16_t queue_id, struct rte_eth_txq_info *info);

/* All queues that are not started deferred. On error none is left started. The caller holds the control lock. */
int crossover_queues_start(struct rte_eth_dev *dev);
/* Returns -EBUSY, with the RX queues left as they are, if a sender does not leave its burst. */
int crossover_queues_stop(struct rte_eth_dev *dev);

/* Longest frame that fits one buffer of each RX queue, or an error if the MTU demands scattering and it is off. */
int crossover_check_mtu(const struct rte_eth_dev *dev, uint16_t mtu);
/* Shows the MTU to the senders. */
void crossover_apply_mtu(struct crossover_port *port, uint16_t mtu);

#endif
