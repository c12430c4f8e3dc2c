# SPDX-License-Identifier: BSD-3-Clause
"""IOTLB events of the virtual Intel IOMMU of a QEMU machine (testbed vm-pair), from QEMU's own trace events.

They are real events of an emulated IOTLB: the unit path contains `emulated`, and they say nothing about hardware. Each
event writes a line, which slows the machine, so events are enabled only for a part of every interval; the recorded
piece is labelled with the length of that part.
"""

import json
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError
from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import qemu_vtd
from pollscope.collectors.polling import PollingCollector
from pollscope.host.files import read_plain

_SLICE_S = 0.02
_REPLY_LIMIT_S = 5.0


class Monitor:
    """A connection to QEMU's machine protocol.

    Raises:
        HostError: QEMU does not listen, or refuses a command.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._socket = path, socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_REPLY_LIMIT_S)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise HostError(f"QEMU's monitor does not answer: {error.strerror or error}", str(path)) from None
        self._file = self._socket.makefile("rw", encoding="utf-8")
        self._reply()  # the greeting
        self._execute("qmp_capabilities")

    def tell(self, line: str) -> None:
        """Send a command to the human monitor, which answers with errors only."""
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
    """Short recordings of the trace of one machine.

    Args:
        monitor: the UNIX socket of its QEMU's machine protocol; the trace file is made beside it for each recording.
    """

    name = "qemu-vtd"
    summary = "IOTLB hits and misses of a virtual machine's emulated IOMMU, from QEMU's trace events"
    notes = "rates of an **emulated** IOMMU, from 20 ms of every interval; the machine is slower in that time"
    parser = staticmethod(qemu_vtd.parse)

    def __init__(self, monitor: str | None = None) -> None:
        super().__init__()
        self._path = None if monitor is None else Path(monitor)
        self._monitor: Monitor | None = None

    def probe(self) -> ProbeResult:
        if self._path is None:
            return ProbeResult(False, "only the testbed vm-pair has an emulated IOMMU")
        Monitor(self._path).close()
        return ProbeResult(True, f"QEMU at {self._path}")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        assert self._path is not None, "BUG: started without a monitor"
        if self._monitor is None:
            self._monitor = Monitor(self._path)
        trace = self._path.with_suffix(".trace")
        self._monitor.tell(f"logfile {trace}")
        begin_ns = time.monotonic_ns()
        try:
            self._monitor.tell(f"log {','.join(f'trace:{event}' for event in qemu_vtd.EVENTS)}")
            time.sleep(_SLICE_S)
        finally:
            self._monitor.tell("log none")
        length_ns = time.monotonic_ns() - begin_ns
        yield str(length_ns), read_plain(trace)
        trace.unlink()

    def release(self) -> None:
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
