# SPDX-License-Identifier: BSD-3-Clause
"""Run inside a network namespace, each time as a separate process that needs only Python.

`inside.py prepare INTERFACE...` switches off offloads, and settings that would reorder packets or carry state from one
connection to the next. It needs a /sys of this namespace. `inside.py serve ADDRESS PORT` reads all data and closes a
connection after its peer has. `inside.py send ADDRESS PORT FLOWS BYTES LIMIT_S` opens FLOWS connections at once, sends
BYTES on each, and prints one JSON object: `flows`, and `kernel`, the settings that decide how TCP treats reordering.

The last two end with their standard input, because their parent may have been killed.
"""

import fcntl
import json
import platform
import selectors
import socket
import struct
import sys
import time
from ctypes import addressof, create_string_buffer
from pathlib import Path
from typing import Any

_CHUNK = b"\0" * 65536
_BACKLOG = 1024
# If no flow progresses for this time, the path is broken.
_STALL_S = 20.0
# linux/sockios.h and linux/ethtool.h.
SIOCETHTOOL, EOPNOTSUPP = 0x8946, 95
_OFFLOADS = {"tso": 0x1F, "gso": 0x24, "gro": 0x2C, "tx checksums": 0x17, "rx checksums": 0x15, "scatter": 0x19}
# Name in the result -> offset in struct tcp_info (include/uapi/linux/tcp.h), which only ever grows at its end.
TCP_INFO = {
    "segments": 156,
    "retransmissions": 100,
    "spurious_retransmissions": 216,
    "reordering": 88,
    "reordering_events": 220,
}
_INFO_BYTES = 256
_SYSCTLS = ("tcp_reordering", "tcp_max_reordering", "tcp_recovery", "tcp_sack", "tcp_early_retrans")


def prepare(interfaces: list[str]) -> None:
    """Make interfaces of this namespace ready.

    Raises:
        OSError: the kernel refuses. A feature that it lacks is off already.
    """
    sysctl = Path("/proc/sys/net")
    # The kernel caches metrics per destination (tcp_metrics), including reordering, which would affect the next trial.
    (sysctl / "ipv4/tcp_no_metrics_save").write_text("1")
    (sysctl / "ipv4/conf/all/rp_filter").write_text("0")
    for name in interfaces:
        _offloads_off(name)
        (sysctl / f"ipv4/conf/{name}/rp_filter").write_text("0")
        no_ipv6 = sysctl / f"ipv6/conf/{name}/disable_ipv6"
        if no_ipv6.exists():
            no_ipv6.write_text("1")
        # A veth queues frames on the sending CPU, and threads migrate; steering all to one CPU (RPS) keeps their order.
        Path(f"/sys/class/net/{name}/queues/rx-0/rps_cpus").write_text("1")


def _offloads_off(interface: str) -> None:
    """Switch segmentation, checksum and receive offloads of an interface off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in _OFFLOADS.values():
            value = create_string_buffer(struct.pack("=II", command, 0))
            request = struct.pack("16sP", interface.encode(), addressof(value))
            try:
                fcntl.ioctl(any_socket, SIOCETHTOOL, request)
            except OSError as error:
                if error.errno != EOPNOTSUPP:
                    raise


def serve(address: str, port: int) -> None:
    """Accept all connections until standard input ends."""
    with socket.create_server((address, port), backlog=_BACKLOG) as listener, selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ)
        waiting.register(sys.stdin, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    waiting.register(connection, selectors.EVENT_READ)
                elif not key.fileobj.recv(len(_CHUNK)):  # type: ignore[union-attr]
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]


class Flow:
    """One connection, from before its connect() to after its close()."""

    def __init__(self, address: str, port: int, size: int) -> None:
        self.left = size
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        self.socket.setblocking(False)
        self.begun_ns = time.monotonic_ns()
        self.socket.connect_ex((address, port))

    def send(self) -> bool:
        """Send as much as the kernel accepts; return whether data is left."""
        error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, "the connection failed")
        self.left -= self.socket.send(_CHUNK[: self.left])
        if self.left == 0:
            self.socket.shutdown(socket.SHUT_WR)
        return self.left > 0

    def close(self) -> dict[str, int]:
        """Close after the peer has everything and has closed."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES).ljust(_INFO_BYTES, b"\0")
        self.socket.close()
        ended_ns = time.monotonic_ns()
        words = {name: struct.unpack_from("=I", info, at)[0] for name, at in TCP_INFO.items()}
        return {"begun_ns": self.begun_ns, "completion_ns": ended_ns - self.begun_ns, **words}


def send(address: str, port: int, flows: int, size: int, limit_s: float) -> list[dict[str, int]]:
    """Run all flows at once; return the record of each in the order of completion.

    Raises:
        OSError: a connection failed.
        TimeoutError: the flows took longer than the limit, or no flow progressed for _STALL_S.
        EOFError: standard input has ended.
    """
    done: list[dict[str, int]] = []
    end = time.monotonic() + limit_s
    with selectors.DefaultSelector() as waiting:
        waiting.register(sys.stdin, selectors.EVENT_READ)
        for _ in range(flows):
            flow = Flow(address, port, size)
            waiting.register(flow.socket, selectors.EVENT_WRITE, flow)
        while len(done) < flows:
            events = waiting.select(_STALL_S)
            if not events:
                raise TimeoutError(f"no flow progresses any more, {len(done)} of {flows} were complete")
            if time.monotonic() > end:
                raise TimeoutError(f"only {len(done)} of {flows} flows were complete within the limit of the trial")
            for key, mask in events:
                flow = key.data
                if flow is None:
                    raise EOFError("the parent process has ended")
                if mask & selectors.EVENT_WRITE and not flow.send():
                    waiting.modify(flow.socket, selectors.EVENT_READ, flow)
                elif mask & selectors.EVENT_READ and not flow.socket.recv(1):
                    waiting.unregister(flow.socket)
                    done.append(flow.close())
    return done


def kernel() -> dict[str, Any]:
    """Return what decides how TCP treats reordering: the kernel release, and settings of this namespace."""
    folder = Path("/proc/sys/net/ipv4")
    found = {name: (folder / name).read_text().strip() for name in _SYSCTLS if (folder / name).exists()}
    return {"release": platform.release(), **found}


def main(words: list[str]) -> None:
    """Return one of the three commands above."""
    if words[0] == "prepare":
        prepare(words[1:])
    elif words[0] == "serve":
        serve(words[1], int(words[2]))
    else:
        found = send(words[1], int(words[2]), int(words[3]), int(words[4]), float(words[5]))
        print(json.dumps({"kernel": kernel(), "flows": found}))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, EOFError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
