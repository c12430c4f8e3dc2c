# SPDX-License-Identifier: BSD-3-Clause
"""All collectors of a trial at the same time, on one clock, with the windows of the trial marked."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pollscope.base.errors import PollscopeError
from pollscope.collectors.interface import Collector, CollectorOutcome, Status
from pollscope.collectors.iotlb import derive
from pollscope.collectors.sample import SourceSample, tidy


class Mark(NamedTuple):
    """A moment of the trial: `warmup`, `window`, `drain`, `end`; each lasts until the next."""

    t_ns: int
    phase: str


class CollectorSession:
    """Starts and stops collectors together.

    `interval_ns` is for all, or by the collectors' names. If a collector is missing, dies, hangs or records garbage,
    its outcome says so, and the others continue. `required` serves the caller: `failed_required` returns those that did
    not deliver.
    """

    def __init__(
        self,
        collectors: Sequence[Collector],
        folder: Path,
        interval_ns: int | Mapping[str, int],
        required: Iterable[str] = (),
    ) -> None:
        self._collectors, self._folder, self._interval_ns = list(collectors), folder, interval_ns
        self._started: list[Collector] = []
        self._required = set(required)
        self.marks: list[Mark] = []
        self.outcomes: dict[str, CollectorOutcome] = {}

    def start(self) -> None:
        """Start every collector that can work here; never raise for one that cannot."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for collector in self._collectors:
            try:
                availability = collector.probe()
                if availability.available:
                    collector.start(self._folder, self._interval_of(collector.name))
                    self._started.append(collector)
                    continue
                self.outcomes[collector.name] = CollectorOutcome(collector.name, Status.ABSENT, availability.reason)
            except (PollscopeError, OSError) as error:
                self.outcomes[collector.name] = CollectorOutcome(collector.name, Status.FAILED, str(error))

    def _interval_of(self, name: str) -> int:
        return self._interval_ns if isinstance(self._interval_ns, int) else self._interval_ns[name]

    def mark(self, phase: str, t_ns: int | None = None) -> None:
        """Begin a phase of the trial now, or at a time that is known beforehand; marks come in order of time."""
        self.marks.append(Mark(time.monotonic_ns() if t_ns is None else t_ns, phase))

    def stop(self) -> dict[str, CollectorOutcome]:
        """Stop all in reverse order and return their outcomes; never raise for a collector that fails."""
        while self._started:
            collector = self._started.pop()
            try:
                outcome = collector.stop()
            except (PollscopeError, OSError) as error:
                outcome = CollectorOutcome(collector.name, Status.FAILED, str(error))
            self.outcomes[collector.name] = outcome
        return self.outcomes

    def failed_required(self) -> list[CollectorOutcome]:
        """Return outcomes of required collectors that are not ok (complete after `samples` was read to its end)."""
        return [o for name, o in self.outcomes.items() if name in self._required and o.status is not Status.OK]

    def samples(self) -> Iterator[SourceSample]:
        """Parse and yield everything that was recorded; garbage shows in the outcomes."""
        for collector in self._collectors:
            outcome = self.outcomes.get(collector.name)
            if outcome is not None:
                yield from tidy(collector.name, derive(collector.readings(outcome)))

    def phase_of(self, t_ns: int | None) -> str:
        """Return the phase in which a sample was taken; "" before the first mark and for samples without a time."""
        phase = ""
        for mark in self.marks:
            if t_ns is not None and t_ns >= mark.t_ns:
                phase = mark.phase
        return phase


def overhead_share(outcome: CollectorOutcome) -> float | None:
    """Return a collector's CPU time as a share of one core while it ran; None if it was not measured."""
    elapsed_ns = outcome.stopped_ns - outcome.started_ns
    return None if outcome.cpu_ns is None or elapsed_ns <= 0 else outcome.cpu_ns / elapsed_ns
