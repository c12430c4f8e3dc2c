# SPDX-License-Identifier: BSD-3-Clause
"""A NIC's counters straight from the kernel (SIOCETHTOOL), as the listing that `ethtool -S` prints.

Ten times a second a process per interface would itself be load on the measured host; an ioctl is not.
Source: linux/ethtool.h (ethtool_sset_info, ethtool_gstrings, ethtool_stats).
"""

import array
import fcntl
import socket
import struct
from contextlib import closing

_SIOCETHTOOL = 0x8946
_GSSET_INFO, _GSTRINGS, _GSTATS = 0x37, 0x1B, 0x1D
_SET_STATS = 1
_NAME_BYTES = 32
_INTERFACE_BYTES = 16


class Statistics:
    """The counters of an interface; what a reading needs stays open between readings."""

    def __init__(self, interface: str) -> None:
        self._interface = interface
        self._control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._names, self._beginnings = b"", list[str]()

    def listing(self) -> bytes:
        """The listing. Counters may come and go with queues, so names are read every time.

        Raises:
            OSError: no such interface, or its driver has no counters.
        """
        count = _count(self._control, self._interface)
        self._take_names(self._answer(struct.pack("=III", _GSTRINGS, _SET_STATS, count), count * _NAME_BYTES), count)
        values = struct.unpack(f"={count}Q", self._answer(struct.pack("=II", _GSTATS, count), count * 8))
        lines = map("{}{}\n".format, self._beginnings, values)
        return ("NIC statistics:\n" + "".join(lines)).encode()

    def close(self) -> None:
        """Gives back the socket."""
        self._control.close()

    def _answer(self, head: bytes, room: int) -> bytes:
        return _call(self._control, self._interface, head, room)[len(head) :]

    def _take_names(self, names: bytes, count: int) -> None:
        if names != self._names:
            cells = (names[index * _NAME_BYTES : (index + 1) * _NAME_BYTES] for index in range(count))
            self._beginnings = [f"     {cell.split(bytes(1))[0].decode(errors='replace')}: " for cell in cells]
            self._names = names


def statistics(interface: str) -> bytes:
    """One listing; raises as `Statistics.listing`."""
    with closing(Statistics(interface)) as one:
        return one.listing()


def _count(control: socket.socket, interface: str) -> int:
    answer = _call(control, interface, struct.pack("=IIQ", _GSSET_INFO, 0, 1 << _SET_STATS), 4)
    mask, count = struct.unpack_from("=QI", answer, 8)
    if not mask or not count:
        raise OSError(f"the driver of {interface} has no counters")
    return int(count)


def _call(control: socket.socket, interface: str, head: bytes, room: int) -> bytes:
    """One SIOCETHTOOL request; the kernel writes its answer into the buffer behind the head."""
    buffer = array.array("B", head + bytes(room))
    address, _ = buffer.buffer_info()
    request = struct.pack(f"={_INTERFACE_BYTES}sQ16x", interface.encode()[: _INTERFACE_BYTES - 1], address)
    try:
        fcntl.ioctl(control.fileno(), _SIOCETHTOOL, request)
    except OSError as error:
        raise OSError(error.errno, f"{interface}: {error.strerror}") from None
    return buffer.tobytes()
