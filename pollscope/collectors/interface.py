# SPDX-License-Identifier: BSD-3-Clause
"""The one interface of all collectors: `probe`, `start`, `stop`, `readings`.

A collector records while it runs and parses after it was stopped. A failure (its tool dies, hangs or prints garbage) is
recorded in its outcome; no exception reaches the trial.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from pollscope.base.errors import PollscopeError
from pollscope.collectors.parsing import Problems
from pollscope.collectors.recording import Parser, Recording
from pollscope.collectors.sample import Reading


class ProbeResult(NamedTuple):
    """Say whether a collector can work here; `reason` says why not, or what it will read."""

    available: bool
    reason: str

    def __bool__(self) -> bool:
        return self.available


class Status(StrEnum):
    """Name the outcome of a collector."""

    OK = "ok"
    ABSENT = "absent"  # cannot work here
    FAILED = "failed"  # started, then died, printed garbage, or reported an error
    HUNG = "hung"  # runs and delivers nothing


@dataclass
class CollectorOutcome:
    """Describe the outcome of a collector.

    `cpu_ns` is CPU time used while it ran, of its tool or of its thread; None when it could not be measured.
    """

    collector: str
    status: Status
    reason: str = ""
    cpu_ns: int | None = None
    started_ns: int = 0
    stopped_ns: int = 0
    raw: Path | None = None
    problems: Problems = field(default_factory=Problems)


class Collector(ABC):
    """One source of counters. `name` is what the command line, specs and samples call it."""

    name: str
    summary: str
    notes = ""  # caveats for readers of its numbers (docs/reference-metrics.md)
    parser: Parser  # of its recordings
    once = False  # reads at start and stop only: settings, and sources that cost too much in between
    owns_uncore = False  # programs the uncore PMUs: two of them at once overwrite each other
    sparse = False  # records events: having none is not a failure

    @abstractmethod
    def probe(self) -> ProbeResult:
        """Return whether it can work here; leave nothing running and change nothing."""

    @abstractmethod
    def start(self, folder: Path, interval_ns: int) -> None:
        """Begin to record into `folder`, about every `interval_ns`.

        Raises:
            HostError: it cannot start (with the reason).
        """

    @abstractmethod
    def stop(self) -> CollectorOutcome:
        """End recording; never raise for an error of the source."""

    def parse_recording(self, recording: Recording, problems: Problems) -> Iterator[Reading]:
        """Return the readings of a recording of this collector, made here or elsewhere.

        Raises:
            ParseError: the recording is not what this collector records.
        """
        return recording.readings(type(self).parser, problems)

    def readings(self, outcome: CollectorOutcome) -> Iterator[Reading]:
        """Yield the readings just recorded; garbage makes the outcome a failure, but earlier readings count."""
        if outcome.raw is None or not outcome.raw.exists() or outcome.raw.stat().st_size == 0:
            if outcome.status is Status.OK:
                outcome.status, outcome.reason = Status.FAILED, "it recorded nothing"
            return
        try:
            yield from self.parse_recording(Recording.open(outcome.raw), outcome.problems)
        except PollscopeError as error:
            if outcome.status is Status.OK:
                outcome.status = Status.FAILED
            outcome.reason = "; ".join(filter(None, (outcome.reason, str(error))))
