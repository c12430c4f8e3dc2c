# SPDX-License-Identifier: BSD-3-Clause
"""Set the processors that may serve an interrupt."""

import re
from pathlib import Path

from pollscope.base.errors import UsageError
from pollscope.host.files import format_list
from pollscope.knobs.base import Availability, FileKnob, Refused
from pollscope.knobs.host import read_text
from pollscope.knobs.pci import PciDevice

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


class IrqAffinity(FileKnob):
    """/proc/irq/N/smp_affinity_list (proc(5)); a target is "irq42", or a PCI device for all its interrupts.

    The kernel refuses interrupts that it manages itself (queues of NVMe, some NICs) with an input/output error.
    """

    name = "irq_affinity"
    summary = "processors that may serve an interrupt"
    values = "a list of processors: 0-1,4"
    aims = "`irqN`, or a NIC for all its MSIs (none)"
    where = "`/proc/irq/N/smp_affinity_list`"

    def missing(self) -> str:
        return f"{self.host.proc}/irq lists no interrupt whose affinity can be set"

    def available(self) -> Availability:
        if self.targets() and (pid := self._irqbalance()):
            return Availability(f"irqbalance (pid {pid}) would move the interrupts again: systemctl stop irqbalance")
        return super().available()

    def targets(self) -> list[str]:
        numbers = (path.parent.name for path in (self.host.proc / "irq").glob("[0-9]*/smp_affinity_list"))
        return [f"irq{number}" for number in sorted(map(int, numbers))]

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        if target is None and value is not None:
            raise UsageError(
                "irq_affinity needs a target", remedy="for instance irq42, or a PCI device like 0000:17:00.0"
            )
        if target is None or target.startswith("irq"):
            return super().select(target)
        return self._of_device(target)

    @classmethod
    def parse(cls, value: object) -> str:
        try:
            return format_list(_cpus(str(value)))
        except ValueError:
            raise cls.bad_value(value) from None

    def show(self, state: str) -> str:
        return format_list(_cpus(state)) if state.strip() else ""

    def state_for(self, value: str, state: str, target: str) -> str:
        present = _cpus(read_text(self.host.cpu_dir / "online"))
        if absent := _cpus(value) - present:
            what = f"processor {format_list(absent)} is not online (online: {format_list(present)})"
            raise Refused(what, self.place(target))
        return super().state_for(value, state, target)

    def _irqbalance(self) -> str:
        """Return the pid of irqbalance, which writes these files every few seconds; empty when it does not run."""
        # Not in one pattern: glob() would raise ProcessLookupError for a process that ends during the search.
        for path in (process / "comm" for process in self.host.proc.glob("[0-9]*")):
            try:
                if path.read_text(errors="replace").strip() == "irqbalance":
                    return path.parent.name
            except OSError:  # it ended meanwhile
                continue
        return ""

    def _of_device(self, name: str) -> list[str]:
        device = PciDevice.find(self.host, name)
        numbers = sorted(int(path.name) for path in (device.path / "msi_irqs").glob("[0-9]*"))
        known = set(self.targets())
        found = [f"irq{number}" for number in numbers if f"irq{number}" in known]
        if not found:
            raise Refused("the device has no MSI interrupt", f"{self.name} {device.address}")
        return found

    def file(self, target: str) -> Path:
        return self.host.proc / "irq" / target.removeprefix("irq") / "smp_affinity_list"


def _cpus(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.strip().split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(text)
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found
