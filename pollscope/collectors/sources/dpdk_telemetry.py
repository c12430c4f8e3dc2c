# SPDX-License-Identifier: BSD-3-Clause
"""Collect from DPDK's telemetry socket (version 2), a SOCK_SEQPACKET socket with one request per packet."""

import json
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import dpdk_telemetry
from pollscope.collectors.polling import PollingCollector
from pollscope.host.eal_folders import runtime_folder

_TIMEOUT_S = 2.0


class DpdkTelemetry(PollingCollector):
    """Collect statistics of every port and cycles of every lcore of one running DPDK application."""

    name, summary = "dpdk-telemetry", "statistics and lcore cycles of a running DPDK application"
    notes = "counter (socket v2); `file_prefix` chooses one of several applications"
    parser = staticmethod(dpdk_telemetry.parse)

    def __init__(self, file_prefix: str = "") -> None:
        super().__init__()
        self._prefix, self._runtime = file_prefix, runtime_folder()
        self._connection: socket.socket | None = None
        self._limit = 16384

    def _sockets(self) -> list[Path]:
        """Return the sockets that answer; `:1` and so on are instances with --in-memory under the same prefix."""
        pattern = f"{self._prefix or '*'}/dpdk_telemetry.v2*"
        return [path for path in sorted(self._runtime.glob(pattern)) if _answers(path)]

    def probe(self) -> ProbeResult:
        found = self._sockets()
        if not found:
            what = f"with the file prefix {self._prefix!r} " if self._prefix else ""
            return ProbeResult(False, f"no DPDK application {what}offers telemetry now")
        if len(found) > 1:
            names = ", ".join(path.parent.name for path in found)
            return ProbeResult(False, f"several DPDK applications run ({names}): choose one by --file-prefix NAME")
        return ProbeResult(True, str(found[0]))

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        try:
            yield from self._snapshot()
        except OSError:
            # The application restarted. The next snapshot connects again.
            self.release()
            raise

    def release(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _snapshot(self) -> Iterator[tuple[str, bytes]]:
        ports = json.loads(self._ask("/ethdev/list")).get("/ethdev/list") or []
        for port in ports:
            for command in ("/ethdev/stats", "/ethdev/xstats"):
                request = f"{command},{port}"
                yield request, self._ask(request) + b"\n"
        yield "/eal/lcore/usage", self._ask("/eal/lcore/usage") + b"\n"

    def _ask(self, request: str) -> bytes:
        if self._connection is None:
            found = self._sockets()
            if not found:
                raise HostError("the DPDK application is gone", self.name)
            self._connection = _connect(found[0])
            hello = json.loads(self._connection.recv(1024))
            self._limit = int(hello["max_output_len"])
        self._connection.send(request.encode())
        reply = self._connection.recv(self._limit + 1024)
        if not reply:
            raise OSError("the application closed the telemetry socket")
        return reply


def _connect(path: Path) -> socket.socket:
    """Connect, and wait while the backlog of one that EAL has is full (EAGAIN on a socket with a timeout)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_TIMEOUT_S)
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        while True:
            try:
                connection.connect(str(path))
                return connection
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    except OSError:
        connection.close()
        raise


def _answers(path: Path) -> bool:
    """Tell whether an application is behind a socket file, which outlives it."""
    try:
        _connect(path).close()
    except OSError:
        return False
    return True
