# SPDX-License-Identifier: BSD-3-Clause
"""A telemetry socket that answers like a DPDK program with the probe plug-in, with counters of a simulated thread."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from polling_thread import TSC_HZ, PollingThread

from pollscope.metrics.probed import COLUMNS

CLASSES = {"empty_empty": "ee", "empty_busy": "eb", "busy_empty": "be", "busy_busy": "bb"}
WINDOW_CYCLES = 1e5
_NUMBERS = ("", "_c", "_c2", None, None, None, "_m", "_n", "_m2", "_n2", "_mn", "_mc", "_nc")


class ProbedProgram:
    """One lcore that polls the queues of one port; each request for its thread finds four windows more.

    Attributes:
        requests: what was asked, in order.
        sessions: of observers, those that are open.
        refusal: the plug-in answers every request of a session so, if not empty.
        lacking: what the plug-in says it lacks.
    """

    def __init__(self, thread: PollingThread, probe: bool = True) -> None:
        self.thread, self.probe = thread, probe
        self.requests: list[str] = []
        self.sessions: set[int] = set()
        self.refusal = ""
        self.lacking = {"skipped_windows": 0, "lost_threads": 0}
        self._sums = dict.fromkeys(COLUMNS, 0.0)
        self._began_s = time.monotonic()
        self._lock = threading.Lock()

    def reply(self, request: str) -> object:
        command, *parameters = request.split(",")
        self.requests.append(request)
        if command.startswith("/pollscope/probe/"):
            return self._probe(command.rpartition("/")[2], parameters) if self.probe else None
        thread = self.thread
        elapsed_s = time.monotonic() - self._began_s
        packets = int(thread.pps * elapsed_s)
        replies: dict[str, object] = {
            "/": ["/", "/ethdev/list", *(["/pollscope/probe/info"] if self.probe else [])],
            "/ethdev/list": [0],
            "/ethdev/info": {"name": "net_crossover0_a", "nb_rx_queues": thread.queues, "nb_tx_queues": 1},
            "/ethdev/stats": {
                **dict.fromkeys(("ipackets", "opackets"), packets),
                **dict.fromkeys(("ibytes", "obytes"), 60 * packets),
                "imissed": 0,
            },
            "/eal/lcore/list": [1, 2],
            "/cryptodev/list": [0],
            "/eal/memzone_list": ["0", "1"],
            "/eal/memzone_info": {"Name": "RG_flows" if parameters == ["1"] else "RG_MP_pool"},
        }
        return replies.get(command)

    def _probe(self, command: str, parameters: list[str]) -> Mapping[str, Any]:
        if command == "info":
            costs = {"rx_callback_cycles": 45, "tx_callback_cycles": 0}
            return {"version": 1, "tsc_hz": int(TSC_HZ), **costs, **self.lacking}
        if command == "start":
            self.sessions.add(number := len(self.requests))
            return {"session": number}
        if int(parameters[0]) not in self.sessions:
            return {"error": f"/pollscope/probe/{command}: there is no session {parameters[0]} (start one)"}
        if self.refusal:
            return {"error": self.refusal}
        if command == "stop":
            self.sessions.remove(int(parameters[0]))
            return {"session": int(parameters[0])}
        with self._lock:
            return {"threads": self._threads, "thread": self._thread, "queues": self._queues}[command]()

    def _threads(self) -> Mapping[str, Any]:
        return {"0": {"tid": 4711, "name": "rte-worker-1", "lcore": 1, "cpu": 0}}

    def _thread(self) -> Mapping[str, Any]:
        for row in self.thread.observe(4, WINDOW_CYCLES, 0):
            for name, value in zip(COLUMNS, row, strict=True):
                self._sums[name] += value
        sums = self._sums
        classes = {
            name: [
                0 if each is None else int(sums[letters + each]) if letters + each in sums else 0 for each in _NUMBERS
            ]
            for name, letters in CLASSES.items()
        }
        counts = {"windows": int(sums["windows"]), "tx_bursts": int(sums["tx_bursts"]), "most_asked": 32}
        # Each doubled gap is longer by one stamp.
        doubled = [int(sums["ee"]), int(sums["ee_c"] + self.thread.stamp * sums["ee"]), int(2 * sums["ee_c2"])]
        return {**self._threads()["0"], **counts, **classes, "doubled_empty_empty": doubled}

    def _queues(self) -> Mapping[str, Any]:
        sums, queues = self._sums, self.thread.queues
        polls = sums["ee"] + sums["eb"] + sums["be"] + sums["bb"]
        found: dict[str, Any] = {}
        for queue in range(queues):
            loaded = queue < self.thread.loaded
            busy = (sums["eb"] + sums["bb"]) / self.thread.loaded if loaded else 0
            packets = (sums["eb_n"] + sums["bb_n"]) / self.thread.loaded if loaded else 0
            found[f"rx_0_{queue}"] = [1, 0, int(polls / queues), 0, int(packets), int(busy), *[0] * 9]
        return found


class Program(Protocol):
    """Answer requests."""

    def reply(self, request: str) -> object: ...


@contextmanager
def running_program(folder: Path, program: Program, pid: int = 1, most_bytes: float = 16384) -> Iterator[Path]:
    """Yield the telemetry socket of a program in a runtime folder, as EAL makes it for the file prefix `rte`."""
    path = folder / "dpdk" / "rte" / "dpdk_telemetry.v2"
    path.parent.mkdir(parents=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(str(path))
    server.listen(8)

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            hello = {"version": "DPDK 22.11.11", "pid": pid, "max_output_len": most_bytes}
            connection.send(json.dumps(hello).encode())
            while request := connection.recv(1024).decode():
                # DPDK sends names as they are, in any encoding.
                reply = json.dumps({request.partition(",")[0]: program.reply(request)}, ensure_ascii=False)
                connection.send(reply.encode("latin-1"))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield path
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
