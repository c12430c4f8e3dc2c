# SPDX-License-Identifier: BSD-3-Clause
"""Let generators of other projects take a node's place: they count packets, and no more is asked of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pollscope.node.client import NodeRefused
from pollscope.spec.model import Parameters

FIRST_SOURCE_PORT = 1024
_MOST_FLOWS = 65536 - FIRST_SOURCE_PORT
COUNTERS = ("opackets", "ipackets", "oerrors", "ierrors")


class OtherGenerator(ABC):
    """Answers the requests that a pair's session has for its generator, as a node would (node-protocol.md).

    Args:
        names: of the sending and of the receiving port; may be one. They are its ports 0 and 1, or both 0.
    """

    driver: ClassVar[str]
    absences: ClassVar[Mapping[str, str]]  # key of a generator's lcore in a result -> why it is absent
    hello: dict[str, Any]

    def __init__(self, names: tuple[str, str]) -> None:
        self._names, self._receiving = names, 0 if names[0] == names[1] else 1
        self._generator: dict[str, Any] = {}
        self._start: dict[str, Any] = {}
        self._result: dict[str, Any] = {}
        self.hello = {}

    @abstractmethod
    def wait_hello(self) -> dict[str, Any]:
        """Wait until it answers.

        Raises:
            HostError: it ended, or does not answer.
        """

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Tell whether the program and the way to it are there."""

    @abstractmethod
    def close(self) -> None:
        """Ask it to quit, and end it if it does not."""

    @abstractmethod
    def end(self) -> None:
        """End it."""

    @abstractmethod
    def _configure(self, limit_s: float) -> None:
        """Make it ready to send what `_generator` says; without content it has nothing to do."""

    @abstractmethod
    def _trial(self) -> dict[str, Any]:
        """Run the trial that `_start` asked for and return its result (`_measured`).

        Raises:
            NodeLost: it hung or ended.
        """

    def _said_hello(self) -> dict[str, Any]:
        self.hello = {"program": self.driver, "pid": 0, "hugepages": True, "lcores": [], "ports": list(self._names)}
        return self.hello

    def request(self, command: str, limit_s: float, **fields: Any) -> dict[str, Any]:
        """Answer a request of the node protocol.

        Raises:
            NodeRefused: it has nothing like it. NodeLost: it hung or ended.
        """
        if command == "configure":
            self._generator = dict(fields.get("gen", {}))
            self._configure(limit_s)
            return {}
        if command == "start":
            self._start = fields
            return {}
        # A port whose link is down sends nothing, which the trial shows.
        answers: dict[str, dict[str, Any]] = {
            "links": {"links": {}},
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
    """Return what of a point such a generator cannot generate; None when it can."""
    if isinstance(params.frame, str):
        return f"{driver} sends frames of one size here, no mix"
    if params.trace is not None:
        return f"{driver} does not replay traces here"
    if params.arrivals != "constant":
        return f"{driver} sends at a constant rate only"
    if params.shape != "FB" and params.queues > 1:
        return f"{driver} does not place flows on RX queues, as shape {params.shape} needs"
    if params.nic_timestamps:
        return f"{driver} is asked for no NIC time stamps here"
    if params.flows > _MOST_FLOWS:
        return f"{driver}'s range of source ports makes at most {_MOST_FLOWS} flows"
    return None
