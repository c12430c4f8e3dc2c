# SPDX-License-Identifier: BSD-3-Clause
"""What a testbed and a session on it can do; the runner knows nothing else about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pollscope.base.errors import HostError
from pollscope.host.company import Company
from pollscope.knobs import RestoreResult
from pollscope.node.client import NodeClient

if TYPE_CHECKING:
    from pollscope.testbeds.pair.ends import End

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """What came out of one trial: the request that started it and the node's result (docs/node-protocol.md)."""

    start: dict[str, Any]
    result: dict[str, Any]


@dataclass(frozen=True)
class State:
    """State of a testbed for `pollscope testbed status`: one sentence per fact."""

    ready: bool
    facts: list[str] = field(default_factory=list)


class HostAway(HostError):
    """A host that trials need does not answer any more: the run ends, and is resumable."""


class Knobs(Protocol):
    """Turns knobs of the host that measures and restores them when the block is left; keeps other runs out."""

    @property
    def restored_first(self) -> Sequence[RestoreResult]:
        """What an ended run had left behind and was restored on entering."""

    def __enter__(self) -> Self:
        """Raises HostError when another run holds the host, or left something behind."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores; raises HostError with what could not be restored."""

    def apply(self, settings: Mapping[str, object]) -> Sequence[object]:
        """Sets knobs, NAME[@TARGET] -> value; raises HostError when one does not take it, HostAway when it is gone."""

    def restore(self) -> Sequence[RestoreResult]:
        """Restores what was set so far."""

    def snapshot(self) -> Mapping[str, Mapping[str, str]]:
        """Knob -> target -> value, as it is now."""


class Watch(Protocol):
    """What else runs on the measuring CPUs since it was made."""

    def record(self) -> dict[str, Any]:
        """The `host` of a trial's record."""


class Session(Protocol):
    """Nodes that run. Every method may raise NodeLost; the session is then ended and a new one opened."""

    @property
    def hello(self) -> dict[str, Any]:
        """The DUT node's hello."""

    @property
    def measuring_cpus(self) -> tuple[int, ...]:
        """CPUs of this host on which lcores spin."""

    @property
    def facts(self) -> list[str]:
        """Sentences about how the session runs that a reader of the results has to know."""

    @property
    def collector_options(self) -> Mapping[str, Mapping[str, object]]:
        """What collectors have to be told about these nodes: collector -> its options."""

    def suits(self, params: Params) -> bool:
        """Whether these nodes can take this configuration without being started again."""

    @property
    def ends(self) -> "Sequence[End]":
        """The hosts on which collectors run, when they are others; empty: this host."""

    def watch(self) -> Watch:
        """What else runs on the measuring CPUs, from now on."""

    def configure(self, params: Params) -> dict[str, Any]:
        """Configures the nodes; returns the `configure` request. Does nothing when they are configured so already."""

    @property
    def least_warmup_ns(self) -> int:
        """The shortest warm-up of a trial in the present configuration; a spec's that is shorter is lengthened."""

    def calibrate(self, params: Params) -> dict[str, Any]:
        """Costs for the present configuration."""

    def noise(self, duration_ns: int) -> list[dict[str, Any]]:
        """Gaps of each measuring CPU while nothing runs."""

    def ground(self) -> list[dict[str, Any]]:
        """What the measuring cores of each host are like at this moment, while nothing runs: the node's `ground`."""

    def floor(self, params: Params, times: Mapping[str, int], rate: Mapping[str, Any]) -> Measured | str:
        """One trial in which the generator's frames come straight back to it, with no DUT; or why that cannot be.

        Of the parameters only those of frame and descriptors count. Configures the nodes anew.
        """

    def company(self, params: Params) -> Company:
        """The CPUs of what a point wants beside the DUT; HostError when there are none for it."""

    def open_corunner(self, log: Path) -> NodeClient:
        """Starts a `pollscope-corunner` on the DUT's host."""

    def measure(self, name: str, times: Mapping[str, int], rate: Mapping[str, Any]) -> Measured:
        """One trial: start, wait for its end, read.

        Args:
            name: for the node's messages.
            times: `warmup_ns`, `window_ns`, `drain_max_ns`.
            rate: the offered load as the protocol's `rate`.
        """

    def close(self) -> None:
        """Ends the nodes in order."""

    def end(self) -> None:
        """Ends the nodes at once, hung or not."""


class Testbed(Protocol):
    """Where trials run."""

    @property
    def name(self) -> str:
        """As in run.json and in tables."""

    @property
    def kind(self) -> str:
        """`loopback`, `vm-pair`, `pair` or `model`."""

    @property
    def shared_tsc(self) -> bool:
        """Whether generator and DUT read the same clock."""

    @property
    def modelled(self) -> bool:
        """Whether its numbers are modelled instead of measured."""

    def knobs(self, what: str, restore_first: bool) -> Knobs:
        """The knobs of the host that measures, for `what` ("run S-F5"); see KnobSession for `restore_first`."""

    def describe(self) -> dict[str, Any]:
        """For run.json: `name`, `kind`, `shared_tsc`, and `file`, from which it can be made again."""

    def machine(self) -> dict[str, Any]:
        """For run.json: `host`, the facts of the machine that measures, and `build`, those of its node program."""

    def refusal(self, params: Params) -> str | None:
        """Why this testbed cannot host a point; None when it can."""

    def check(self) -> None:
        """Raises HostError when nothing at all can run here."""

    def open(self, params: Params, most_cores: int, log: Path) -> Session:
        """Starts nodes that can run this configuration, and others with up to `most_cores` DUT lcores."""

    def up(self) -> State:
        """Prepares the testbed."""

    def down(self) -> State:
        """Takes down what `up` prepared."""

    def status(self) -> State:
        """Looks, and changes nothing."""
