# SPDX-License-Identifier: BSD-3-Clause
"""Prepare the data of a figure: the measured rows of one run, and its caption."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.papers import load_paper
from pollscope.analysis.planned import shortened_text
from pollscope.analysis.point_values import (
    PAIR,
    STATISTIC,
    PointValues,
    absence,
    by_point,
    factors,
    levels_text,
    measured,
    places,
    several_pairs,
)
from pollscope.analysis.saturation import saturated_generator_points, unsaturated_points
from pollscope.base.units import human_share
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.stats.estimates import Estimate
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

_INTERVALS_OF_SOME = " with 95 % intervals, some of them unbounded"
# Factors from base units to the units on axes.
MILLION, US_PER_NS = 1e6, 1e-3
# From this share on, a caption mentions time taken away from the DUT.
INTERRUPTED_LIMIT = 0.01
# A caption names the metrics of a figure with at most this many; panel titles name them in larger figures.
_MOST_METRICS = 4
# The sources that fill the RX rings, where a run compares them.
FEEDS = {
    "": "",
    "wire": "packets of a generator",
    "infinite": "rings kept full by the virtual NIC",
    "none": "no sender",
}
# Treatment of time that was taken away from the DUT, by whether no, all or only some drawn metrics leave it out.
_FATES = {
    False: "is part of these numbers",
    True: "is left out",
    None: "is left out of what is 'while running' and part of the rest",
}
# Shares of all time that is not busy, which therefore contain time taken away from the DUT.
_HOLDS_INTERRUPTIONS = ("tax_share", "tax_share_testpmd")


@dataclass(frozen=True)
class FigureData:
    """Hold the data of one run for a figure, and what is said of it: values drawn and missing, remarks for the caption.

    `leaves_out_interruptions` is None if only some of the drawn metrics leave out time in which the DUT's CPU did other
    work.
    """

    row: str
    run: RunFolder
    table: pd.DataFrame
    rows: pd.DataFrame
    leaves_out_interruptions: bool | None = True
    pools_trials: bool = False
    pairs: str = ""
    drawn: list[dict[str, Any]] = field(default_factory=list)
    missing: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    _samples: dict[str, list[PointValues]] = field(default_factory=dict)

    def by_point(self, metric: str, *having: str) -> list[PointValues]:
        """Return samples of a metric by point, of points that have a level of each given factor."""
        if metric not in self._samples:
            self._samples[metric] = self._noted(metric, by_point(self.rows, metric))
        return [sample for sample in self._samples[metric] if set(having) <= sample.levels.keys()]

    def _noted(self, name: str, samples: list[PointValues]) -> list[PointValues]:
        metric = name.partition(" ")[0]
        unit = metric_dictionary()[metric].unit
        self.note_absence(metric)
        for sample in samples:
            self.note(name, unit, sample.levels, sample.estimate)
        return samples

    def note_absence(self, metric: str) -> None:
        """Note why no trial has a metric, for the file beside the figure; do nothing if a trial has it."""
        if self.rows.empty or self.rows[f"metric.{metric}"].isna().all():
            known = metric_dictionary()[metric]
            self.missing.append({"metric": metric, "unit": known.unit, "absent": self.absence(metric)})

    def note(self, name: str, unit: str, levels: Mapping[str, Any], estimate: Estimate) -> None:
        """Note a drawn value for the file beside the figure; the ends of an unknown interval are left empty."""
        low, high = (end if estimate.has_interval else None for end in (estimate.low, estimate.high))
        numbers = {"value": estimate.value, "low": low, "high": high, "n": estimate.n}
        self.drawn.append({"metric": name, "unit": unit, **levels, **numbers})

    def running(self, metric: str) -> list[PointValues]:
        """Return samples of a share of all cycles as a share of the cycles in which the DUT's lcores ran."""
        away, share = self.rows["metric.interrupted_share"], self.rows[f"metric.{metric}"]
        if away.isna().all():
            return self.by_point(metric)
        name = f"{metric} of the time in which the DUT ran"
        if name not in self._samples:
            counted = share - away if metric in _HOLDS_INTERRUPTIONS else share
            found = by_point(self.rows.assign(**{f"metric.{metric}": counted / (1 - away)}), metric)
            self._samples[name] = self._noted(name, found)
        return self._samples[name]

    def generator_limited(self, metric: str, *having: str) -> list[PointValues]:
        """Return samples of saturated points that the generator limits, so that they are lower bounds for the DUT."""
        bound = saturated_generator_points(self.run, self.table)
        found = by_point(self.rows[places(self.rows).isin(bound)], metric)
        return [sample for sample in found if set(having) <= sample.levels.keys()]

    @property
    def interrupted(self) -> str:
        """Return a sentence on the time that was taken away from the DUT's lcores; empty if it was negligible."""
        shares = self.rows["metric.interrupted_share"].dropna()
        if shares.empty or shares.max() < INTERRUPTED_LIMIT:
            return ""
        fate = _FATES[self.leaves_out_interruptions]
        middle, worst = human_share(float(shares.median())), human_share(float(shares.max()))
        return f"Other work on the DUT's CPU, {middle} of the time (up to {worst}), {fate}."

    @property
    def floor_ns(self) -> float | None:
        """Return the median latency of the path without a DUT; None if the run did not measure it."""
        floors = self.rows["metric.latency_floor_ns"].dropna()
        return None if floors.empty else float(floors.median())

    def absence(self, metric: str) -> str:
        return absence(self.rows, metric) if len(self.rows) else no_data(self.run)

    @property
    def modelled(self) -> bool:
        return bool(self.table["modelled"].any())

    @property
    def mark(self) -> str:
        if self.modelled:
            return "MODELLED: computed by a simulation, not measured"
        if HostMetadata(self.run.meta).virtual_nic:
            return "virtual NIC (net_crossover), measured on a real CPU"
        if HostMetadata(self.run.meta).emulated:
            return "emulated machines: hardware was not measured"
        return "measured on hardware"

    @property
    def caption(self) -> str:
        """Return the context that a reader needs: testbed, machine, trials, options, run."""
        host = HostMetadata(self.run.meta)
        machine = "" if host.modelled else f" {host.processor}; {host.machine}; {host.software}."
        where = f"Testbed {host.testbed_name}: {self.mark}.{machine}"
        said = [
            where,
            self.pairs,
            self._trials(),
            *self.remarks,
            self._metrics(),
            shortened_text(self.run, self.rows),
            self.interrupted,
            self._maximum_note(),
            f"Run {self.run.run_id}.",
        ]
        return " ".join(each for each in said if each)

    def _metrics(self) -> str:
        """Return the names of the drawn metrics as in tables, if they are few."""
        names = dict.fromkeys(str(row["metric"]).partition(" ")[0] for row in self.drawn)
        known = metric_dictionary().metrics
        titles = [f"{known[name].title} ({name})" for name in names if name in known]
        return f"Shown: {', '.join(titles)}." if 0 < len(titles) <= _MOST_METRICS else ""

    def _trials(self) -> str:
        """Return the number of trials per point, and whether it gives intervals."""
        if self.rows.empty:
            return "No trial is data."
        sizes = Counter(places(self.rows).value_counts())
        repeats = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
        flagged = int((self.rows["status"] == "flagged").sum())
        note = f" {flagged} of {len(self.rows)} trials are flagged (noise or misfit)." if flagged else ""
        if self.pools_trials:
            return f"All packets of {repeats} trial{'s' if max(sizes) > 1 else ''} per point.{note}"
        if max(sizes) == 1:
            return f"One trial per point, so there are no intervals.{note}"
        known = {row["low"] is not None for row in self.drawn}
        said = {frozenset({False}): ", whose intervals are unbounded", frozenset({True, False}): _INTERVALS_OF_SOME}
        intervals = {frozenset[bool](): ""} | said  # of a figure that draws nothing
        means = "Medians" if self.rows.attrs.get(STATISTIC) == "median" else "Means"
        return f"{means} of {repeats} trials per point{intervals.get(frozenset(known), ' with 95 % intervals')}.{note}"

    def _maximum_note(self) -> str:
        unsaturated = unsaturated_points(self.table)
        if not unsaturated:
            return ""
        names = [name for name in factors(self.table) if not name.startswith("load_")]
        loaded = self.rows[self.rows["factor.load_of_max"] > 0]
        every = loaded.drop_duplicates([f"factor.{name}" for name in names]) if names else loaded.head(1)
        bound = every[places(every).isin(unsaturated)]
        where = "; ".join(levels_text({name: row[f"factor.{name}"] for name in names}) for _, row in bound.iterrows())
        said = "At 100 % load the generator, not the DUT, was at its limit"
        return f"{said}, with {where}." if len(bound) < len(every) else f"{said}."


