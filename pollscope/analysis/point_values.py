# SPDX-License-Identifier: BSD-3-Clause
"""Samples of a metric from the results table: which trials count, at which levels, and how levels are written."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

import pandas as pd
import scipy  # its parts are loaded when they are first needed: that takes a second

from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.formulas.dut import ACCOUNTED, ERRORS, OF_RUNNING_TIME
from pollscope.metrics.formulas.searched import SEARCHED
from pollscope.metrics.undisturbed import UNDISTURBED
from pollscope.plan.blocks import FEWEST_BLOCKS
from pollscope.spec.model import Parameters
from pollscope.spec.points import level_text
from pollscope.stats.estimates import (
    CONFIDENCE,
    NO_LIMITS,
    Estimate,
    block_ratio_estimate,
    difference_estimate,
    difference_p,
    mean_estimate,
    median_estimate,
    ratio_estimate,
)
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

# Not a parameter: which pair of a testbed of several measured the trial.
PAIR = "pair"
# If more than this share of a point's trials lack a metric, the others do not stand for the point.
_MOST_ABSENT = 1 / 3
Level = float | int | str | bool
Statistic = Literal["mean", "median"]
# Attributes of a table: by which statistic its points are shown, and whether without flagged trials.
STATISTIC, WITHOUT_FLAGGED = "statistic", "without flagged"


@dataclass(frozen=True)
class PointValues:
    """Hold the values of one metric at one point, in the order of measurement, with the host state of each."""

    levels: Mapping[str, Level]
    values: tuple[float, ...]
    error: float = 0.0  # mean half-width of the 95 % intervals that single trials have by themselves
    host_states: tuple[str, ...] = ()
    beside: tuple[float, ...] = ()  # what a second metric was in the same trials
    limits: tuple[float, float] = NO_LIMITS  # between which the metric lies by its nature
    flagged: int = 0  # how many of the trials are flagged
    blocks: tuple[str, ...] = ()  # of the trials, where the plan compares within blocks
    resolution: float = 0.0  # the smallest difference that the metric knows
    statistic: Statistic = "mean"
    absent: int = 0  # how many further trials of the point lack the metric

    @property
    def is_fair(self) -> bool:
        """Return whether the trials that have the metric stand for the point (`unfair_samples`)."""
        return self.absent <= _MOST_ABSENT * (self.absent + len(self.values))

    @property
    def estimate(self) -> Estimate:
        """Return mean or median; its interval covers the spread of the trials and their common error."""
        return self.at(CONFIDENCE)

    def at(self, confidence: float) -> Estimate:
        """Return the same estimate with an interval of that confidence level."""
        if self.statistic == "median":
            alone = median_estimate(self.values, confidence)
        else:
            alone = mean_estimate(self.values, confidence, self.limits)
        wide = alone.widened(self._own_error_at(confidence))
        return wide.clipped(self.limits) if self._limits_hold else wide

    def over(self, other: "PointValues", confidence: float = CONFIDENCE) -> Estimate:
        """Return this mean over another's; the interval also holds the error that single trials have by themselves.

        Points that were planned in the same blocks are compared block by block.
        """
        if self.statistic == "median":
            return self._median_over(other, confidence)
        beside = self._beside(other)
        if beside and min(*self.values, *other.values) > 0:
            ratio = block_ratio_estimate(*beside, confidence)
        else:
            ratio = ratio_estimate(self.values, other.values, confidence)
        if math.isnan(ratio.value):
            return ratio
        errors = math.hypot(self._own_error_at(confidence), ratio.value * other._own_error_at(confidence))
        wide = ratio.widened(errors / abs(sum(other.values) / len(other.values)))
        if min(self.limits[0], other.limits[0]) < 0 or not (self._limits_hold and other._limits_hold):
            return wide
        # A share is at most 1, over the least value that the other one may have.
        least = other.at(confidence).low if math.isfinite(self.limits[1]) and ratio.has_interval else 0.0
        return wide.clipped((0.0, self.limits[1] / least if least > 0 else math.inf))

    def by_block(self) -> dict[str, list[float]]:
        """Return the values of each block; nothing where the plan does not compare within blocks."""
        found: dict[str, list[float]] = {}
        for block, value in zip(self.blocks, self.values, strict=False):
            if block:
                found.setdefault(block, []).append(value)
        return found

    def _beside(self, other: "PointValues") -> tuple[list[float], list[float]] | None:
        """Return the means of both points in each block that has both; None where there are too few."""
        own, others = self.by_block(), other.by_block()
        both = [block for block in own if block in others]
        if len(both) < FEWEST_BLOCKS:
            return None
        return [fmean(own[block]) for block in both], [fmean(others[block]) for block in both]

    def _apart(self, other: "PointValues") -> tuple[Sequence[float], Sequence[float]]:
        """Return two samples whose means differ as these do: zeros and the differences by block, or the values."""
        beside = self._beside(other)
        if beside is None:
            return other.values, self.values
        return [0.0] * len(beside[0]), [own - its for own, its in zip(*beside, strict=True)]

    def _median_over(self, other: "PointValues", confidence: float) -> Estimate:
        """Return the ratio of two medians; on the logarithmic scale the squares of their errors add up."""
        above, below = self.at(confidence), other.at(confidence)
        n = min(above.n, below.n)
        if below.value == 0:
            return Estimate(math.nan, -math.inf, math.inf, n, "denominator is zero")
        ratio = above.value / below.value
        if min(above.low, below.low) <= 0 or not (above.has_interval and below.has_interval):
            return Estimate(ratio, -math.inf, math.inf, n, "one median has no interval above 0")
        low = math.hypot(math.log(above.value / above.low), math.log(below.high / below.value))
        high = math.hypot(math.log(above.high / above.value), math.log(below.value / below.low))
        return Estimate(ratio, ratio * math.exp(-low), ratio * math.exp(high), n, "order statistics")

    def minus(self, other: "PointValues") -> Estimate:
        """Return this mean or median minus another's."""
        if self.statistic == "mean":
            return difference_estimate(*self._apart(other), math.hypot(self.own_error, other.own_error))
        one, two = self.estimate, other.estimate
        value, n = one.value - two.value, min(one.n, two.n)
        low, high = (
            math.hypot(one.value - one.low, two.high - two.value),
            math.hypot(one.high - one.value, two.value - two.low),
        )
        return Estimate(value, value - low, value + high, n, "order statistics")

    def chance(self, other: "PointValues") -> float:
        """Return the probability of values so far apart if both are alike: Welch's; for medians, that of the ranks.

        For medians it is Mann and Whitney's, or that of Welch's test of the ranks if that is larger (Conover and Iman,
        Am. Stat. 35, 1981): the latter allows for values that follow their neighbours.
        """
        if self.statistic == "mean":
            return difference_p(*self._apart(other), math.hypot(self.own_error, other.own_error))
        if min(len(self.values), len(other.values)) < 2:
            return math.nan
        ranks = scipy.stats.rankdata([*self.values, *other.values]).tolist()
        of_ranks = difference_p(ranks[len(self.values) :], ranks[: len(self.values)])
        return max(of_ranks, float(scipy.stats.mannwhitneyu(self.values, other.values).pvalue))

    def relative_to(self, one: "PointValues") -> Estimate:
        """Return `over`; relative to itself a value is 1 by definition and has no interval."""
        return Estimate(1.0, 1.0, 1.0, len(one.values), "by definition") if self is one else self.over(one)

    @property
    def _limits_hold(self) -> bool:
        """Return whether no value lies outside the limits by more than the error that single trials have."""
        return self.limits[0] <= min(self.values) + self.error and max(self.values) - self.error <= self.limits[1]

    @property
    def own_error(self) -> float:
        """Return the half-width of a 95 % interval that more trials do not narrow."""
        return math.hypot(self.error, self.resolution / 2)

    def _own_error_at(self, confidence: float) -> float:
        return self.own_error * _deviates(confidence) / _deviates(CONFIDENCE)

    def label(self, *but: str) -> str:
        """Return the levels in words, without the factors in `but`: 'queues 4, load 50 %'."""
        return levels_text({name: level for name, level in self.levels.items() if name not in but})


