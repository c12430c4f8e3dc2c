# SPDX-License-Identifier: BSD-3-Clause
"""Define the requests to running nodes, wherever they run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pollscope.host.corunner_placement import CorunnerCpus
from pollscope.node.client import NodeClient
from pollscope.spec.model import Parameters

if TYPE_CHECKING:
    from pollscope.testbeds.pair.remote_host import RemoteHost


@dataclass(frozen=True)
class TrialRequest:
    """A `start` request (docs/internals/node-protocol.md).

    Attributes:
        trial: a name for the node's messages.
        rate: the offered load.
    """

    trial: str
    warmup_ns: int
    window_ns: int
    drain_max_ns: int
    rate: dict[str, Any]

    @property
    def planned_s(self) -> float:
        """Return the planned duration from start to end."""
        return (self.warmup_ns + self.window_ns + self.drain_max_ns) / 1e9

    def to_json(self) -> dict[str, Any]:
        """Return the request for a node with a generator."""
        return dict(vars(self))

    def to_dut(self) -> dict[str, Any]:
        """Return the request for a node without a generator."""
        return {name: value for name, value in vars(self).items() if name != "rate"}


class Session(Protocol):
    """Running nodes. Every method may raise NodeLost; the session is then ended and a new one opened."""

    @property
    def hello(self) -> dict[str, Any]:
        """Return the DUT node's hello."""

    @property
    def measuring_cpus(self) -> tuple[int, ...]:
        """Return CPUs of this host on which lcores spin."""

    @property
    def metadata(self) -> list[str]:
        """Return warnings about the session for the reader of the results."""

    @property
    def collector_options(self) -> Mapping[str, Mapping[str, object]]:
        """Return the options of collectors for these nodes, by collector."""

    def suits(self, params: Parameters) -> bool:
        """Return whether these nodes can take this configuration without a restart."""

    @property
    def hosts(self) -> "Sequence[RemoteHost]":
        """Return the other hosts on which collectors run; empty: this host."""

    def watch(self) -> Callable[[], dict[str, Any]]:
        """Start to watch other activity on the measuring CPUs; the result returns the `host` of a trial's record."""

    def configure(self, params: Parameters) -> dict[str, Any]:
        """Configure the nodes; return the `configure` request. Do nothing if they are configured so already."""

    def least_warmup_ns(self, params: Parameters, /) -> int:
        """Return the shortest warm-up in the present configuration; a shorter one of a spec is lengthened."""

    def calibrate(self, params: Parameters) -> dict[str, Any]:
        """Return costs for the present configuration."""

    def noise(self, duration_ns: int) -> list[dict[str, Any]]:
        """Return gaps of each measuring CPU while nothing runs."""

    def host_state(self) -> list[dict[str, Any]]:
        """Return the present state of each host's measuring cores, while nothing runs: the node's `host_state`."""

    def floor(self, params: Parameters, request: TrialRequest) -> dict[str, Any] | str:
        """Measure a trial whose frames come straight back to the generator, with no DUT; or say why not.

        Only the parameters of frame and descriptors matter. Reconfigures the nodes.
        """

    def corunner_cpus(self, params: Parameters) -> CorunnerCpus:
        """Return the CPUs of a point's programs beside the DUT; raise HostError if there are none."""

    def open_corunner(self, log: Path) -> NodeClient:
        """Start a `pollscope-corunner` on the DUT's host."""

    def measure(self, request: TrialRequest) -> dict[str, Any]:
        """Measure one trial: start, wait for its end, read; return the node's result (node-protocol.md)."""

    def close(self) -> None:
        """End the nodes in order."""

    def end(self) -> None:
        """End the nodes at once, hung or not."""
