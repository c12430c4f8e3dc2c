# SPDX-License-Identifier: BSD-3-Clause
"""Compare two runs, or the levels of one factor: ratios with intervals, and the differences that exceed noise."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import pandas as pd
import scipy  # scipy.stats is loaded when it is first needed: that takes a second

from pollscope.analysis.host_state import UNKNOWN_FOOTING, Footing, footing, labelled_together
from pollscope.analysis.point_values import (
    PointValues,
    by_point,
    error_column,
    factors,
    groups,
    measured,
    measured_levels,
)
from pollscope.base.errors import UsageError
from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.base.units import counted, human_number, human_share
from pollscope.metrics.dictionary import metric_dictionary, shown_metrics
from pollscope.spec.points import level_text
from pollscope.stats.estimates import CONFIDENCE, NO_INTERVAL, RESOLUTION, Estimate
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

_RUN_NAMES = ("run A", "run B")
# Column of the number of a trial's baseline.
_BASELINE = "baseline"

# A knob with more levels is a sweep, which a figure shows better than a comparison of sides.
_FEW_LEVELS = 3
# Expected share of chance findings among the differences that are reported to exceed noise.
_FALSE_DISCOVERIES = 1 - CONFIDENCE


@dataclass(frozen=True)
class Difference:
    """Hold one metric at one point, on both sides.

    `p` is the probability of means so far apart if they are equal (`PointValues.chance`), NaN with fewer than two
    trials on a side; for means it is below 5 % exactly if the interval of `change` excludes 0. `adjusted` is the same
    among all differences of the comparison (Benjamini & Hochberg 1995). With `relative`, both sides are shares of their
    baselines.
    """

    metric: str
    point: str
    first_name: str
    second_name: str
    first: Estimate
    second: Estimate
    change: Estimate
    ratio: Estimate
    p: float
    adjusted: float = math.nan
    relative: bool = False
    footing: Footing = UNKNOWN_FOOTING
    flagged: tuple[int, int] = (0, 0)
    samples: tuple[PointValues, ...] = ()

    def ratio_at(self, confidence: float) -> Estimate:
        first, second = self.samples
        return second.over(first, confidence)

    @property
    def is_constant(self) -> bool:
        """Return whether both sides are one and the same number in every trial, so that no comparison is needed."""
        return len({value for sample in self.samples for value in sample.values}) == 1

    @property
    def beyond_noise(self) -> bool:
        return self.adjusted <= _FALSE_DISCOVERIES

    @property
    def is_fair(self) -> bool:
        """Return whether the trials that have the metric stand for their points, on both sides."""
        return all(sample.is_fair for sample in self.samples)


@dataclass(frozen=True)
class Missing:
    """Hold a point at which only the first side has a metric, and why it is not compared."""

    metric: str
    point: str
    reason: str


def compare_runs(first: RunFolder, second: RunFolder, metrics: Sequence[str] | None) -> list[Difference]:
    """Return the differences at the points that both runs have.

    Raises:
        UsageError: an unknown metric, or no common point with a common metric.
    """
    runs, names = (first, second), _RUN_NAMES
    found, unknown = [], ""
    for metric, (left, right), why in _by_metric(runs, metrics):
        found += [_difference(metric, label, names, left[label], right[label]) for label in left if label in right]
        unknown = why
    if unknown:
        found = [replace(each, footing=Footing(None, unknown)) for each in found]
    swept = [", ".join(factors(current_table(run))) or "nothing" for run in runs]
    unlike = f": A swept {swept[0]}, B {swept[1]}" if swept[0] != swept[1] else ""
    remedy = "give runs of one spec, or choose others with --metric"
    return _moving(found, metrics, f"the runs have no point with a common metric{unlike}", remedy)


def missing_in_second(first: RunFolder, second: RunFolder, metrics: Sequence[str]) -> list[Missing]:
    """Return metric and point wherever only the first run has a value."""
    found = []
    for metric, (left, right), _ in _by_metric((first, second), metrics):
        reason = f"{_RUN_NAMES[1]} has no {metric} there"
        found += [Missing(metric, label or "all", reason) for label in left if label not in right]
    return found


def missing_levels(run: RunFolder, factor: str, metrics: Sequence[str]) -> list[Missing]:
    """Where a metric has no value at a level that was measured, failed trials included, by metric and point."""
    table = current_table(run)
    factor = _swept(factor, factors(table), run)
    data = measured(table)
    word = factor.removeprefix(KNOB_PREFIX)
    every = [PointValues(levels, ()) for levels in measured_levels(table, factors(data))]
    found = []
    for metric in metrics:
        there = by_point(data, metric)
        known = {sample.label() for sample in there}
        for group in dict.fromkeys(sample.label(factor) for sample in there if factor in sample.levels):
            found += [
                Missing(metric, group or "all", f"{word} {level_text(factor, each.levels[factor])} has no {metric}")
                for each in every
                if factor in each.levels and each.label(factor) == group and each.label() not in known
            ]
    return found


def _by_metric(
    runs: tuple[RunFolder, RunFolder], metrics: Sequence[str] | None
) -> Iterator[tuple[str, list[dict[str, PointValues]], str]]:
    """Yield each metric with its samples of both runs by label, and why their host states cannot be compared."""
    labelled, unknown = labelled_together(runs, [current_table(run) for run in runs])
    tables = [measured(table) for table in labelled]
    # A factor with the same level everywhere carries no information; a level that only one run has identifies that run.
    constant = _constants(tables)
    for metric in _chosen(metrics):
        yield metric, [{each.label(*constant): each for each in by_point(table, metric)} for table in tables], unknown


def _constants(tables: Sequence[pd.DataFrame]) -> list[str]:
    names = dict.fromkeys(name for table in tables for name in factors(table))
    columns = {name: [table[f"factor.{name}"] for table in tables if f"factor.{name}" in table] for name in names}
    return [name for name, found in columns.items() if pd.concat(found).dropna().nunique() == 1]


def compare_levels(run: RunFolder, factor: str, metrics: Sequence[str] | None) -> list[Difference]:
    """Return the differences between the first level of a factor and each other, with equal other factors.

    The spec says which level is the first: names such as `old` and `new` have no other order.

    Raises:
        UsageError: an unknown metric, or a factor that the run did not sweep.
    """
    table = measured(current_table(run))
    factor = _swept(factor, factors(table), run)
    order = run.meta.get("spec", {}).get("factors", {}).get(factor, [])
    return _moving(
        _of_levels(table, factor, metrics, order), metrics, f"no metric was measured at two levels of {factor}"
    )


def compare_knobs(run: RunFolder) -> dict[str, list[Difference]]:
    """Return the differences between the levels of each knob that the run set to a few, such as DDIO on and off."""
    table = measured(current_table(run))
    knobs = [name for name in factors(table) if name.startswith(KNOB_PREFIX)]
    few = [name for name in knobs if 1 < table[f"factor.{name}"].nunique() <= _FEW_LEVELS]
    found = {name.removeprefix(KNOB_PREFIX): _adjusted(_of_levels(table, name, None)) for name in few}
    return {name: differences for name, differences in found.items() if differences}


def _of_levels(
    table: pd.DataFrame, factor: str, metrics: Sequence[str] | None, order: Sequence[object] = ()
) -> list[Difference]:
    return [each for metric in _chosen(metrics) for each in _levels(by_point(table, metric), factor, metric, order)]


def _swept(name: str, swept: Sequence[str], run: RunFolder) -> str:
    """Return the factor of a name; a knob may be named without its prefix."""
    for factor in (name, f"{KNOB_PREFIX}{name}"):
        if factor in swept:
            return factor
    raise UsageError(f"the run has no factor '{name}'", str(run.path), f"its factors: {', '.join(swept) or 'none'}")


def compare_pairs(run: RunFolder, metrics: Sequence[str] | None) -> list[Difference]:
    """Compare the first pair of a run with each other pair; trials are ratios to their own pair's baseline.

    A trial is divided by the last baseline before it on the same pair. The interval holds the noise of baselines, also
    the part that trials with the same baseline share.

    Raises:
        UsageError: the run had one pair, or no baseline.
    """
    table = current_table(run)
    if "factor.pair" not in table.columns:
        raise UsageError("this run had only one pair", str(run.path), "a testbed of kind pairs")
    pairs = list(dict.fromkeys(table["factor.pair"].dropna()))
    if not (table["kind"] == "baseline").any():
        raise UsageError("pairs are compared with their own baselines; this run has none", str(run.path), "baseline")
    found = []
    for metric in _chosen(metrics):
        sides = [{each.label(): each for each in _shares_of_baseline(table, pair, metric)} for pair in pairs]
        for pair, other in zip(pairs[1:], sides[1:], strict=True):
            names = f"pair {pairs[0]}", f"pair {pair}"
            both = [label for label in sides[0] if label in other]
            found += [replace(_difference(metric, at, names, sides[0][at], other[at]), relative=True) for at in both]
    return _moving(found, metrics, "no metric was measured on two pairs and in their baselines")


def _shares_of_baseline(table: pd.DataFrame, pair: str, metric: str) -> list[PointValues]:
    """Return the samples of a pair as ratios to its baselines; a metric's limits do not apply to ratios."""
    shares, half = _relative(table, pair, metric)
    return [
        replace(
            each,
            beside=(),
            error=math.hypot(each.error, _shared_error(each, half)),
            limits=(each.limits[0], math.inf),
            resolution=RESOLUTION,
        )
        for each in by_point(shares, metric, _BASELINE)
    ]