def _deviates(confidence: float) -> float:
    return float(scipy.special.ndtri((1 + confidence) / 2))


def viewed(run: RunFolder, statistic: Statistic = "mean", *, without_flagged: bool = False) -> RunFolder:
    """Return a run whose points are shown by another statistic, or without flagged trials."""
    table = current_table(run)
    flagged = (table["kind"] == "measure") & (table["status"] == "flagged") & _noisy(table)
    shown = table[~flagged] if without_flagged else table.copy(deep=False)
    # A misfit of the accounting flags a trial for some metrics only, so by_point leaves it out.
    shown.attrs.update({STATISTIC: statistic, WITHOUT_FLAGGED: without_flagged})
    other = replace(run)
    other.derived.update({"table stamp": run.derived["table stamp"], "table": shown})
    return other


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are data: measured trials that are not failed (docs/internals/store-format.md).

    Trials in other host states are none where every point was seen often enough in the main one (docs/validity.md).
    """
    return table[_is_data(table) & ~table["other_host_state"]]


def on_any_host_state(table: pd.DataFrame) -> pd.DataFrame:
    """Return the measured trials that are not failed, in any host state."""
    return table[_is_data(table)]


def _is_data(table: pd.DataFrame) -> pd.Series:
    return (table["kind"] == "measure") & table["status"].isin(["ok", "flagged"])


def data_of(table: pd.DataFrame, metric: str, beside: str | None = None) -> pd.DataFrame:
    """Return a metric's data rows: searches if only a search finds the metric, measured trials otherwise."""
    if metric not in SEARCHED:
        return _with_status_for((metric, beside), measured(table))
    return table[(table["kind"] == "maximum") & table["status"].isin(["ok", "flagged"])]


