# SPDX-License-Identifier: BSD-3-Clause
"""Read how long runnable threads waited for their CPU.

Source: /proc/PID/task/TID/schedstat, second field (Documentation/scheduler/sched-stats.rst of the kernel).
"""

import re
from collections.abc import Collection
from pathlib import Path

from pollscope.host.files import PROC, read_text

# EAL names its threads `rte-worker-2` (from 23.03 on `dpdk-worker2`); the number is the lcore.
_WORKER = re.compile(r"(?:rte-worker-|lcore-worker-|dpdk-worker)(\d+)")


def lcore_waits_ns(pid: int, lcores: Collection[int], proc: Path = PROC) -> dict[int, int]:
    """Return the waiting time of each of these lcores' threads since its start; omit unknown ones."""
    waits = {}
    for task in (proc / str(pid) / "task").glob("*"):
        match = _WORKER.fullmatch(read_text(task / "comm") or "")
        fields = (read_text(task / "schedstat") or "").split()
        if match and int(match[1]) in lcores and len(fields) == 3:
            waits[int(match[1])] = int(fields[1])
    return waits
