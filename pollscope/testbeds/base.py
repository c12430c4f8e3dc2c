# SPDX-License-Identifier: BSD-3-Clause
"""Define every testbed: it says which points it can host and measures a trial. A run knows nothing else about it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pollscope.base.clock import utc_now
from pollscope.base.errors import HostError, WrongTestbed
from pollscope.base.fields import StrictModel
from pollscope.host.metadata import host_metadata
from pollscope.knobs import Knobs
from pollscope.node.build import build_programs
from pollscope.plan.plan import Plan, Trial
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.store.trial_record import TrialRecord
from pollscope.testbeds.maxima import Maxima

if TYPE_CHECKING:
    from pollscope.metrics.host_state import HostCheck

# GEN_LCORES_MAX of apps/node/gen/config.h.
MOST_GENERATOR_LCORES = 8


class TestbedConfig(StrictModel):
    """The file of a testbed; each kind has its own keys, and `kind: Literal[NAME]`."""


@dataclass(frozen=True)
class HostFinding:
    """One thing that a host has or lacks, and what to run for it (`pollscope testbed check`).

    Attributes:
        host: of the testbed.
        what: was looked at.
        state: `yes` it is there; `no` nothing can be measured without it; `note` it is missed, or is not known.
        text: what was found.
        remedy: what to run or to write; empty for `yes`.
    """

    host: str
    what: str
    state: Literal["yes", "no", "note"]
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class TestbedState:
    """State of a testbed for `pollscope testbed status`: one sentence per fact."""

    ready: bool
    metadata: list[str] = field(default_factory=list)


def tcp_refusal(params: Parameters) -> str | None:
    """Say why a testbed whose generator sends UDP cannot host a point; None if it can."""
    if params.flow_size is None:
        return None
    return "flow_size: TCP flows are sent by a kernel, and only a testbed of kind namespaces has one at both ends"


def sleep_refusal(params: Parameters) -> str | None:
    """Say why a testbed whose generator shares no CPU with the DUT cannot host a point; None if it can."""
    if not params.generator_sleep:
        return None
    return "generator_sleep: only on loopback do generator and DUT share a CPU; here the generator has its own"


class HostAway(HostError):
    """A host that trials need does not answer any more: the run ends, and is resumable."""


@dataclass(frozen=True)
class Assignment:
    """Hold what a run gives to a testbed before the first trial.

    Attributes:
        plan: the trials that it is going to be asked for, and their spec.
        folder: the run folder; only files of its own are written there.
        log: for what its programs say.
        append_host_check: keeps a host-state check (docs/validity.md) and returns it with its number.
        host_checks: those of the interrupted part of the run.
    """

    plan: Plan
    folder: Path
    log: Path
    append_host_check: Callable[["HostCheck"], dict[str, Any]]
    host_checks: Sequence["HostCheck"] = ()


@dataclass(frozen=True)
class Opening:
    """Hold what run.json says of a testbed before the first trial.

    Attributes:
        hello: of the DUT's node.
        noise: gaps of the measuring CPUs.
        collectors: what each says: `{available, reason, required, interval_ns}`.
    """

    hello: dict[str, Any] | None = None
    noise: list[dict[str, Any]] = field(default_factory=list)
    collectors: Mapping[str, dict[str, Any]] = field(default_factory=dict)


def without_collectors(assignment: Assignment, reason: str) -> Opening:
    """Return the opening of a testbed on which no collector works."""
    none = {"available": False, "reason": reason}
    uses = assignment.plan.spec.collectors
    return Opening(
        collectors={use.name: {**none, "required": use.required, "interval_ns": use.interval_ns} for use in uses}
    )


class Testbed(ABC):
    """Where the trials of one run are measured.

    A kind is a class and a line in TESTBEDS (pollscope.base.names). `refusal` and `measure` make a testbed; all else
    has a default that suits one without a host.

    Args:
        file: of the testbed.
        config: its content.

    Attributes:
        kind: as specs name it.
        summary: where trials run, in a few words (docs/reference-spec.md).
        config_model: what its file may say.
        shared_tsc: whether generator and DUT read the same clock.
        modelled: whether its numbers are modelled instead of measured.
        warnings: sentences that the reader of the run has to know.
        maxima: what `load_of_max` refers to; hears of every trial, of those of an interrupted part before `begin`.
    """

    kind: ClassVar[str]
    summary: ClassVar[str] = ""
    config_model: ClassVar[type[TestbedConfig]]
    shared_tsc: ClassVar[bool] = False
    modelled: ClassVar[bool] = False

    def __init__(self, file: Path, config: TestbedConfig) -> None:
        self.name, self.file, self.config = file.stem, file, config
        self.warnings: list[str] = []
        self.maxima = Maxima(self.warnings)

    @abstractmethod
    def refusal(self, point: Point) -> str | None:
        """Say why this testbed cannot host a point; None if it can."""

    def cautions(self, point: Point) -> list[str]:
        """Return what somebody who plans has to know of a point that it can host."""
        del point
        return []

    @abstractmethod
    def measure(self, trial: Trial, attempt: int) -> TrialRecord:
        """Measure one trial; one that fails is a record with the reason (see `begun`).

        Raises:
            HostError: no further trial can be measured either.
        """

    @property
    def parts(self) -> "Sequence[Testbed]":
        """Return the testbeds that share the trials, each with its own name; itself when it hands nothing on."""
        return (self,)

    @property
    def emulated(self) -> bool:
        """Tell whether an emulator makes its machines: their disturbances and their host state are its host's."""
        return False

    def named_by(self, kinds: Collection[str]) -> bool:
        """Tell whether a spec with these `testbeds` is meant for it."""
        return self.kind in kinds

    def require_named(self, spec: str, kinds: Sequence[str]) -> None:
        """Check that a spec of this name, with these `testbeds`, is meant for it.

        Raises:
            WrongTestbed: it is not.
        """
        if not self.named_by(kinds):
            what = f"is not meant for a testbed of kind '{self.kind}'"
            raise WrongTestbed(
                what, f"{spec}: testbeds", f"it names {', '.join(kinds)}; add the kind, or use such a testbed"
            )

    def check(self) -> None:  # noqa: B027 a default, as those below
        """Raise HostError when nothing at all can run here."""

    def knobs(self, what: str, restore_first: bool) -> Knobs:
        """Return the knobs of the host that measures, for `what` ("run S-F5"); see KnobSession for `restore_first`."""
        del what, restore_first
        return Knobs()

    def describe(self) -> dict[str, Any]:
        """For run.json: `name`, `kind`, `shared_tsc`, and `file`, from which it can be made again."""
        return {"name": self.name, "kind": self.kind, "shared_tsc": self.shared_tsc, "file": str(self.file)}

    def machine(self) -> dict[str, Any]:
        """Return for run.json `host`, the metadata of the measuring machine, and `build`, that of its node program."""
        return {"host": host_metadata(), "build": {"absent": "no node program is needed"}}

    def begin(self, assignment: Assignment) -> Opening:
        """Begin the run; knobs of the whole run are set.

        Raises:
            HostError: it cannot.
        """
        return without_collectors(assignment, f"a testbed of kind {self.kind} has no host to read")

    def begun(self, trial: Trial, attempt: int) -> TrialRecord:
        """Return the record of a trial that begins now, with nothing measured yet."""
        point = trial.point
        return TrialRecord(
            trial=trial.id,
            point=point.id,
            repeat=trial.repeat,
            kind=trial.kind,
            factors=dict(point.factors),
            params=point.values(),
            attempt=attempt,
            testbed=self.name,
            modelled=self.modelled,
            pair=trial.pair,
            started_utc=utc_now(),
            started_monotonic_ns=time.monotonic_ns(),
        )

    @property
    def host_checks(self) -> "Sequence[HostCheck]":
        """Return the host-state checks so far; none where there is no host."""
        return ()

    def end_block(self) -> None:  # noqa: B027
        """No trial follows for now: what is to enclose trials is measured."""

    def end(self) -> None:  # noqa: B027
        """End the run, perhaps before it began: end programs. Knobs are restored after it."""

    def close(self) -> None:  # noqa: B027
        """Nothing more is asked: what was opened to answer is closed. A second time does nothing."""

    def up(self) -> TestbedState:
        """Prepares the testbed."""
        return self.status()

    def down(self) -> TestbedState:
        """Take down what `up` prepared."""
        return self.status()

    def findings(self) -> list[HostFinding]:
        """Return what its hosts have and lack, for `pollscope testbed check`; changes nothing."""
        state = self.status()
        return [HostFinding(self.name, self.kind, "yes" if state.ready else "no", "; ".join(state.metadata) or "ready")]

    def build(self, say: Callable[[str], None]) -> list[str]:
        """Make the programs where this testbed starts them; return lines that say where they are.

        Args:
            say: gets a line before what takes long.

        Raises:
            HostError: they cannot be built there.
        """
        return [str(build_programs(say))]

    def status(self) -> TestbedState:
        """Looks, and changes nothing."""
        try:
            self.check()
        except HostError as error:
            return TestbedState(False, [str(error)])
        return TestbedState(True)
