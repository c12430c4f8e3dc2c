# SPDX-License-Identifier: BSD-3-Clause
"""IOTLB events of the virtual Intel IOMMU of a QEMU machine (testbed vm-pair), from QEMU's own trace events.

They are real events of an emulated IOTLB: `emulated` stands in the unit path, and they say nothing about hardware. A
line is written for each event, which slows the machine, so events are on only for a slice of every interval; the
piece of a slice is labelled with its length, and counts become rates.
"""

import json
import re
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pollscope.errors import HostError

from .interface import Availability
from .parsing import Origin, numbered
from .polling import PollingCollector
from .sample import Kind, Metric, Reading, reading

NAME = "qemu-vtd"
SLICE_S = 0.02
REPLY_LIMIT_S = 5.0
# hw/i386/trace-events of QEMU: an update is the fill of an entry after a miss; a device-wide reset empties the IOTLB.
EVENTS = {
    "vtd_iotlb_page_hit": "iotlb_hits",
    "vtd_iotlb_page_update": "iotlb_misses",
    "vtd_iotlb_reset": "iotlb_resets",
}
_PAGE = re.compile(
    r"(vtd_iotlb_page_(?:hit|update)) IOTLB page \w+ sid 0x([0-9a-f]+) iova 0x[0-9a-f]+ "
    r"slpte 0x[0-9a-f]+ domain 0x[0-9a-f]+"
)
_METRICS = {metric: Metric(metric, "1/s", Kind.RATE) for metric in EVENTS.values()}


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Events of one slice as rates: hits and misses of each device, resets of the IOMMU.

    Raises:
        ParseError: the label does not say how long the slice was.
    """
    if not re.fullmatch(r"[1-9]\d*", origin.label):
        raise origin.refuse(1, f"the slice has no length in ns: {origin.label!r}", "record again")
    counts: Counter[tuple[str, str]] = Counter()
    devices: set[str] = set()
    for number, text in numbered(lines, origin):
        found = _PAGE.fullmatch(text.strip())
        if found:
            devices.add(_device(int(found[2], 16)))
            counts[EVENTS[found[1]], _device(int(found[2], 16))] += 1
        elif text.startswith("vtd_iotlb_reset"):
            counts["iotlb_resets", ""] += 1
        else:
            origin.leave_out(number, f"no event of the IOTLB: {text.strip()[:60]!r}")
    yield from _rates(counts, sorted(devices), int(origin.label) / 1e9, origin)


def _rates(counts: Counter[tuple[str, str]], devices: list[str], seconds: float, origin: Origin) -> Iterator[Reading]:
    whole = {metric: sum(count for (name, _), count in counts.items() if name == metric) for metric in EVENTS.values()}
    yield reading(origin.now(), "emulated", ((_METRICS[name], count / seconds, "") for name, count in whole.items()))
    for device in devices:
        cells = ((_METRICS[name], counts[name, device] / seconds, "") for name in ("iotlb_hits", "iotlb_misses"))
        yield reading(origin.now(), f"emulated/{device}", cells)


def _device(source_id: int) -> str:
    """Bus, device and function of a PCI Express source id."""
    return f"{source_id >> 8:02x}:{source_id >> 3 & 31:02x}.{source_id & 7}"


class Monitor:
    """A connection to QEMU's machine protocol.

    Raises:
        HostError: nobody listens, or QEMU refuses a command.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._socket = path, socket.socket(socket.AF_UNIX)
        self._socket.settimeout(REPLY_LIMIT_S)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise HostError(f"QEMU's monitor does not answer: {error.strerror or error}", str(path)) from None
        self._file = self._socket.makefile("rw", encoding="utf-8")
        self._reply()  # the greeting
        self._execute("qmp_capabilities")

    def tell(self, line: str) -> None:
        """A command of the human monitor, which answers only to complain."""
        said = self._execute("human-monitor-command", {"command-line": line})
        if said:
            raise HostError(f"QEMU: {said.strip()}", str(self._path))

    def _execute(self, command: str, arguments: dict[str, Any] | None = None) -> Any:
        self._file.write(json.dumps({"execute": command, "arguments": arguments or {}}) + "\n")
        self._file.flush()
        while "event" in (reply := self._reply()):
            pass
        if "error" in reply:
            raise HostError(f"QEMU: {reply['error'].get('desc')}", str(self._path))
        return reply["return"]

    def _reply(self) -> dict[str, Any]:
        try:
            line = self._file.readline()
        except OSError as error:
            raise HostError(f"QEMU's monitor does not answer: {error}", str(self._path)) from None
        if not line.endswith("\n"):
            raise HostError("QEMU's monitor was closed", str(self._path))
        return dict(json.loads(line))

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class QemuVtd(PollingCollector):
    """Slices of the trace of one machine.

    Args:
        monitor: the UNIX socket of its QEMU's machine protocol; the trace file is made beside it for each slice.
    """

    name = NAME
    summary = "IOTLB hits and misses of a virtual machine's emulated IOMMU, from QEMU's trace events"
    parser = staticmethod(parse)

    def __init__(self, monitor: str | None = None) -> None:
        super().__init__()
        self._path = None if monitor is None else Path(monitor)
        self._monitor: Monitor | None = None

    def probe(self) -> Availability:
        if self._path is None:
            return Availability(False, "only the testbed vm-pair has an emulated IOMMU")
        Monitor(self._path).close()
        return Availability(True, f"QEMU at {self._path}")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        assert self._path is not None, "BUG: started without a monitor"
        if self._monitor is None:
            self._monitor = Monitor(self._path)
        trace = self._path.with_suffix(".trace")
        self._monitor.tell(f"logfile {trace}")
        begin_ns = time.monotonic_ns()
        try:
            self._monitor.tell(f"log {','.join(f'trace:{event}' for event in EVENTS)}")
            time.sleep(SLICE_S)
        finally:
            self._monitor.tell("log none")
        length_ns = time.monotonic_ns() - begin_ns
        yield str(length_ns), trace.read_bytes()
        trace.unlink()

    def release(self) -> None:
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
