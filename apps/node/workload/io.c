/* SPDX-License-Identifier: BSD-3-Clause */
/* Every packet goes out as it came in. */
#include "loop/loop.h"
#include "workload.h"

WORKLOAD_LOOPS(loops_io, process_nothing, false);

const struct workload workload_io = {.receives = true, .sends = true, .loops = &loops_io};
