# SPDX-License-Identifier: BSD-3-Clause
"""The measurement window, for rules and means: one series per metric of a unit, in constant memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from pollscope.collectors.interface import CollectorOutcome
from pollscope.collectors.sample import Kind, SourceSample


class Plausibility(StrEnum):
    """How well numbers agree."""

    OK = "ok"
    SUSPICIOUS = "suspicious"
    IMPOSSIBLE = "impossible"


class PlausibilityFinding(NamedTuple):
    """One rule's verdict on one window."""

    rule: str
    verdict: Plausibility
    text: str
    numbers: Mapping[str, float]


class LcoreCounts(NamedTuple):
    """Hold the counts of the node's own PMU on a DUT lcore over the window: user mode, that thread only."""

    lcore: int
    cpu: int
    instructions: float
    cycles: float
    window_s: float


@dataclass
class Series:
    """One metric of one unit over the window, in constant memory; `text` and `reason` are the last ones."""

    kind: Kind
    unit: str
    count: int = 0
    total: float = 0.0
    first: float = 0.0
    last: float = 0.0
    first_ns: int = 0
    last_ns: int = 0
    backwards: int = 0
    wrapped: int = 0
    lowest: float = field(default=float("inf"))
    text: str = ""
    reason: str = ""

    def add(self, sample: SourceSample) -> None:
        if isinstance(sample.value, str):
            self.text = sample.value
            return
        if sample.value is None:
            self.reason = sample.reason
            self.wrapped += "counter wrapped" in sample.reason
            return
        value = float(sample.value)
        if self.count == 0:
            self.first, self.first_ns = value, sample.t_ns or 0
        elif self.kind is Kind.COUNTER and value < self.last:
            self.backwards += 1
        self.count, self.total, self.last, self.last_ns = self.count + 1, self.total + value, value, sample.t_ns or 0
        self.lowest = min(self.lowest, value)

    def per_second(self) -> float | None:
        """Return the mean rate; None if the kind or the number of samples does not give one."""
        seconds = (self.last_ns - self.first_ns) / 1e9
        if self.count == 0:
            return None
        if self.kind is Kind.RATE:
            return self.total / self.count
        if self.kind is Kind.COUNTER and self.count > 1 and seconds > 0 and not self.backwards:
            return (self.last - self.first) / seconds
        if self.kind is Kind.INTERVAL and self.count > 1 and seconds > 0:
            # the first sample covers the time before its stamp: without it, counts and time match
            return (self.total - self.first) / seconds
        return None


def depth(path: str) -> int:
    """Return the levels below the whole system: 0 for `system`, 1 for `socket0`, 2 for `socket0/channel1`."""
    return 0 if path == "system" else 1 + path.count("/")


class WindowSeries:
    """All series of one window; `lcores` is what the node itself counted in it."""

    def __init__(
        self,
        samples: Iterable[SourceSample],
        outcomes: Iterable[CollectorOutcome] = (),
        lcores: Iterable[LcoreCounts] = (),
    ) -> None:
        self.series: dict[tuple[str, str, str], Series] = {}
        self._units: dict[tuple[str, str], list[tuple[str, Series]]] = {}
        self.outcomes, self.lcores = list(outcomes), list(lcores)
        for sample in samples:
            self._series_of(sample).add(sample)

    def _series_of(self, sample: SourceSample) -> Series:
        key = (sample.source, sample.unit_path, sample.metric)
        if key not in self.series:
            self.series[key] = Series(sample.kind, sample.unit)
            self._units.setdefault((sample.source, sample.metric), []).append((sample.unit_path, self.series[key]))
        return self.series[key]

    def rate(self, metric: str) -> float | None:
        """Sum the mean rates of a metric over its coarsest units, from the first source that has it.

        Two sources of the same metric (pcm-iio and perf) count the same bytes: they are not added.
        """
        for source in [source for source, name in self._units if name == metric]:
            rates = [rate for series in self.coarsest(source, metric) if (rate := series.per_second()) is not None]
            if rates:
                return sum(rates)
        return None

    def coarsest(
        self, source: str, metric: str, has: Callable[[Series], bool] = lambda series: series.count > 0
    ) -> list[Series]:
        """Return the series of a metric at the coarsest level that has it: a socket, but not its channels in
        addition.
        """
        found = [(path, series) for path, series in self._units.get((source, metric), []) if has(series)]
        level = min((depth(path) for path, _ in found), default=0)
        return [series for path, series in found if depth(path) == level]

    def metrics(self) -> list[tuple[str, str]]:
        """Return (source, metric) of all that was sampled, in order of appearance."""
        return list(self._units)

    def units(self, *metrics: str) -> Iterator[tuple[str, str, list[Series]]]:
        """Return (source, unit path, series in the order asked) of the units that have all metrics with values."""
        for source, path, name in list(self.series):
            if name == metrics[0]:
                found = [self.series.get((source, path, metric)) for metric in metrics]
                complete = [series for series in found if series is not None and series.count]
                if len(complete) == len(metrics):
                    yield source, path, complete