def no_data(run: RunFolder) -> str:
    """Return why a run has nothing to draw: the testbed could host no point, or all trials failed."""
    reasons = dict.fromkeys(str(entry["reason"]) for entry in run.meta.get("left_out", []))
    if run.trials or not reasons:
        return "the run has no valid trial"
    return f"this testbed could host none of its points: {next(iter(reasons))}"


def by_feed(found: Sequence[PointValues]) -> dict[str, list[PointValues]]:
    """Group samples by the feed that fills the rings, so that no line joins two feeds."""
    feeds = [feed for feed in FEEDS if any(sample.levels.get("feed", "") == feed for sample in found)]
    return {FEEDS[feed]: [sample for sample in found if sample.levels.get("feed", "") == feed] for feed in feeds}


def figure_data(
    row: str,
    run: RunFolder,
    leaves_out_interruptions: bool | None = True,
    *,
    pools_trials: bool = False,
    every_pair: bool = False,
) -> FigureData:
    """Return the data that a figure needs from a run (`PaperFigure` explains the options).

    Raises:
        UsageError: the run folder contradicts its formats.
    """
    table = current_table(run)
    names = [] if every_pair else several_pairs(table)
    note = ""
    if names:
        table = table[table[f"factor.{PAIR}"] == names[0]]
        others = f"`pollscope compare {run.run_id} --by pair` shows {' and '.join(names[1:])}"
        note = f"Pair {names[0]} of {len(names)}; {others}."
    return FigureData(row, run, table, measured(table), leaves_out_interruptions, pools_trials, note)


def short_name(paper: str) -> str:
    """Return the name of a paper in figures: SoCC'19."""
    return load_paper(paper).short
