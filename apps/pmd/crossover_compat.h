/* SPDX-License-Identifier: BSD-3-Clause */
/* Differences between the DPDK releases that the driver builds on: 22.11, 24.11, 25.11. Nothing else tests a version. */
#ifndef CROSSOVER_COMPAT_H
#define CROSSOVER_COMPAT_H

#include <rte_version.h>

#include <ethdev_driver.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "net_crossover needs DPDK 22.11 or later"
#endif

/* 25.11: statistics per queue moved out of rte_eth_stats, and dev_ops.stats_get has a third argument for them. */
#if RTE_VERSION >= RTE_VERSION_NUM(25, 11, 0, 0)
typedef struct eth_queue_stats crossover_queue_stats;
#define CROSSOVER_STATS_GET(name)                                                                            \
	int name(struct rte_eth_dev *dev, struct rte_eth_stats *stats, crossover_queue_stats *queues)
#define CROSSOVER_QUEUE_STATS(stats, queues) (queues)
#else
typedef struct rte_eth_stats crossover_queue_stats;
#define CROSSOVER_STATS_GET(name)            int name(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
#define CROSSOVER_QUEUE_STATS(stats, queues) (stats)
#endif

/* 25.11: the queue count may be an error, so it is signed. */
#if RTE_VERSION >= RTE_VERSION_NUM(25, 11, 0, 0)
typedef int crossover_queue_count;
#else
typedef uint32_t crossover_queue_count;
#endif

/* From 24.03 on, the number of types is returned as well. */
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
#define CROSSOVER_PTYPES_GET(name)           const uint32_t *name(struct rte_eth_dev *dev, size_t *count)
#define CROSSOVER_PTYPES_COUNT(types, count) (*(count) = RTE_DIM(types) - 1) /* without RTE_PTYPE_UNKNOWN */
#else
#define CROSSOVER_PTYPES_GET(name) const uint32_t *name(struct rte_eth_dev *dev)
#define CROSSOVER_PTYPES_COUNT(types, count)
#endif

#endif
