# SPDX-License-Identifier: BSD-3-Clause
"""Automatic NUMA balancing: the kernel unmaps pages to see who uses them, which costs a poller page faults."""

from pathlib import Path
from types import MappingProxyType

from pollscope.knobs.base import HOST_TARGET, SwitchFile


class NumaBalancing(SwitchFile):
    """sysctl kernel.numa_balancing (kernel documentation, admin-guide/sysctl/kernel)."""

    name = "numa_balancing"
    summary = "automatic NUMA balancing"
    where = "sysctl `kernel.numa_balancing`"
    words = MappingProxyType({"off": "0", "on": "1", "tiering": "2"})

    def file(self, target: str = HOST_TARGET) -> Path:
        return self.host.proc / "sys/kernel/numa_balancing"

    def missing(self) -> str:
        return f"{self.file()} does not exist: the kernel is built without CONFIG_NUMA_BALANCING"
