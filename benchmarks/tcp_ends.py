# SPDX-License-Identifier: BSD-3-Clause
"""Both ends of TCP flows, each a process in a network namespace of its own (tcp_flows.py).

`tcp_ends.py serve ADDRESS PORT` reads what comes and closes a connection when its peer has no more to send; ends at the
end of its standard input. `tcp_ends.py send ADDRESS PORT FLOWS BYTES` opens so many connections at once, sends so many
bytes on each, and prints one JSON object: of each flow its completion time (from before connect() to after close(),
which follows the peer's close), retransmitted segments, and what the kernel thinks of its order (TCP_INFO).
"""

import json
import platform
import selectors
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

CHUNK = b"\0" * 65536
BACKLOG = 1024
LIMIT_S = 20.0
# Offsets in struct tcp_info (include/uapi/linux/tcp.h), which only ever grows at its end.
REORDERING, TOTAL_RETRANS, REORD_SEEN = 88, 100, 220
INFO_BYTES = 256
SYSCTLS = ("tcp_reordering", "tcp_max_reordering", "tcp_recovery", "tcp_sack", "tcp_early_retrans")


def serve(address: str, port: int) -> None:
    """Takes all connections until standard input ends."""
    with socket.create_server((address, port), backlog=BACKLOG) as listener, selectors.DefaultSelector() as waiting:
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
                elif not key.fileobj.recv(len(CHUNK)):  # type: ignore[union-attr]
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]


class Flow:
    """One connection, from before its connect() to after its close()."""

    def __init__(self, address: str, port: int, size: int) -> None:
        self.left = size
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        self.socket.setblocking(False)
        self.begun = time.monotonic()
        self.socket.connect_ex((address, port))

    def send(self) -> bool:
        """Sends what the kernel takes; returns whether there is more."""
        error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, "the connection failed")
        self.left -= self.socket.send(CHUNK[: self.left])
        if self.left == 0:
            self.socket.shutdown(socket.SHUT_WR)
        return self.left > 0

    def close(self) -> dict[str, float]:
        """The peer has everything, and has closed."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES).ljust(INFO_BYTES, b"\0")
        self.socket.close()
        word = {
            name: struct.unpack_from("=I", info, at)[0]
            for name, at in (
                ("retransmissions", TOTAL_RETRANS),
                ("reordering", REORDERING),
                ("reordering_events", REORD_SEEN),
            )
        }
        return {"completion_s": time.monotonic() - self.begun, **word}


def send(address: str, port: int, flows: int, size: int) -> list[dict[str, float]]:
    """Runs all flows at once.

    Raises:
        OSError: a connection failed.
        TimeoutError: nothing happened for LIMIT_S.
    """
    done: list[dict[str, float]] = []
    with selectors.DefaultSelector() as waiting:
        for _ in range(flows):
            flow = Flow(address, port, size)
            waiting.register(flow.socket, selectors.EVENT_WRITE, flow)
        while len(done) < flows:
            events = waiting.select(LIMIT_S)
            if not events:
                raise TimeoutError(f"no flow went on for {LIMIT_S:g} s")
            for key, mask in events:
                flow = key.data
                if mask & selectors.EVENT_WRITE and not flow.send():
                    waiting.modify(flow.socket, selectors.EVENT_READ, flow)
                elif mask & selectors.EVENT_READ and not flow.socket.recv(1):
                    waiting.unregister(flow.socket)
                    done.append(flow.close())
    return done


def kernel() -> dict[str, Any]:
    """What decides how TCP takes reordering."""
    folder = Path("/proc/sys/net/ipv4")
    found = {name: (folder / name).read_text().strip() for name in SYSCTLS if (folder / name).exists()}
    return {"release": platform.release(), **found}


def main(words: list[str]) -> None:
    if words[0] == "serve":
        serve(words[1], int(words[2]))
    else:
        found = send(words[1], int(words[2]), int(words[3]), int(words[4]))
        print(json.dumps({"kernel": kernel(), "flows": found}))


if __name__ == "__main__":
    main(sys.argv[1:])
