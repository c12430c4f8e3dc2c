# SPDX-License-Identifier: BSD-3-Clause
"""Use generators of other projects in place of a node: they only have to count packets."""

import json
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pollscope.node.client import LineReader, NodeLost, NodeRefused, end_process
from pollscope.spec.model import Parameters

# Addresses and port of pollscope's own generator (apps/node/gen/traffic.c, apps/lib/packets.h).
SOURCE, DESTINATION_PORT = "172.16.0.1", 9
FIRST_SOURCE_PORT = 1024
# pktgen-dpdk fills the packets of a range once, in a pool of as many buffers (pktgen-constants.h).
_MOST_FLOWS = {"pktgen-dpdk": 24_576, "trex": 65536 - FIRST_SOURCE_PORT}
# The DUT's routing table (apps/lib/routes.h): route i is the /24 prefix number i * 40503 modulo 2^16 inside 10.0.0.0/8.
_ROUTES_NETWORK, _ROUTE_FACTOR, _PREFIXES = int(IPv4Address("10.0.0.0")), 40503, 1 << 16
EPITAPH_LIMIT_S = 5.0
COUNTERS = ("opackets", "ipackets", "oerrors", "ierrors")
# Root must not import from the login's folder. An older Python, which TRex may need, has no option -P for this.
SAFE_PATH = "import sys; sys.path = [each for each in sys.path if each]\n"


class Destinations(NamedTuple):
    """Equidistant destination addresses."""

    first: IPv4Address
    last: IPv4Address
    step: IPv4Address


