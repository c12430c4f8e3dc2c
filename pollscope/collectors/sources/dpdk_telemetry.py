# SPDX-License-Identifier: BSD-3-Clause
"""Collect from DPDK's telemetry socket."""

from collections.abc import Iterable
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import dpdk_telemetry
from pollscope.collectors.polling import PollingCollector
from pollscope.host.eal_folders import runtime_folder
from pollscope.host.telemetry_socket import TelemetrySocket, telemetry_sockets


class DpdkTelemetry(PollingCollector):
    """Collect statistics of every port and cycles of every lcore of one running DPDK application."""

    name, summary = "dpdk-telemetry", "statistics and lcore cycles of a running DPDK application"
    notes = "counter (socket v2); `file_prefix` chooses one of several applications"
    parser = staticmethod(dpdk_telemetry.parse)

    def __init__(self, file_prefix: str = "", socket: str = "") -> None:
        super().__init__()
        self._prefix, self._runtime = file_prefix, runtime_folder()
        self._socket = Path(socket) if socket else None
        self._connection: TelemetrySocket | None = None

    def _sockets(self) -> list[Path]:
        return [self._socket] if self._socket else telemetry_sockets(self._prefix, self._runtime)

    def probe(self) -> ProbeResult:
        found = self._sockets()
        if not found:
            what = f"with the file prefix {self._prefix!r} " if self._prefix else ""
            return ProbeResult(False, f"no DPDK application {what}offers telemetry now")
        if len(found) > 1:
            names = ", ".join(path.parent.name for path in found)
            return ProbeResult(False, f"several DPDK applications run ({names}): choose one with --file-prefix NAME")
        return ProbeResult(True, str(found[0]))

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        try:
            if self._connection is None:
                found = self._sockets()
                if not found:
                    raise HostError("the DPDK application is gone", self.name)
                self._connection = TelemetrySocket(found[0])
            for port in self._connection.value("/ethdev/list") or []:
                for command in ("/ethdev/stats", "/ethdev/xstats"):
                    request = f"{command},{port}"
                    yield request, self._connection.ask(request) + b"\n"
            yield "/eal/lcore/usage", self._connection.ask("/eal/lcore/usage") + b"\n"
        except OSError:
            # The application restarted. The next snapshot connects again.
            self.release()
            raise

    def release(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
