# SPDX-License-Identifier: BSD-3-Clause
"""The NMI watchdog: it takes one counter of every core's PMU, and an interrupt every few seconds."""

from pathlib import Path
from types import MappingProxyType

from pollscope.knobs.base import HOST_TARGET, SwitchFile


class NmiWatchdog(SwitchFile):
    """sysctl kernel.nmi_watchdog (kernel documentation, admin-guide/lockup-watchdogs)."""

    name = "nmi_watchdog"
    summary = "hard-lockup detector, which occupies one PMU counter per core"
    where = "sysctl `kernel.nmi_watchdog`"
    words = MappingProxyType({"off": "0", "on": "1"})

    def file(self, target: str = HOST_TARGET) -> Path:
        return self.host.proc / "sys/kernel/nmi_watchdog"

    def missing(self) -> str:
        return f"{self.file()} does not exist: the kernel is built without the hard-lockup detector"
