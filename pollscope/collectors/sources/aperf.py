# SPDX-License-Identifier: BSD-3-Clause
"""APERF and MPERF of every CPU: the real mean frequency over an interval is base frequency * dAPERF / dMPERF.

Both count only while the core is not halted (Intel SDM vol. 3, 15.5.5).
"""

import os
from collections.abc import Iterable
from pathlib import Path

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import aperf
from pollscope.collectors.polling import PollingCollector


class AperfMperf(PollingCollector):
    """Reads the two registers through /dev/cpu/N/msr."""

    name, summary = "aperf", "APERF and MPERF: real frequency of every CPU"
    notes = "counter (MSR)"
    parser = staticmethod(aperf.parse)

    def probe(self) -> ProbeResult:
        if not _devices():
            return ProbeResult(False, "no MSR device /dev/cpu/0/msr (modprobe msr)")
        try:
            _read(_devices()[0], 0xE7)
        except OSError as error:
            return ProbeResult(False, f"{_devices()[0]}: {error.strerror}")
        return ProbeResult(True, f"{len(_devices())} CPUs")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        lines = (
            f"cpu{path.parent.name} {address:#x} {_read(path, address):x}\n"
            for path in _devices()
            for address in aperf.REGISTERS
        )
        yield "", "".join(lines).encode()


def _devices() -> list[Path]:
    return sorted(Path("/dev/cpu").glob("[0-9]*/msr"), key=lambda path: int(path.parent.name))


def _read(path: Path, address: int) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return int.from_bytes(os.pread(descriptor, 8, address), "little")
    finally:
        os.close(descriptor)
