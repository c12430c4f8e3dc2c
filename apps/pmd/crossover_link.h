/* SPDX-License-Identifier: BSD-3-Clause */
/* The cable: both ports have carrier if both are started and neither was set down. */
#ifndef CROSSOVER_LINK_H
#define CROSSOVER_LINK_H

#include <ethdev_driver.h>

#include "crossover_port.h"

/* Nominal: nothing is paced, a sender is as fast as its core. */
#define CROSSOVER_LINK_MBPS RTE_ETH_SPEED_NUM_100G

/*
 * Brings gates and link status of both ports up to date. The control lock is held. Returns whether carrier changed; then
 * crossover_link_announce() is due once the lock is free.
 */
bool crossover_link_refresh(struct crossover_pair *pair);

/* Calls the link callbacks of this process; those of other processes are theirs to poll for. */
void crossover_link_announce(struct crossover_pair *pair);

int crossover_link_update(struct rte_eth_dev *dev, int wait);
int crossover_link_up(struct rte_eth_dev *dev);
int crossover_link_down(struct rte_eth_dev *dev);

#endif
