# SPDX-License-Identifier: BSD-3-Clause
"""Define the interface of testbeds: say which points can be hosted, and measure a trial. Runs use nothing else."""

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pollscope.base.clock import utc_now
from pollscope.base.errors import HostError, UsageError, WrongTestbed
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
_DIGEST_DIGITS = 16


class TestbedConfig(StrictModel):
    """The file of a testbed; each kind has its own keys and `kind: Literal[NAME]`."""

    def digests(self) -> dict[str, str]:
        """Return key -> digest of its value, by which a resumed run knows the testbed again."""
        values = self.model_dump(mode="json")
        texts = {key: json.dumps(value, sort_keys=True) for key, value in values.items()}
        return {key: hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS] for key, text in texts.items()}


@dataclass(frozen=True)
class HostFinding:
    """A feature that a host has or lacks, and the remedy (`pollscope testbed check`).

    Attributes:
        host: of the testbed.
        what: the feature.
        state: `yes` present; `no` missing, so that nothing can be measured; `note` missing or unknown.
        text: the finding.
        remedy: the command to run or the line to write; empty for `yes`.
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
    """Return why a testbed whose generator sends UDP cannot host a point; None if it can."""
    if params.flow_size is None:
        return None
    return "flow_size: TCP flows need a kernel at both ends, which only a testbed of kind namespaces has"


def generator_refusal(params: Parameters) -> str | None:
    """Return why a testbed that is not loopback cannot have the generator, or the node, of a point; None if it can."""
    if params.node is not None:
        return "node: another build than the testbed's is started on loopback only"
    if params.generator != "core":
        return f"generator={params.generator} plays the virtual NIC, which only loopback has; use generator core"
    if not params.generator_sleep:
        return None
    return "generator_sleep: only on loopback do generator and DUT share a CPU; here the generator has its own"


class HostAway(HostError):
    """A host that trials need no longer answers; the run ends and can be resumed."""


@dataclass(frozen=True)
class Assignment:
    """The input that a run gives to a testbed before the first trial.

    Attributes:
        plan: the trials to measure, and their spec.
        folder: the run folder; a testbed writes only its own files there.
        log: file for the output of its programs.
        append_host_check: stores a host-state check (docs/validity.md) and returns it with its number.
        host_checks: those of the interrupted part of the run.
    """

    plan: Plan
    folder: Path
    log: Path
    append_host_check: Callable[["HostCheck"], dict[str, Any]]
    host_checks: Sequence["HostCheck"] = ()


@dataclass(frozen=True)
class Opening:
    """The entries of a testbed in run.json before the first trial.

    Attributes:
        hello: of the DUT's node.
        noise: gaps of the measuring CPUs.
        collectors: state of each one: `{available, reason, required, interval_ns}`.
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
    """A testbed, which measures the trials of one run.

    Each kind is a class and a line in TESTBEDS (pollscope.base.names). A testbed defines `refusal` and `measure`; the
    other methods have defaults that suit a testbed without a host.

    Args:
        file: the file of the testbed.
        config: its content.

    Attributes:
        kind: its name in specs.
        summary: where trials run, in a few words (docs/reference-spec.md).
        config_model: the keys of its file.
        shared_tsc: whether generator and DUT read the same clock.
        modelled: whether its numbers are modelled instead of measured.
        other_host: what is assumed of another host for which points are planned; empty for this one.
        warnings: sentences for the reader of the run.
        maxima: the maxima for `load_of_max`; gets each trial, and those of an interrupted run before `begin`.
    """

    kind: ClassVar[str]
    summary: ClassVar[str] = ""
    config_model: ClassVar[type[TestbedConfig]]
    shared_tsc: ClassVar[bool] = False
    modelled: ClassVar[bool] = False

    def __init__(self, file: Path, config: TestbedConfig) -> None:
        self.name, self.file, self.config = file.stem, file, config
        self.other_host = ""
        self.warnings: list[str] = []
        self.maxima = Maxima(self.warnings)

    @abstractmethod
    def refusal(self, point: Point) -> str | None:
        """Return why this testbed cannot host a point; None if it can."""

    def cautions(self, point: Point) -> list[str]:
        """Return warnings about a point that this testbed can host."""
        del point
        return []

    @abstractmethod
    def measure(self, trial: Trial, attempt: int) -> TrialRecord:
        """Measure one trial; a failed trial is a record with the reason (see `begun`).

        Raises:
            HostError: further trials cannot be measured either.
        """

    @property
    def parts(self) -> "Sequence[Testbed]":
        """Return the testbeds that share the trials, each with its own name; by default only this one."""
        return (self,)

    @property
    def emulated(self) -> bool:
        """Return whether its machines are emulated, so that disturbances and host state are those of this host."""
        return False

    def named_by(self, kinds: Collection[str]) -> bool:
        """Return whether a spec with these `testbeds` is meant for this testbed."""
        return self.kind in kinds

    def require_named(self, spec: str, kinds: Sequence[str]) -> None:
        """Check that a spec with these `testbeds` is meant for this testbed.

        Raises:
            WrongTestbed: it is not.
        """
        if not self.named_by(kinds):
            what = f"is not meant for a testbed of kind '{self.kind}'"
            raise WrongTestbed(
                what, f"{spec}: testbeds", f"it names {', '.join(kinds)}; add the kind, or use such a testbed"
            )

    def plan_for(self, cpus: int) -> None:
        """Plan from now on for another host of this kind with this many CPUs; nothing can then be run.

        Raises:
            UsageError: the CPUs of this testbed are not those of this host, or its file names them.
        """
        del cpus
        raise UsageError(f"a testbed of kind {self.kind} has CPUs of its own", "--cpus", "plan it without --cpus")

    def check(self) -> None:  # noqa: B027 a default, like those below
        """Raise HostError if nothing can run here."""

    def knobs(self, what: str, restore_first: bool) -> Knobs:
        """Return the knobs of the host that measures, for `what` ("run S-F5"); see KnobSession for `restore_first`."""
        del what, restore_first
        return Knobs()

    def describe(self) -> dict[str, Any]:
        """Return for run.json `name`, `kind`, `shared_tsc`, `file`, which recreates the testbed, and `config`."""
        own = {"name": self.name, "kind": self.kind, "shared_tsc": self.shared_tsc, "file": str(self.file)}
        return {**own, "config": self.config.digests()}

    def machine(self) -> dict[str, Any]:
        """Return for run.json `host`, the metadata of the measuring machine, and `build`, that of its node program."""
        return {"host": host_metadata(), "build": {"absent": "no node program is needed"}}

    def begin(self, assignment: Assignment) -> Opening:
        """Begin the run; the knobs of the whole run are already set.

        Raises:
            HostError: the run cannot begin.
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
            block=trial.block,
            started_utc=utc_now(),
            started_monotonic_ns=time.monotonic_ns(),
        )

    @property
    def host_checks(self) -> "Sequence[HostCheck]":
        """Return the host-state checks so far; none where there is no host."""
        return ()

    def end_block(self) -> None:  # noqa: B027
        """Take the measurements that follow a block of trials."""

    def end(self) -> None:  # noqa: B027
        """End the run's programs, even if the run did not begin. Knobs are restored afterwards."""

    def close(self) -> None:  # noqa: B027
        """Close all open resources. A second call does nothing."""

    def up(self) -> TestbedState:
        """Prepare the testbed."""
        return self.status()

    def down(self) -> TestbedState:
        """Take down what `up` prepared."""
        return self.status()

    def findings(self) -> list[HostFinding]:
        """Return what its hosts have and lack, for `pollscope testbed check`; change nothing."""
        state = self.status()
        return [HostFinding(self.name, self.kind, "yes" if state.ready else "no", "; ".join(state.metadata) or "ready")]

    def build(self, say: Callable[[str], None]) -> list[str]:
        """Make the programs where this testbed starts them; return lines that say where they are.

        Args:
            say: gets a line before each long step.

        Raises:
            HostError: they cannot be built there.
        """
        return [str(build_programs(say))]

    def status(self) -> TestbedState:
        """Return the present state; change nothing."""
        try:
            self.check()
        except HostError as error:
            return TestbedState(False, [str(error)])
        return TestbedState(True)
