/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers that most files include, compiled once per target: parsing DPDK's is half the time of a build. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
