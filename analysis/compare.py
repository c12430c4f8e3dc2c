# SPDX-License-Identifier: BSD-3-Clause
"""Two runs, or the levels of one factor, side by side: ratios with intervals, and which differences exceed noise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from pollscope.analysis.ground import UNKNOWN_FOOTING, Footing, footing, labelled_together
from pollscope.analysis.samples import Sample, factors, groups, level_text, measured, samples
from pollscope.analysis.statistics import Estimate, ratio_estimate
from pollscope.errors import UsageError
from pollscope.metrics import metric_dictionary
from pollscope.results_table import current_table
from pollscope.run_folder import RunFolder
from pollscope.spec.model import KNOB_PREFIX

# What is compared when nothing is named: the results, not the description of the set-up.
DEFAULT_METRICS = (
    "tax_share_running",
    "poll_rate_running_hz",
    "rx_pps",
    "tx_pps",
    "loss_share",
    "latency_p50_ns",
    "latency_p99_ns",
    "ipc",
    "iotlb_lookups_per_s",
    "iotlb_misses_per_s",
)

# A knob with more levels is a sweep, which a figure of its own shows better than sides do.
FEW_LEVELS = 3


@dataclass(frozen=True)
class Difference:
    """One metric at one point, on both sides.

    `ratio` is second over first; `relative`: both are shares of their own baselines,
    without a unit. A difference is `beyond_noise` when its interval leaves out 1. `footing` tells whether both sides
    stand on the same ground.
    """

    metric: str
    point: str
    first_name: str
    second_name: str
    first: Estimate
    second: Estimate
    ratio: Estimate
    relative: bool = False
    footing: Footing = UNKNOWN_FOOTING

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval of the ratio leaves out 1."""
        return self.ratio.has_interval and not self.ratio.low <= 1 <= self.ratio.high


def compare_runs(first: RunFolder, second: RunFolder, metrics: Sequence[str] | None) -> list[Difference]:
    """Differences at the points that both runs have.

    Raises:
        UsageError: an unknown metric, or no common point with a common metric.
    """
    runs = (first, second)
    labelled, unknown = labelled_together(runs, [current_table(run) for run in runs])
    tables = [measured(table) for table in labelled]
    names = ("first", "second") if first.run_id == second.run_id else (first.run_id, second.run_id)
    found = []
    for metric in _chosen(metrics):
        left, right = ({sample.label(): sample for sample in samples(table, metric)} for table in tables)
        found += [_difference(metric, label, names, left[label], right[label]) for label in left if label in right]
    if unknown:
        found = [replace(each, footing=Footing(None, unknown)) for each in found]
    return _not_empty(found, "the runs have no point with a common metric")


def compare_levels(run: RunFolder, factor: str, metrics: Sequence[str] | None) -> list[Difference]:
    """Differences between the first level of a factor and each other level, all other factors equal.

    Raises:
        UsageError: an unknown metric, or a factor that the run did not sweep.
    """
    table = measured(current_table(run))
    factor = _swept(factor, factors(table), run)
    return _not_empty(_of_levels(table, factor, metrics), f"no metric was measured at two levels of {factor}")


def compare_knobs(run: RunFolder) -> dict[str, list[Difference]]:
    """Knob -> differences between its levels, of the knobs that the run turned to a few: DDIO on and off."""
    table = measured(current_table(run))
    knobs = [name for name in factors(table) if name.startswith(KNOB_PREFIX)]
    few = [name for name in knobs if 1 < table[f"factor.{name}"].nunique() <= FEW_LEVELS]
    found = {name.removeprefix(KNOB_PREFIX): _of_levels(table, name, None) for name in few}
    return {name: differences for name, differences in found.items() if differences}


def _of_levels(table: pd.DataFrame, factor: str, metrics: Sequence[str] | None) -> list[Difference]:
    return [each for metric in _chosen(metrics) for each in _levels(samples(table, metric), factor, metric)]


def _swept(name: str, swept: Sequence[str], run: RunFolder) -> str:
    """The factor of a name; a knob may be named without its prefix."""
    for factor in (name, f"{KNOB_PREFIX}{name}"):
        if factor in swept:
            return factor
    raise UsageError(f"'{name}' is no factor of this run", str(run.path), f"its factors: {', '.join(swept) or 'none'}")