def _with_status_for(metrics: Sequence[str | None], table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows; a trial that is flagged for a misfit of the accounting alone is ok for all other metrics."""
    if not ACCOUNTED.isdisjoint(metrics):
        return table[table["status"] != "flagged"] if table.attrs.get(WITHOUT_FLAGGED) else table
    alone = (table["status"] == "flagged") & ~_noisy(table)
    return table.assign(status=table["status"].mask(alone, "ok")) if alone.any() else table


def _noisy(table: pd.DataFrame) -> pd.Series:
    """Return which trials are flagged for something else than a misfit of the accounting."""
    return table["flags"].str.contains('"noise:', regex=False)


def factors(table: pd.DataFrame) -> list[str]:
    """Return the factors with a level in the table: pair, knobs, then parameters in the spec's order.

    Pairs are different machines: where there are several, their trials are never one sample.
    """
    pairs = [PAIR] if several_pairs(table) else []
    knobs = [
        str(name).removeprefix("factor.") for name in table.columns if str(name).startswith(f"factor.{KNOB_PREFIX}")
    ]
    known = pairs + knobs + [name for name in Parameters.model_fields if f"factor.{name}" in table.columns]
    return [name for name in known if table[f"factor.{name}"].notna().any()]


def several_pairs(table: pd.DataFrame) -> list[str]:
    """Return the pairs of a testbed with several, in the order of measurement; otherwise nothing."""
    column = f"factor.{PAIR}"
    names = list(dict.fromkeys(table[column].dropna())) if column in table.columns else []
    return names if len(names) > 1 else []


def places(table: pd.DataFrame) -> pd.Series:
    """Return each trial's point, with the pair where the testbed has pairs: each pair measures all points."""
    column = f"factor.{PAIR}"
    return f"{PAIR} " + table[column] + ", " + table["point"] if column in table.columns else table["point"]


def unfair_samples(table: pd.DataFrame, metric: str) -> dict[str, str]:
    """Return the places where the trials that have a metric are no fair sample of the point, and why.

    A metric that is absent because its error is too large is absent more often where it is large, or small. The
    undisturbed levels leave trials out on purpose.
    """
    if metric in UNDISTURBED:
        return {}
    lacks = table[f"metric.{metric}"].isna().groupby(places(table)).agg(["sum", "count"])
    some = lacks[(lacks["sum"] > _MOST_ABSENT * lacks["count"]) & (lacks["sum"] < lacks["count"])]
    absent = "the metric is absent in {} of {} trials, and the others are no fair sample"
    return {str(place): f"at {place} {absent.format(lack, count)}" for place, lack, count in some.itertuples()}


def by_point(table: pd.DataFrame, metric: str, beside: str | None = None) -> list[PointValues]:
    """Return one sample per point at which the metric was measured, by levels; do not filter by status.

    With `beside` the samples hold that metric, too, and only trials that have both.
    """
    names = factors(table)
    columns = [f"factor.{name}" for name in names]
    metrics = [f"metric.{name}" for name in (metric, beside) if name is not None]
    # A table has hundreds of columns: select the needed ones before the rows.
    columns_of = [*error_column(table, metric), *_away_column(table, metric)]
    wanted = dict.fromkeys([*columns, *metrics, *columns_of, "host_state", "status", "flags", "run_id", "block"])
    every = _with_status_for((metric, beside), table[list(wanted)])
    statistic: Statistic = table.attrs.get(STATISTIC, "mean")
    found = []
    for levels, rows in every.groupby(columns, sort=True, dropna=False) if names else [((), every)]:
        known = _known_levels(names, levels)
        present = rows.dropna(subset=metrics)
        if not present.empty:
            sample = _sample(known, present, metric, beside)
            found.append(replace(sample, statistic=statistic, absent=len(rows) - len(present)))
    return found


def measured_levels(table: pd.DataFrame, names: Sequence[str]) -> list[dict[str, Level]]:
    """Return the levels of these factors at every point that has a measured trial, whether it failed or not."""
    rows = table.loc[table["kind"] == "measure", [f"factor.{name}" for name in names]].drop_duplicates()
    return [_known_levels(names, row) for row in rows.itertuples(index=False)]


def _known_levels(names: Sequence[str], levels: Iterable[Any]) -> dict[str, Level]:
    there = ((name, level) for name, level in zip(names, levels, strict=True) if level is not None)
    return {name: _plain(level) for name, level in there if not (isinstance(level, float) and math.isnan(level))}


def error_column(table: pd.DataFrame, metric: str) -> list[str]:
    """Return the column with the error of each single trial; empty where the metric has none."""
    return [column for column in (f"metric.{ERRORS.get(metric)}",) if column in table]


def _away_column(table: pd.DataFrame, metric: str) -> list[str]:
    """Return the column with the share of the window that a metric leaves out; empty where it leaves out nothing."""
    return [column for column in ("metric.interrupted_share",) if metric in OF_RUNNING_TIME and column in table]


def _error(rows: pd.DataFrame, metric: str) -> float:
    running = 1 - rows[_away_column(rows, metric)].fillna(0.0).sum(axis="columns")
    errors = [float(error) for column in error_column(rows, metric) for error in (rows[column] / running).dropna()]
    return sum(errors) / len(errors) if errors else 0.0


def _sample(levels: Mapping[str, Level], rows: pd.DataFrame, metric: str, beside: str | None) -> PointValues:
    values = tuple(float(value) for value in rows[f"metric.{metric}"])
    other = () if beside is None else tuple(float(value) for value in rows[f"metric.{beside}"])
    host_states = tuple(str(label) for label in rows["host_state"])
    known, flagged = metric_dictionary()[metric], int((rows["status"] == "flagged").sum())
    resolution = known.resolution(sum(values) / len(values))
    # Blocks of two runs have the same names, and were not measured beside each other.
    blocks = tuple(f"{run} {block}" if block else "" for run, block in zip(rows["run_id"], rows["block"], strict=True))
    error = _error(rows, metric)
    return PointValues(levels, values, error, host_states, other, known.limits, flagged, blocks, resolution)


def _plain(level: object) -> Level:
    value = level.item() if hasattr(level, "item") else level
    if isinstance(value, float) and value.is_integer() and abs(value) > 1:
        return int(value)  # a column of whole numbers that has a hole somewhere is stored as floats
    if not isinstance(value, float | int | str | bool):
        raise TypeError(f"BUG: a level is {value!r}")
    return value


def groups(found: Sequence[PointValues], factor: str) -> Iterator[tuple[str, list[PointValues]]]:
    """Group samples that differ in one factor only: label of the other levels, and samples by rising level."""
    by_rest: dict[str, list[PointValues]] = {}
    for sample in found:
        if factor in sample.levels:
            by_rest.setdefault(sample.label(factor), []).append(sample)
    for label, members in by_rest.items():
        yield label, sorted(members, key=lambda sample: level_rank(sample.levels[factor]))


def level_rank(level: Level) -> tuple[float, str]:
    """Return a sort key: numbers by value, `4 ways` by its number, other text after them."""
    if not isinstance(level, str):
        return float(level), ""
    number, _, _ = level.partition(" ")
    return (float(number), level) if number.isdecimal() else (math.inf, level)


def absence(table: pd.DataFrame, metric: str) -> str:
    """Return the most frequent reason for a metric's absence in these rows."""
    reasons = table[f"absent.{metric}"].dropna()
    if reasons.empty:
        return "there is no trial for it"
    return str(reasons.value_counts().index[0])


_FACTOR_WORDS = {"load_of_max": "load", "load_of_line": "load", "load_of_trace": "load", "load_pps": "load"}


def factor_title(factor: str) -> str:
    """Return a factor as a column title: 'load', 'queues'."""
    return _FACTOR_WORDS.get(factor, factor.removeprefix(KNOB_PREFIX))


def levels_text(levels: Mapping[str, Level]) -> str:
    """Return levels in words: 'testpmd, queues 4, load 50 %'; the name of a program stands alone."""
    titles = {name: "" if name == "program" else f"{factor_title(name)} " for name in levels}
    return ", ".join(f"{titles[name]}{level_text(name, level)}" for name, level in levels.items())
