# SPDX-License-Identifier: BSD-3-Clause
"""Simultaneous multithreading: whether the second thread of every core is online."""

from pathlib import Path
from types import MappingProxyType

from pollscope.knobs.base import HOST_TARGET, Availability, SwitchFile
from pollscope.knobs.host import read_text

# Contents of smt/control that cannot be left at run time (kernel documentation, ABI/testing/sysfs-devices-system-cpu).
FIXED = {
    "forceoff": "SMT was switched off for good until the next boot (forceoff)",
    "notsupported": "the processor has one thread per core (notsupported)",
    "notimplemented": "the kernel cannot control SMT on this architecture (notimplemented)",
}


class Smt(SwitchFile):
    """/sys/devices/system/cpu/smt/control; 'forceoff' is never written, because it cannot be undone."""

    name = "smt"
    summary = "second hardware thread of every core"
    where = "`smt/control`"
    words = MappingProxyType({"off": "off", "on": "on"})

    def file(self, target: str = HOST_TARGET) -> Path:
        return self.host.cpu_dir / "smt/control"

    def missing(self) -> str:
        return f"{self.file()} does not exist: the kernel has no SMT control"

    def available(self) -> Availability:
        present = super().available()
        if not self.file().exists():
            return present
        return Availability(FIXED.get(read_text(self.file()).strip(), present.reason))
