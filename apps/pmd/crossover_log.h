/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CROSSOVER_LOG_H
#define CROSSOVER_LOG_H

#include <rte_log.h>

extern int crossover_logtype;

/* One line, without "\n" in the format. */
#define CROSSOVER_LOG(level, format, ...)                                                                    \
	rte_log(RTE_LOG_##level, crossover_logtype, "net_crossover: " format "\n", ##__VA_ARGS__)

#endif