def destinations(routes: int, flows: int) -> Destinations:
    """Return destinations that the first `routes` routes of l3fwd-lpm cover, for several flows.

    Routes are scattered, so equidistant ones are multiples of one prefix. The step with most of them is used.
    Their number divides `flows`, so that addresses and source ports that advance together make `flows` flows.
    """

    def count(every: int) -> int:
        """Return the number of usable routes 0, every, 2 * every, ... before the end of the network."""
        most = min(-(-routes // every), -(-_PREFIXES // _prefix(every)))
        return next(number for number in range(min(most, flows), 0, -1) if flows % number == 0)

    step = max(range(1, min(routes, 1024) + 1), key=count)
    last = (count(step) - 1) * _prefix(step) << 8
    first = IPv4Address(_ROUTES_NETWORK + 1)
    return Destinations(first, first + last, IPv4Address(_prefix(step) << 8 if last else 0))


def _prefix(route: int) -> int:
    return route * _ROUTE_FACTOR % _PREFIXES


class SentProgram:
    """A program that is sent as source to the generator's host, and answers lines of JSON.

    Args:
        command: starts it.
        log: for messages of ssh and the program.
        who: the generator's name in messages.
    """

    def __init__(self, command: Sequence[str], log: Path, who: str) -> None:
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True
            )
        self._who, self._reader = who, LineReader(self._process.stdout, who)
        self._lines: list[bytes] = []

    @property
    def alive(self) -> bool:
        """Return whether the connection is open."""
        return self._process.poll() is None

    def ask(self, question: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            NodeLost: there is no answer, or the program has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its last line may say why
        return self.answer(limit_s)

    def answer(self, limit_s: float) -> dict[str, Any]:
        """Return the next answer; raise as `ask`."""
        deadline = time.monotonic() + limit_s
        while True:
            while self._lines:
                if (line := self._lines.pop(0)).startswith(b"{"):  # skip output that an API prints
                    return self._parsed(line)
            try:
                lines = self._reader.lines(deadline)
            except EOFError:
                raise NodeLost(f"{self._who} {self._end_of_output()}") from None
            if lines is None:
                raise NodeLost(f"{self._who} hung: no answer")
            self._lines = lines

    def _end_of_output(self) -> str:
        try:
            return f"ended with status {self._process.wait(EPITAPH_LIMIT_S)}"
        except subprocess.TimeoutExpired:
            return "closed its output"

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            answer = dict(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise NodeLost(f"{self._who} wrote something that is not JSON: {line[:60]!r}") from error
        if "refused" in answer:
            raise NodeLost(str(answer["refused"]))
        return answer

    def end(self) -> None:
        """End the program by the end of its input, or by a signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            end_process(self._process)
        self._process.stdout.close()


class OtherGenerator(ABC):
    """Answer the requests of a pair's session to its generator, as a node would (node-protocol.md).

    Args:
        names: of the sending and of the receiving port; may be one. They are its ports 0 and 1, or both 0.
        program: on its host; it ends with its input.
    """

    driver: ClassVar[str]
    absences: ClassVar[Mapping[str, str]]  # key of a generator's lcore in a result -> why it is absent

    def __init__(self, names: tuple[str, str], program: SentProgram) -> None:
        self._names, self._receiving = names, 0 if names[0] == names[1] else 1
        self._program = program
        self._generator: dict[str, Any] = {}
        self._start: dict[str, Any] = {}
        self._result: dict[str, Any] = {}
        self.hello: dict[str, Any] = {}

    @abstractmethod
    def wait_hello(self) -> dict[str, Any]:
        """Wait until it answers.

        Raises:
            HostError: it ended, or does not answer.
        """

    @property
    def alive(self) -> bool:
        """Return whether the program and the connection to it are alive."""
        return self._program.alive

    def end(self) -> None:
        """End the connection, and so the program."""
        self._program.end()

    def close(self) -> None:
        """End it as well: it needs no request before."""
        self.end()

    @abstractmethod
    def _configure(self, limit_s: float) -> None:
        """Prepare to send the traffic of `_generator`; without content there is nothing to do."""

    @abstractmethod
    def _trial(self) -> dict[str, Any]:
        """Run the trial that `_start` asked for and return its result (`_measured`).

        Raises:
            NodeLost: it hung or ended.
        """

    def _said_hello(self) -> dict[str, Any]:
        self.hello = {"program": self.driver, "pid": 0, "hugepages": True, "lcores": [], "ports": list(self._names)}
        return self.hello

    def _links(self) -> dict[str, bool]:
        """Return whether the link of each port is up, as far as it is known. A port without one sends nothing."""
        return {}

    def request(self, command: str, limit_s: float, **fields: Any) -> dict[str, Any]:
        """Answer a request of the node protocol.

        Raises:
            NodeRefused: it has no such request. NodeLost: it hung or ended.
        """
        if command == "configure":
            self._generator = dict(fields.get("gen", {}))
            self._configure(limit_s)
            return {}
        if command == "start":
            self._start = fields
            return {}
        answers: dict[str, dict[str, Any]] = {
            "links": {"links": self._links() if command == "links" else {}},
            "noise": {"noise": []},
            "host_state": {"host_state": {"absent": f"{self.driver} runs no host-state checks on its core"}},
            "read": self._result,
        }
        if command not in answers:
            raise NodeRefused(f"{self.driver} has no request {command!r}")
        return answers[command]

    def wait_trial(self, trial: str, limit_s: float) -> None:
        """Run the trial that `start` asked for: warm-up, window, drain."""
        del trial, limit_s
        self._result = self._trial()

    def _measured(
        self, before: Mapping[str, float], after: Mapping[str, float], more: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the node's result as far as it counts it.

        Args:
            before: `PORT.COUNTER` -> packets at the window's begin, and `t_ns`, when that was.
            after: the same at its end.
            more: further keys of the lcore.
        """
        sent, received = "0.opackets", f"{self._receiving}.ipackets"
        lcore = {
            "lcore": 1,
            **more,
            "duration_tsc": after["t_ns"] - before["t_ns"],
            "sent": after[sent] - before[sent],
            "rx_packets": after[received] - before[received],
            **{key: {"absent": reason} for key, reason in self.absences.items()},
        }
        window = {"start_tsc": before["t_ns"], "end_tsc": after["t_ns"], "tsc_hz": 1_000_000_000}
        return {"gen": {"driver": self.driver, "lcores": [lcore]}, "window": window, "ports": self._ports(after)}

    def _ports(self, counts: Mapping[str, float]) -> dict[str, Any]:
        names = {0: self._names[0], self._receiving: self._names[1]}
        return {
            name: {"stats": {key: counts[f"{port}.{key}"] for key in COUNTERS if f"{port}.{key}" in counts}}
            for port, name in names.items()
        }


def refusal(driver: str, params: Parameters) -> str | None:
    """Return why such a generator cannot generate a point's traffic; None if it can."""
    if isinstance(params.frame, str):
        return f"{driver} sends frames of one size here, not a mix"
    if params.trace is not None:
        return f"{driver} does not replay traces here"
    if params.arrivals != "constant":
        return f"{driver} sends at a constant rate only"
    if params.shape != "FB" and params.queues > 1:
        return f"{driver} does not place flows on RX queues, as shape {params.shape} needs"
    if params.nic_timestamps:
        return f"{driver} does not support NIC time stamps here"
    if params.flows > _MOST_FLOWS[driver]:
        return f"{driver}'s range of source ports makes at most {_MOST_FLOWS[driver]} flows"
    return None
