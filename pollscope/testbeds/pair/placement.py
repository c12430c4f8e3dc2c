# SPDX-License-Identifier: BSD-3-Clause
"""Assign CPUs of a pair's DUT host: to the DUT, by the file's order or the host's topology, and to programs beside it.

The host's agent knows the topology; it is never asked for the file's own order.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError
from pollscope.host.corunner_placement import CorunnerCpus
from pollscope.node.client import NodeClient
from pollscope.spec import lcores
from pollscope.spec.model import Parameters
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.pair.ssh import root_command

# The policy that uses the file's order, because its author has chosen the CPUs.
BY_THE_FILE = "separate"
# Parameters that choose the co-runners' CPUs, and those that decide whether the host can run the co-runner.
_ASKED = ("corunner", "corunner_place", "corunner_footprint", "dut_core", "spinning_cores")


class DutPlacement:
    """The CPUs of a DUT, workers first, then dispatchers; only those that the testbed's file names.

    Args:
        host: the DUT's host.
    """

    def __init__(self, host: RemoteHost) -> None:
        self._host = host

    def refusal(self, params: Parameters) -> str | None:
        """Return why the host cannot provide a point's placement; None if it can."""
        try:
            answer = self._answer(params)
        except HostError as error:
            return f"placement {params.placement}: {error}"
        return answer if isinstance(answer, str) else None

    def cpus(self, params: Parameters) -> tuple[int, ...]:
        """Return the CPUs of a point's DUT.

        Raises:
            HostError: there are none for it.
        """
        answer = self._answer(params)
        if isinstance(answer, str):
            raise HostError(answer, str(self._host))
        return answer

    def lcores(self, params: Parameters) -> list[int]:
        """Return the same as lcores of the node: 1 is on the first CPU that the file names."""
        return [1 + self._host.config.cpus.index(cpu) for cpu in self.cpus(params)]

    def _answer(self, params: Parameters) -> tuple[int, ...] | str:
        named = self._host.config.cpus
        if params.placement == BY_THE_FILE:
            return named[: lcores.dut_lcores(params)]
        reply = self._host.ask_once(
            "placement",
            policy=params.placement,
            workers=params.cores,
            dispatchers=lcores.dispatchers(params),
            cpus=list(named),
            nic=self._host.config.ports.rx,
        )
        return str(reply["refusal"]) if reply["refusal"] else tuple(reply["cpus"])


class DutCorunners:
    """The programs beside a DUT on its host.

    Args:
        host: the DUT's host.

    Attributes:
        placement: of the DUT there.
    """

    def __init__(self, host: RemoteHost) -> None:
        self._host, self.placement = host, DutPlacement(host)
        self._program = ""
        self._placed: tuple[CorunnerCpus, int] | None = None  # connection for which the agent left the CPUs

    def refusal(self, params: Parameters) -> str | None:
        """Return why the host cannot run a point's programs beside the DUT; None if it can."""
        try:
            reason = self._answer(params)["refusal"]
        except HostError as error:
            return f"programs beside the DUT: {error}"
        return str(reason) if reason else None

    def place(self, params: Parameters) -> CorunnerCpus:
        """Return the CPUs there; the agent avoids them, and its collectors know the co-runner's.

        Raises:
            HostError: there are none for it.
        """
        answer = self._answer(params)
        if answer["refusal"]:
            raise HostError(str(answer["refusal"]), str(self._host))
        found, self._program = answer["cpus"], str(answer["program"])
        cpus = CorunnerCpus(found["corunner"], found["occupant"], tuple(found["spinning"]))
        if self._placed != (cpus, self._host.connection):
            # If no other CPU is left, collectors use the first of these (pollscope.host.placement).
            self._host.ask("aside", cpus=[*cpus.cpus, *self._host.config.cpus])
            self._placed = cpus, self._host.connection
        self._host.collector_options = {} if cpus.corunner is None else {"perf-corunner": {"cpus": [cpus.corunner]}}
        return cpus

    def leave(self) -> None:
        """End all programs beside the DUT."""
        self._host.collector_options = {}

    def start(self, log: Path) -> NodeClient:
        """Start `pollscope-corunner` there, after `place`."""
        remote = self._host.config.ssh
        command = root_command(remote, [self._program])
        return NodeClient(command, log, "the co-runner", remote.heartbeat_timeout_s, remote.patience)

    def _answer(self, params: Parameters) -> Mapping[str, Any]:
        asked = {name: getattr(params, name) for name in _ASKED}
        return self._host.ask_once("corunners", params=asked, dut=list(self.placement.cpus(params)))
