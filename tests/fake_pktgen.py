#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Stand in for pktgen-dpdk: need a terminal, run the script of `-f`, have DPDK's telemetry, but send no packets.

It answers Lua as tests/pktgen-transcript.txt shows the real program, and refuses functions that are not in there.
FAKE_PKTGEN: `die` (at the start), `memory` (hugepages are missing), or empty. PKTGEN_LOG gets its arguments and every
line. The line has 100 Gb/s; nine of ten packets come back. COUNTERS_EVERY_S passes between two reads of its counters.
"""

import json
import os
import re
import socket
import sys
import threading
from pathlib import Path

LINE_BPS = 100e9
COUNTERS_EVERY_S = 0.1
TRANSCRIPT = Path(__file__).with_name("pktgen-transcript.txt").read_text()
KNOWN = set(re.findall(r"pktgen\.[\w.]+", TRANSCRIPT))
PANIC = "!PANIC!: Cannot create mbuf pool (Rate TX 0:0) port 0, queue 0, nb_mbufs 24576, socket_id 0: Cannot allocate"


class Port:
    """Packets that left since its start."""

    def __init__(self) -> None:
        self.rate, self.size, self.sent, self.sending = 0.0, 64, 0.0, False

    def read(self) -> float:
        """Let time pass and return the count."""
        if self.sending:
            self.sent += COUNTERS_EVERY_S * self.rate / 100 * LINE_BPS / 8 / (self.size + 20)
        return self.sent


PORT = Port()


def recorded(line: str) -> str:
    """Return the value that the real program gave for a line of Lua."""
    request = json.dumps({"lua": line})
    return str(json.loads(TRANSCRIPT.partition(f"> {request}\n< ")[2].splitlines()[0])["value"])


def value(line: str) -> str:
    """Run a line of Lua and return the answer of the script."""
    if unknown := set(re.findall(r"pktgen\.[\w.]+", line)) - KNOWN:
        return f"error attempt to call a nil value (field '{min(unknown)}')"
    for name, number in re.findall(r'pktgen\.set\("0", "(rate|size)", ([\d.]+)\)', line):
        setattr(PORT, name, float(number))
    if "pktgen.start" in line:
        PORT.sending = True
    if "pktgen.stop" in line:
        PORT.sending = False
    if line == "return 1":
        return "value 1"
    if line.startswith(("return pktgen.linkState", "local s = pktgen.pktStats")):
        return f"value {recorded(line)}"
    return "value nil"


def serve_telemetry() -> None:
    """Answer /ethdev/stats as DPDK's telemetry does."""
    folder = Path(os.environ["RUNTIME_DIRECTORY"]) / "dpdk/fake"
    folder.mkdir(parents=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(str(folder / "dpdk_telemetry.v2"))
    server.listen()
    while True:
        connection, _ = server.accept()
        connection.send(b'{"version":"DPDK 22.11.11","pid":1,"max_output_len":16384}')
        while connection.recv(1024):
            sent = PORT.read()
            counters = {"ipackets": int(0.9 * sent), "opackets": int(sent), "ierrors": 0, "oerrors": 0}
            connection.send(json.dumps({"/ethdev/stats": counters}).encode())


def log(line: str) -> None:
    """Add a line to the log."""
    with open(os.environ["PKTGEN_LOG"], "a") as file:
        file.write(line + "\n")


def main() -> None:
    """Begin as the real program, then run its script."""
    log(" ".join(sys.argv[1:]))
    fault = os.environ.get("FAKE_PKTGEN")
    if not sys.stdin.isatty():
        raise SystemExit("scrn_constructor: tcgetattr failed")
    if fault in ("die", "memory"):
        print("\x1b[1;1H*** Copyright(c) <2010-2023>, Intel Corporation. All rights reserved.")
        print("!PANIC!: *** Did not find any ports to use ***" if fault == "die" else PANIC, flush=True)
        raise SystemExit(1)
    script = Path(sys.argv[sys.argv.index("-f") + 1]).read_text()
    found = re.search(r'io\.open\("(.*)", "r"\), io\.open\("(.*)", "w"\)', script)
    assert found is not None, script
    threading.Thread(target=serve_telemetry, daemon=True).start()
    with open(found[1]) as asked, open(found[2], "w") as answers:
        for line in asked:
            log(line.rstrip())
            print(value(line.rstrip()), file=answers, flush=True)


main()
