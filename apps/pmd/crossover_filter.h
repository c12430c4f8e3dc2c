/* SPDX-License-Identifier: BSD-3-Clause */
/* What a port accepts and where it puts it: promiscuous mode, MAC addresses, RSS key, flow types and RETA. */
#ifndef CROSSOVER_FILTER_H
#define CROSSOVER_FILTER_H

#include <ethdev_driver.h>

#include "crossover_port.h"

int crossover_promiscuous_enable(struct rte_eth_dev *dev);
int crossover_promiscuous_disable(struct rte_eth_dev *dev);
int crossover_allmulticast_enable(struct rte_eth_dev *dev);
int crossover_allmulticast_disable(struct rte_eth_dev *dev);
int crossover_mac_add(struct rte_eth_dev *dev, struct rte_ether_addr *mac, uint32_t index, uint32_t pool);
void crossover_mac_remove(struct rte_eth_dev *dev, uint32_t index);
int crossover_mac_set(struct rte_eth_dev *dev, struct rte_ether_addr *mac);
int crossover_multicast_set(struct rte_eth_dev *dev, struct rte_ether_addr *macs, uint32_t count);
int crossover_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups, uint16_t size);
int crossover_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups, uint16_t size);
int crossover_rss_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int crossover_rss_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);

/* RSS as rte_eth_dev_configure() asks for it; the RETA goes round-robin over the queues. -EINVAL for a key of wrong length. */
int crossover_rss_configure(struct crossover_port *port, const struct rte_eth_conf *conf);

#endif
