# SPDX-License-Identifier: BSD-3-Clause
"""Counters and settings of the NICs that the kernel drives; a port that vfio-pci took is read through DPDK's telemetry.

Counters come straight from the kernel (SIOCETHTOOL), as the listing that `ethtool -S` prints: a process per interface
ten times per second would load the measured host; an ioctl does not.
Source: linux/ethtool.h (ethtool_sset_info, ethtool_gstrings, ethtool_stats).
"""

import array
import contextlib
import fcntl
import shutil
import socket
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import ethtool
from pollscope.collectors.polling import PollingCollector
from pollscope.collectors.tool import ask

_SIOCETHTOOL = 0x8946
_GSSET_INFO, _GSTRINGS, _GSTATS = 0x37, 0x1B, 0x1D
_SET_STATS = 1
_NAME_BYTES = 32
_INTERFACE_BYTES = 16
_NO_INTERFACE = "no network interface on a device (all bound to vfio-pci?)"


class Ethtool(PollingCollector):
    """Counters of the NICs that the kernel drives; a port that vfio-pci took is read through DPDK's telemetry."""

    name, summary = "ethtool", "counters of the kernel's NICs, with normalised names"
    notes = "counter (ioctl); `outbound_pci_stalled_rd/_wr` are gauges"
    parser = staticmethod(ethtool.parse)

    def __init__(self, interfaces: Sequence[str] = ()) -> None:
        super().__init__()
        self._interfaces = tuple(interfaces)
        self._open: dict[str, Statistics] = {}

    def _names(self) -> tuple[str, ...]:
        if not self._interfaces:
            self._interfaces = _on_devices()
        return self._interfaces

    def probe(self) -> ProbeResult:
        names = self._names()
        if not names:
            return ProbeResult(False, _NO_INTERFACE)
        reasons = []
        for name in names:
            try:
                with contextlib.closing(Statistics(name)) as one:
                    one.listing()
                return ProbeResult(True, ", ".join(names))
            except OSError as error:
                reasons.append(str(error))
        return ProbeResult(False, "; ".join(reasons))

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        for name in self._names():
            if name not in self._open:
                self._open[name] = Statistics(name)
            yield name, self._open[name].listing()

    def release(self) -> None:
        for one in self._open.values():
            one.close()
        self._open = {}


class EthtoolSettings(PollingCollector):
    """Driver (-i), rings (-g) and interrupt moderation (-c) of the NICs that the kernel drives."""

    name, summary = "ethtool-settings", "driver, rings and interrupt moderation of the kernel's NICs"
    notes = "state"
    parser = staticmethod(ethtool.parse_settings)
    once = True

    def __init__(self, interfaces: Sequence[str] = ()) -> None:
        super().__init__()
        self._interfaces = tuple(interfaces)

    def probe(self) -> ProbeResult:
        if shutil.which("ethtool") is None:
            return ProbeResult(False, "ethtool is not installed (apt-get install ethtool)")
        names = self._interfaces or _on_devices()
        return ProbeResult(bool(names), ", ".join(names) or _NO_INTERFACE)

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        for name in self._interfaces or _on_devices():
            yield name, ask(["ethtool", "-i", name])
            for flag in ("-g", "-c"):
                # a driver need not have either of them
                with contextlib.suppress(HostError):
                    yield name, ask(["ethtool", flag, name])


def _on_devices() -> tuple[str, ...]:
    """Return the kernel's network interfaces that belong to a device."""
    return tuple(path.parent.name for path in sorted(Path("/sys/class/net").glob("*/device")))


class Statistics:
    """The counters of an interface; files stay open between readings."""

    def __init__(self, interface: str) -> None:
        self._interface = interface
        self._control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._names, self._beginnings = b"", list[str]()

    def listing(self) -> bytes:
        """Return the listing. Counters may appear and disappear with queues, so names are read every time.

        Raises:
            OSError: no such interface, or its driver has no counters.
        """
        sets = self._answer(struct.pack("=IIQ", _GSSET_INFO, 0, 1 << _SET_STATS), 4)
        mask, count = struct.unpack_from("=QI", sets, 8)
        if not mask or not count:
            raise OSError(f"the driver of {self._interface} has no counters")
        names = self._answer(struct.pack("=III", _GSTRINGS, _SET_STATS, count), count * _NAME_BYTES)[12:]
        if names != self._names:
            cells = (names[index * _NAME_BYTES : (index + 1) * _NAME_BYTES] for index in range(count))
            self._beginnings = [f"     {cell.split(bytes(1))[0].decode(errors='replace')}: " for cell in cells]
            self._names = names
        values = struct.unpack_from(f"={count}Q", self._answer(struct.pack("=II", _GSTATS, count), count * 8), 8)
        lines = map("{}{}\n".format, self._beginnings, values)
        return ("NIC statistics:\n" + "".join(lines)).encode()

    def close(self) -> None:
        """Close the socket."""
        self._control.close()

    def _answer(self, head: bytes, room: int) -> bytes:
        """Make one SIOCETHTOOL request; the kernel writes its answer into the buffer after the head."""
        buffer = array.array("B", head + bytes(room))
        address, _ = buffer.buffer_info()
        request = struct.pack(f"={_INTERFACE_BYTES}sQ16x", self._interface.encode()[: _INTERFACE_BYTES - 1], address)
        try:
            fcntl.ioctl(self._control.fileno(), _SIOCETHTOOL, request)
        except OSError as error:
            raise OSError(error.errno, f"{self._interface}: {error.strerror}") from None
        return buffer.tobytes()
