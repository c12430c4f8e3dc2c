/* SPDX-License-Identifier: BSD-3-Clause */
#include "workload.h"

#include <stddef.h>

const struct workload *const workloads[] = {&workload_io, &workload_drop, &workload_l3fwd_lpm, NULL};
const char *const workload_names[] = {"io", "drop", "l3fwd-lpm", NULL};
