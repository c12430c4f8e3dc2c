# SPDX-License-Identifier: BSD-3-Clause
"""APERF and MPERF of every CPU: the real mean frequency over an interval is base frequency * dAPERF / dMPERF.

Both count only while the core is not halted (Intel SDM vol. 3, 15.5.5). The recording is `cpuN ADDRESS HEX` lines.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .interface import Availability
from .parsing import Origin, numbered
from .polling import PollingCollector
from .sample import Kind, Metric, Reading

NAME = "aperf"

_REGISTERS = {0xE7: "mperf", 0xE8: "aperf"}
_METRICS = {address: Metric(name, "cycles", Kind.COUNTER) for address, name in _REGISTERS.items()}
_LINE = re.compile(r"(cpu\d+) 0x([0-9a-f]+) ([0-9a-f]{1,16})")


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Reads the recorded registers.

    Raises:
        ParseError: no register in it.
    """
    found, t_ns = False, origin.now()
    for number, text in numbered(lines, origin):
        match = _LINE.fullmatch(text)
        metric = _METRICS.get(int(match[2], 16)) if match else None
        if match is None or metric is None:
            origin.leave_out(number, f"no register: {text[:60]!r}")
            continue
        found = True
        yield Reading(t_ns, match[1], (metric,), (int(match[3], 16),))
    if not found:
        raise origin.refuse(0, "no register in it", "record with: pollscope collect aperf")


class AperfMperf(PollingCollector):
    """Reads the two registers through /dev/cpu/N/msr."""

    name, summary = NAME, "APERF and MPERF: real frequency of every CPU"
    parser = staticmethod(parse)

    def probe(self) -> Availability:
        if not _devices():
            return Availability(False, "no MSR device /dev/cpu/0/msr (modprobe msr)")
        try:
            _read(_devices()[0], 0xE7)
        except OSError as error:
            return Availability(False, f"{_devices()[0]}: {error.strerror}")
        return Availability(True, f"{len(_devices())} CPUs")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        lines = (
            f"cpu{path.parent.name} {address:#x} {_read(path, address):x}\n"
            for path in _devices()
            for address in _REGISTERS
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