def _shared_error(each: PointValues, half: float) -> float:
    """Return the error of baselines that the spread of the trials does not show, because they have some in common.

    With k trials of n at a baseline, baselines add the share sum (k / n)^2 of their variance to that of the mean, and
    the spread of the trials holds (1 - that) / (n - 1).

    Args:
        each: shares of baselines, beside the numbers of their baselines.
        half: half-width of the 95 % interval of a single baseline, as a share of it.
    """
    n = len(each.values)
    together = sum((trials / n) ** 2 for trials in Counter(each.beside).values())
    hidden = together - (1 - together) / max(1, n - 1)
    return half * math.sqrt(hidden) * abs(fmean(each.values)) if hidden > 1e-9 else 0.0


def _relative(table: pd.DataFrame, pair: str, metric: str) -> tuple[pd.DataFrame, float]:
    """Return the measured trials of a pair, and the half-width of the 95 % interval of one of its baselines.

    A metric and its own error are each divided by the metric in the last baseline, whose number stands beside them.
    """
    own = table[table["factor.pair"] == pair]
    column = f"metric.{metric}"
    known = own[column].where((own["kind"] == "baseline") & own["status"].isin(["ok", "flagged"]))
    baseline, values = known.ffill(), known.dropna()
    shares = {name: own[name] / baseline.where(baseline != 0) for name in (column, *error_column(own, metric))}
    shares[f"metric.{_BASELINE}"] = known.notna().cumsum()
    half = math.inf
    if len(values) > 1:
        t = float(scipy.special.stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
        half = t * float(values.std()) / abs(float(values.mean())) if values.mean() else math.inf
    others = own.drop(columns=[name for name in shares if name in own])
    return measured(pd.concat([others, pd.DataFrame(shares)], axis=1)), half


def _levels(found: Sequence[PointValues], factor: str, metric: str, order: Sequence[object]) -> Iterator[Difference]:
    def place(sample: PointValues) -> int:
        # A level may be a float where the spec has a whole number, and a word where it has a number.
        level = sample.levels[factor]
        return next((at for at, known in enumerate(order) if level in (known, str(known))), len(order))

    for label, members in groups(found, factor):
        first, *others = sorted(members, key=place)
        for other in others:
            word = factor.removeprefix(KNOB_PREFIX)
            names = tuple(f"{word} {level_text(factor, sample.levels[factor])}" for sample in (first, other))
            yield _difference(metric, label, (names[0], names[1]), first, other)


def _chosen(metrics: Sequence[str] | None) -> list[str]:
    return [metric_dictionary()[name].name for name in metrics or shown_metrics("comparison")]


def _moving(
    found: list[Difference], metrics: Sequence[str] | None, complaint: str, remedy: str = "choose others with --metric"
) -> list[Difference]:
    """Return the adjusted differences; leave constants out unless their metric was asked for.

    Raises:
        UsageError: there is none.
    """
    if not found:
        raise UsageError(complaint, remedy=remedy)
    moving = [each for each in found if metrics or not each.is_constant]
    return _adjusted(moving or found)


def _adjusted(found: Sequence[Difference]) -> list[Difference]:
    """Adjust the significance of the differences for their number: of many, some are large by chance."""
    known = [each for each in found if not math.isnan(each.p) and each.is_fair]
    values = scipy.stats.false_discovery_control([each.p for each in known]) if known else []
    adjusted = {id(each): float(value) for each, value in zip(known, values, strict=True)}
    return [replace(each, adjusted=adjusted.get(id(each), math.nan)) for each in found]


def _difference(metric: str, point: str, names: tuple[str, str], first: PointValues, second: PointValues) -> Difference:
    stand = footing([(names[0], first.host_states), (names[1], second.host_states)])
    return Difference(
        metric,
        point or "all",
        *names,
        first.estimate,
        second.estimate,
        second.minus(first),
        second.over(first),
        second.chance(first),
        footing=stand,
        flagged=(first.flagged, second.flagged),
        samples=(first, second),
    )


def comparison_text(differences: Sequence[Difference]) -> str:
    """Return the comparison as aligned text, one line per metric and point, marked where it exceeds noise."""
    rows: list[tuple[str, ...]] = [("metric", "point", "first", "second", "difference (95 % interval)", "ratio", "")]
    rows += [_row(each) for each in differences]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip() for row in rows
    ]
    if any(each.ratio.within_blocks for each in differences):
        lines.append("Ratios are geometric means within blocks, so the ratio of the two means may differ.")
    return "\n".join(
        [*lines, *verdict_lines(differences), *_flagged(differences), *_unfair(differences), *_host_state(differences)]
    )


