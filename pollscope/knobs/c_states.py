# SPDX-License-Identifier: BSD-3-Clause
"""Limit the wake-up time of a sleeping core: a PM QoS request, which lives as long as the process that made it."""

import os
import struct
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.host.restore import NotStuck
from pollscope.knobs.base import HOST_TARGET, Availability, Knob, parse_whole
from pollscope.knobs.host import read_text, writable_reason

_REQUEST = struct.Struct("=i")
# PM_QOS_CPU_LATENCY_DEFAULT_VALUE of the kernel: 2000 s, the value without any request.
_NO_REQUEST_US = 2_000_000_000


class CStates(Knob):
    """/dev/cpu_dma_latency, held open (kernel documentation, power/pm_qos_interface).

    A value is the longest allowed exit latency in microseconds; 0 keeps cores out of every C-state. The smallest
    request of all processes counts, so the read-back shows if another process requests less. The kernel drops the
    request when the file is closed, also by SIGKILL; nothing is left to restore.
    """

    name = "c_states"
    summary = "longest exit latency of C-states (PM QoS)"
    values = "0 to 1999999999 (microseconds), or any"
    where = "`/dev/cpu_dma_latency`, held open while the process lives"
    holder = "process"

    _held: int | None = None

    def available(self) -> Availability:
        path = self._path()
        if not path.exists():
            return Availability(f"{path} does not exist: the kernel has no PM QoS for processors")
        return Availability(writable_reason(path))

    def targets(self) -> list[str]:
        return [HOST_TARGET] if self._path().exists() else []

    @classmethod
    def parse(cls, value: object) -> str:
        if str(value).strip().lower() == "any":
            return "any"
        return str(parse_whole(cls, value, 0, _NO_REQUEST_US - 1))

    def read(self, target: str) -> str:
        content = read_text(self._path()).encode("latin-1")
        if len(content) != _REQUEST.size:
            raise HostError(f"{len(content)} bytes where 4 were expected", str(self._path()))
        return str(_REQUEST.unpack(content)[0])

    def show(self, state: str) -> str:
        return "any" if int(state) == _NO_REQUEST_US else state

    def state_for(self, value: str, state: str, target: str) -> str:
        return str(_NO_REQUEST_US) if value == "any" else value

    def write(self, target: str, state: str) -> None:
        """Make the request or change the held one; "any" drops it."""
        if int(state) == _NO_REQUEST_US:
            return self.drop()
        try:
            if self._held is None:
                self._held = os.open(self._path(), os.O_WRONLY | os.O_CLOEXEC)
            os.write(self._held, _REQUEST.pack(int(state)))
        except OSError as error:
            raise HostError(f"the request was refused: {error.strerror}", str(self._path())) from error

    def verify(self, target: str, wanted: str) -> str:
        found = self.read(target)
        if found != wanted:
            asked, read = self.show(wanted), self.show(found)
            raise NotStuck(f"asked for {asked} us, but another process holds {read} us", self.place(target))
        return found

    def drop(self) -> None:
        """End the request; harmless when there is none."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _path(self) -> Path:
        return self.host.dev / "cpu_dma_latency"
