# SPDX-License-Identifier: BSD-3-Clause
"""Record activity that took time from the measuring CPUs: /proc/stat, /proc/interrupts and /proc/softirqs."""

from collections.abc import Iterable
from pathlib import Path

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.open_files import OpenFiles
from pollscope.collectors.parsers import kernel_load
from pollscope.collectors.polling import PollingCollector

_LOAD = ("stat", "interrupts", "softirqs")


class KernelLoad(PollingCollector):
    """Ticks (steal among them), context switches, interrupts and softirqs of every CPU."""

    name, summary = "kernel-load", "/proc: ticks, steal, context switches, interrupts, softirqs per CPU"
    notes = "counter; steal in ticks"
    parser = staticmethod(kernel_load.parse)

    def __init__(self) -> None:
        super().__init__()
        self._files = OpenFiles()

    def probe(self) -> ProbeResult:
        return ProbeResult(Path("/proc/stat").exists(), "/proc")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        for name in _LOAD:
            yield name, self._files.read(f"/proc/{name}")

    def release(self) -> None:
        self._files.close()