def verdict_lines(differences: Sequence[Difference], marked_by: str = "marked *") -> list[str]:
    """Return how many differences exceed noise, of which family, and how many would without a correction."""
    tested = [each for each in differences if not math.isnan(each.p) and each.is_fair]
    marked = sum(each.beyond_noise for each in differences)
    share = human_share(_FALSE_DISCOVERIES)
    medians = any(sample.statistic == "median" for each in differences for sample in each.samples)
    test = "medians, by their ranks (Mann-Whitney, or Welch)" if medians else "Welch's t test"
    lines = [
        f"{marked} of {counted(len(differences), 'difference')} exceed{'s' if marked == 1 else ''} noise "
        f"({marked_by}): {test}, corrected for the {len(tested)} tested differences of this comparison (false "
        f"discovery rate {share})."
    ]
    if len(tested) > 1:
        alone = sum(each.p < _FALSE_DISCOVERIES for each in tested)
        lines.append(
            f"Without the correction, {alone} of {len(tested)} would: their intervals exclude 0. Chance alone gives "
            f"about {human_number(_FALSE_DISCOVERIES * len(tested))}."
        )
    if len(tested) < len(differences):
        lines.append(
            f"{len(differences) - len(tested)} could not be tested: a side has one trial, or too many lack the metric."
        )
    return lines