def compare_pairs(run: RunFolder, metrics: Sequence[str] | None) -> list[Difference]:
    """Differences between the first pair of a run and each other, every trial as a ratio to its pair's own baseline.

    A trial is divided by the last baseline before it on the same pair, so the baseline's own noise is in the interval.

    Raises:
        UsageError: the run had one pair, or no baseline.
    """
    table = current_table(run)
    if "factor.pair" not in table.columns:
        raise UsageError("this run had no several pairs", str(run.path), "a testbed of kind pairs")
    pairs = list(dict.fromkeys(table["factor.pair"].dropna()))
    if not (table["kind"] == "baseline").any():
        raise UsageError("pairs are compared with their own baselines; this run has none", str(run.path), "baseline")
    found = []
    for metric in _chosen(metrics):
        sides = [{each.label(): each for each in samples(_relative(table, pair, metric), metric)} for pair in pairs]
        for pair, other in zip(pairs[1:], sides[1:], strict=True):
            names = f"pair {pairs[0]}", f"pair {pair}"
            both = [label for label in sides[0] if label in other]
            found += [replace(_difference(metric, at, names, sides[0][at], other[at]), relative=True) for at in both]
    return _not_empty(found, "no metric was measured on two pairs and in their baselines")


def _relative(table: pd.DataFrame, pair: str, metric: str) -> pd.DataFrame:
    """The measured trials of a pair, a metric of each divided by that of the last baseline before it."""
    own = table[table["factor.pair"] == pair]
    column = f"metric.{metric}"
    baseline = own[column].where((own["kind"] == "baseline") & own["status"].isin(["ok", "flagged"])).ffill()
    return measured(own.assign(**{column: own[column] / baseline.where(baseline != 0)}))


def _levels(found: Sequence[Sample], factor: str, metric: str) -> Iterator[Difference]:
    for label, members in groups(found, factor):
        first, *others = members
        for other in others:
            word = factor.removeprefix(KNOB_PREFIX)
            names = tuple(f"{word} {level_text(factor, sample.levels[factor])}" for sample in (first, other))
            yield _difference(metric, label, (names[0], names[1]), first, other)


def _chosen(metrics: Sequence[str] | None) -> list[str]:
    return [metric_dictionary()[name].name for name in metrics or DEFAULT_METRICS]


def _not_empty(found: list[Difference], complaint: str) -> list[Difference]:
    if not found:
        raise UsageError(complaint, remedy="choose others with --metric")
    return found


def _difference(metric: str, point: str, names: tuple[str, str], first: Sample, second: Sample) -> Difference:
    ratio = ratio_estimate(second.values, first.values)
    stand = footing([(names[0], first.grounds), (names[1], second.grounds)])
    return Difference(metric, point or "all", *names, first.estimate, second.estimate, ratio, footing=stand)


def comparison_text(differences: Sequence[Difference]) -> str:
    """The comparison as aligned text, one line per metric and point, marked where it exceeds noise."""
    rows: list[tuple[str, ...]] = [("metric", "point", "first", "second", "ratio (95 % interval)", "")]
    rows += [_row(each) for each in differences]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip() for row in rows
    ]
    count = sum(each.beyond_noise for each in differences)
    return "\n".join(
        [*lines, f"{count} of {len(differences)} differences exceed noise (marked *).", *_ground(differences)]
    )


def _ground(differences: Sequence[Difference]) -> list[str]:
    """What is to be said of the ground under the sides."""
    apart = [each for each in differences if each.footing.same is False]
    unknown = [each for each in differences if each.footing.same is None]
    pooled = [each for each in differences if each.footing.same and each.footing.text]
    lines = []
    if pooled:
        lines.append(
            f"{len(pooled)} of {len(differences)} pool trials over several grounds, alike on both sides; the first, "
            f"{pooled[0].metric}: {pooled[0].footing.text}."
        )
    if apart:
        lines.append(
            f"{len(apart)} of {len(differences)} compare trials on different ground (marked !), which alone can make a "
            f"difference; the first, {apart[0].metric}: {apart[0].footing.text}."
        )
    if unknown:
        whether = "Whether both sides stand on the same ground is not known"
        of = "" if len(unknown) == len(differences) else f" of {len(unknown)} differences"
        lines.append(f"{whether}{of}: {unknown[0].footing.text}.")
    return lines


def _row(each: Difference) -> tuple[str, ...]:
    metric = metric_dictionary()[each.metric]
    show = (lambda value: f"{value:.4g} of its baseline") if each.relative else metric.text
    first = f"{each.first_name}: {show(each.first.value)}"
    second = f"{each.second_name}: {show(each.second.value)}"
    return each.metric, each.point, first, second, _ratio_text(each.ratio), _marks(each)


def _marks(each: Difference) -> str:
    return ("*" if each.beyond_noise else "") + ("!" if each.footing.same is False else "")


def _ratio_text(ratio: Estimate) -> str:
    if ratio.value != ratio.value:
        return "no ratio: the first is zero"
    if not ratio.has_interval:
        return f"{ratio.value:.4g} (too few trials for an interval)"
    return f"{ratio.value:.4g} ({ratio.low:.4g} to {ratio.high:.4g})"
