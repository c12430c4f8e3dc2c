/* SPDX-License-Identifier: BSD-3-Clause */
/* A DPDK that was built with fewer queues: rte_config.h has no switch for it. */
#if __has_include(<rte_config.h>) /* not in meson's own trials of the compiler */
#include <rte_config.h>
#undef RTE_MAX_QUEUES_PER_PORT
#define RTE_MAX_QUEUES_PER_PORT 256
#endif