def _flagged(differences: Sequence[Difference]) -> list[str]:
    metric = differences[0].metric if differences else ""
    if not any(sum(each.flagged) for each in differences):
        return []
    # The first level is compared with every other one: its trials count once.
    own = {
        (each.point, name): (flagged, of.n)
        for each in differences
        if each.metric == metric
        for name, flagged, of in zip(
            (each.first_name, each.second_name), each.flagged, (each.first, each.second), strict=True
        )
    }
    disturbed, trials = (sum(counts) for counts in zip(*own.values(), strict=True))
    return [f"{disturbed} of {trials} trials ({metric}) are flagged."]


def difference_rows(differences: Sequence[Difference]) -> list[dict[str, object]]:
    """Return the comparison as rows of a table, in base units; unknown values are empty."""
    return [
        {"metric": each.metric, "unit": metric_dictionary()[each.metric].unit, "point": each.point}
        | _side("first", each.first_name, each.first)
        | _side("second", each.second_name, each.second)
        | _side("difference", "", each.change)
        | _side("ratio", "", each.ratio)
        | {"p_adjusted": each.adjusted, "beyond_noise": each.beyond_noise}
        for each in differences
    ]


def _side(side: str, name: str, estimate: Estimate) -> dict[str, object]:
    low, high = (end if estimate.has_interval else None for end in (estimate.low, estimate.high))
    named = {side: name} if name else {}
    return {**named, f"{side}_value": estimate.value, f"{side}_low": low, f"{side}_high": high, f"{side}_n": estimate.n}


