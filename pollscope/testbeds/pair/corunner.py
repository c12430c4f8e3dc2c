# SPDX-License-Identifier: BSD-3-Clause
"""Run programs beside the DUT of a pair, placed by the topology of the DUT's host, over SSH."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError
from pollscope.host.corunner_placement import CorunnerCpus
from pollscope.node.client import NodeClient
from pollscope.spec.model import Parameters
from pollscope.testbeds.pair.placement import DutPlacement
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.pair.ssh import root_command

# Parameters that choose the CPUs, and those that decide whether the host can run the co-runner.
_ASKED = ("corunner", "corunner_place", "corunner_footprint", "dut_core", "spinning_cores")


@dataclass(frozen=True)
class _Answer:
    """The agent's answer: why not, or the CPUs and the program."""

    refusal: str | None
    cpus: CorunnerCpus
    program: str


class DutCorunners:
    """Asks the agent of the DUT's host, once for each combination.

    Args:
        host: the DUT's host.
        placement: of the DUT there.
    """

    def __init__(self, host: RemoteHost, placement: DutPlacement) -> None:
        self._host, self._placement = host, placement
        self._answers: dict[str, _Answer] = {}
        self._program = ""
        self._placed: tuple[CorunnerCpus, int] | None = None  # connection for which the agent left the CPUs

    def refusal(self, params: Parameters) -> str | None:
        """Return why the host cannot run a point's programs beside the DUT; None if it can."""
        try:
            return self._answer(params).refusal
        except HostError as error:
            return f"programs beside the DUT: {error}"

    def place(self, params: Parameters) -> CorunnerCpus:
        """Return the CPUs there; the agent avoids them, and its collectors know the co-runner's.

        Raises:
            HostError: there are none for it.
        """
        answer = self._answer(params)
        if answer.refusal:
            raise HostError(answer.refusal, str(self._host))
        cpus, self._program = answer.cpus, answer.program
        if self._placed != (cpus, self._host.connection):
            # If no other CPU is left, collectors use the first of these (pollscope.host.placement).
            self._host.ask("aside", cpus=[*cpus.cpus, *self._host.config.cpus])
            self._placed = cpus, self._host.connection
        self._host.collector_options = {} if cpus.corunner is None else {"perf-corunner": {"cpus": [cpus.corunner]}}
        return cpus

    def dut_lcores(self, params: Parameters) -> list[int]:
        """Return the lcores of the DUT itself, workers first, then dispatchers."""
        return self._placement.lcores(params)

    def leave(self) -> None:
        """End all programs beside the DUT."""
        self._host.collector_options = {}

    def start(self, log: Path) -> NodeClient:
        """Start `pollscope-corunner` there, after `place`."""
        remote = self._host.config.ssh
        command = root_command(remote, [self._program])
        return NodeClient(command, log, "the co-runner", remote.heartbeat_timeout_s, remote.patience)

    def _answer(self, params: Parameters) -> _Answer:
        asked = {name: getattr(params, name) for name in _ASKED}
        dut = self._placement.cpus(params)
        key = repr((asked, dut))
        if key not in self._answers:
            reply = self._host.ask("corunners", params=asked, dut=list(dut))
            self._answers[key] = _answer(reply)
        return self._answers[key]


def _answer(reply: Mapping[str, Any]) -> _Answer:
    if reply["refusal"]:
        return _Answer(str(reply["refusal"]), CorunnerCpus(), "")
    cpus = reply["cpus"]
    found = CorunnerCpus(cpus["corunner"], cpus["occupant"], tuple(cpus["spinning"]))
    return _Answer(None, found, str(reply["program"]))
