/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CROSSOVER_ETHDEV_H
#define CROSSOVER_ETHDEV_H

#include <ethdev_driver.h>

/* Gives an ethdev of this process the driver's operations and burst functions; primary and secondary use the same. */
void crossover_ethdev_select(struct rte_eth_dev *dev);

/* Stops and releases everything of the port; in a secondary process only the process's own view of it. */
int crossover_ethdev_close(struct rte_eth_dev *dev);

#endif