def _unfair(differences: Sequence[Difference]) -> list[str]:
    found = [each for each in differences if not each.is_fair]
    if not found:
        return []
    worst = max(found[0].samples, key=lambda sample: sample.absent / len(sample.values))
    lacks = f"{worst.absent} of {worst.absent + len(worst.values)} trials"
    first = f"the first, {found[0].metric} at {found[0].point}: absent in {lacks}"
    return [f"{len(found)} of {len(differences)} rest on trials that are no fair sample (marked ?); {first}."]


def _host_state(differences: Sequence[Difference]) -> list[str]:
    apart = [each for each in differences if each.footing.same is False]
    unknown = [each for each in differences if each.footing.same is None]
    pooled = [each for each in differences if each.footing.same and each.footing.text]
    lines = []
    if pooled:
        lines.append(
            f"{len(pooled)} of {len(differences)} pool trials over several host states, alike on both sides; the "
            f"first, {pooled[0].metric}: {pooled[0].footing.text}."
        )
    if apart:
        lines.append(
            f"{len(apart)} of {len(differences)} compare trials in different host states (marked !), which alone can "
            f"make a difference; the first, {apart[0].metric}: {apart[0].footing.text}."
        )
    if unknown:
        whether = "Whether both sides were measured in the same host state is not known"
        of = "" if len(unknown) == len(differences) else f" of {len(unknown)} differences"
        lines.append(f"{whether}{of}: {unknown[0].footing.text}.")
    return lines


def _row(each: Difference) -> tuple[str, ...]:
    metric = metric_dictionary()[each.metric]
    show = (lambda value: f"{human_number(value, 4)} of its baseline") if each.relative else metric.text
    first = f"{each.first_name}: {show(each.first.value)}"
    second = f"{each.second_name}: {show(each.second.value)}"
    ratio = "none: the first is 0" if math.isnan(each.ratio.value) else human_number(each.ratio.value, 4)
    signs = {"*": each.beyond_noise, "!": each.footing.same is False, "?": not each.is_fair}
    marks = "".join(sign for sign, applies in signs.items() if applies)
    return each.metric, each.point, first, second, change_text(each), ratio, marks


def change_text(each: Difference, *, interval: bool = True) -> str:
    """Return the difference, with its interval or alone: `+1.2 Mpps (0.9 to 1.5 Mpps)`, `-3 points` of a share."""
    metric = metric_dictionary()[each.metric]

    def text(value: float) -> str:
        if each.relative or metric.unit == "share":
            return f"{human_number(100 * value)} points"
        return metric.text(value, each.change.value)

    change = each.change
    sign = "+" if change.value > 0 else ""
    if not interval:
        return f"{sign}{text(change.value)}"
    if not change.has_interval:
        return f"{sign}{text(change.value)} ({NO_INTERVAL})"
    return f"{sign}{text(change.value)} ({text(change.low)} to {text(change.high)})"
