#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Stand in for pktgen-dpdk's control socket: take the generator driver's Lua, but send no packets.

PKTGEN_PORT is where it listens; FAKE_PKTGEN: `die` (at the start), `mute` (answers nothing), or empty. PKTGEN_LOG gets
every line. Rates are those of a 10 Gb/s line; nine of ten packets come back.
"""

import os
import re
import socket
import sys
import threading
import time

LINE_BPS = 10e9


class Port:
    def __init__(self) -> None:
        self.rate, self.size, self.sent = 0.0, 64, 0.0
        self.since: float | None = None

    def count(self) -> float:
        now = time.monotonic()
        running = 0 if self.since is None else now - self.since
        return self.sent + running * self.rate / 100 * LINE_BPS / 8 / (self.size + 20)

    def stop(self) -> None:
        self.sent, self.since = self.count(), None


PORT = Port()


def printed(line: str) -> str:
    """Return what a line of Lua prints."""
    if match := re.fullmatch(r'printf\("([^"%]*)\\n"\)', line):
        return match[1] + "\n"
    if match := re.fullmatch(r'printf\("(.*) %d\\n", s\d\["(\w+)"\]\)', line):
        sent = PORT.count()
        return f"{match[1]} {int({'opackets': sent, 'ipackets': 0.9 * sent}.get(match[2], 0))}\n"
    if 'string.find(name, "latency")' in line:
        return "POLLSCOPE avg_latency 1500\n"
    return ""


def obey(line: str) -> None:
    if match := re.fullmatch(r'pktgen\.set\("0", "(\w+)", ([\d.]+)\)', line):
        if match[1] in ("rate", "size"):
            setattr(PORT, match[1], float(match[2]))
    elif line.startswith("pktgen.start"):
        PORT.since = time.monotonic()
    elif line.startswith("pktgen.stop"):
        PORT.stop()
    elif line == "pktgen.clr()":
        PORT.sent = 0.0
    elif line == "pktgen.quit()":
        os._exit(0)


def serve(connection: socket.socket) -> None:
    for raw in connection.makefile("r"):
        line = raw.strip()
        with open(os.environ["PKTGEN_LOG"], "a") as log:
            log.write(line + "\n")
        obey(line)
        if os.environ.get("FAKE_PKTGEN") != "mute":
            connection.sendall(printed(line).encode())


def listen(server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def main() -> None:
    with open(os.environ["PKTGEN_LOG"], "a") as log:
        log.write(" ".join(sys.argv[1:]) + "\n")
    if os.environ.get("FAKE_PKTGEN") == "die":
        raise SystemExit("Pktgen: no ports found")
    server = socket.create_server(("127.0.0.1", int(os.environ["PKTGEN_PORT"])))
    threading.Thread(target=listen, args=(server,), daemon=True).start()
    sys.stdin.read()  # its console; ends with it
    os._exit(0)


main()
