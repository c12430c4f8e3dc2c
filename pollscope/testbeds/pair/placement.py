# SPDX-License-Identifier: BSD-3-Clause
"""Assign roles to the lcores of a pair's DUT: by the file's order, or by the topology of the DUT's host."""

from pollscope.base.errors import HostError
from pollscope.spec import lcores
from pollscope.spec.model import Parameters
from pollscope.testbeds.pair.remote_host import RemoteHost

# The policy that uses the file's order, because its author has chosen the CPUs.
BY_THE_FILE = "separate"


class DutPlacement:
    """The CPUs of a DUT, workers first, then dispatchers; only those that the testbed's file names.

    The host's agent knows the topology; it is asked once for each combination, and never for the file's own order.

    Args:
        host: the DUT's host.
    """

    def __init__(self, host: RemoteHost) -> None:
        self._host = host
        self._answers: dict[tuple[str, int, int], tuple[int, ...] | str] = {}

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
        named, wanted = self._host.config.cpus, lcores.dut_lcores(params)
        if params.placement == BY_THE_FILE:
            return named[:wanted]
        key = params.placement, params.cores, lcores.dispatchers(params)
        if key not in self._answers:
            reply = self._host.ask(
                "placement",
                policy=params.placement,
                workers=params.cores,
                dispatchers=lcores.dispatchers(params),
                cpus=list(named),
                nic=self._host.config.ports.rx,
            )
            self._answers[key] = str(reply["refusal"]) if reply["refusal"] else tuple(reply["cpus"])
        return self._answers[key]
