# SPDX-License-Identifier: BSD-3-Clause
"""The runs of one spec as a history: where a metric changed its level from run to run, or all runs together.

The interval of a mean over runs counts runs; the scatter between runs and within runs stands beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.point_values import by_point, data_of
from pollscope.analysis.run_differences import differences_of
from pollscope.base.errors import UsageError
from pollscope.base.units import counted, human_number, human_share
from pollscope.metrics.dictionary import metric_dictionary, shown_metrics
from pollscope.stats.change_point import FEWEST_OF_HISTORY, HISTORY_FALSE_ALARM, level_changes
from pollscope.stats.hierarchy import FEWEST_RUNS, Hierarchy, hierarchy
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder


@dataclass(frozen=True)
class LevelChange:
    """A change of level: the first run at the new level, and the medians of both levels, in base units."""

    run_id: str
    before: float
    after: float


@dataclass(frozen=True)
class MetricHistory:
    """Hold a metric at a point over runs by age: the mean of each run in base units, and the changes of its level."""

    metric: str
    point: str
    run_ids: tuple[str, ...]
    values: tuple[float, ...]
    changes: tuple[LevelChange, ...]


def history(runs: Sequence[RunFolder], metrics: Sequence[str] | None = None) -> list[MetricHistory]:
    """Return every metric at every point over the runs, with the changes of its level.

    Args:
        runs: of one spec, on one host and testbed, in any order.
        metrics: names; DEFAULT_METRICS without any.

    Raises:
        UsageError: an unknown metric, runs of different specs, hosts or testbeds, or no run with one of the metrics.
    """
    return [
        _series(metric, label, [(run_id, fmean(values)) for run_id, values in of_runs])
        for metric, label, of_runs in values_of_runs(runs, metrics)
    ]


def values_of_runs(
    runs: Sequence[RunFolder], metrics: Sequence[str] | None = None
) -> list[tuple[str, str, list[tuple[str, tuple[float, ...]]]]]:
    """Return metric, point in words, and the values of each run there, in base units, oldest run first.

    Raises:
        UsageError: as of `history`.
    """
    ordered = sorted(runs, key=lambda run: run.run_id)
    _same_host_state(ordered)
    tables = [(run.run_id, current_table(run)) for run in ordered]
    found = []
    for metric in [metric_dictionary()[name].name for name in metrics or shown_metrics("history")]:
        by_label: dict[str, list[tuple[str, tuple[float, ...]]]] = {}
        for run_id, table in tables:
            for sample in by_point(data_of(table, metric), metric):
                by_label.setdefault(sample.label() or "all", []).append((run_id, sample.values))
        found += [(metric, label, of_runs) for label, of_runs in by_label.items()]
    if not found:
        raise UsageError("no run measured one of these metrics", remedy="choose others with --metric")
    return found


def _same_host_state(runs: Sequence[RunFolder]) -> None:
    known = [(str(run.meta["spec_name"]), HostMetadata(run.meta)) for run in runs]
    every = [(spec, host.processor, host.testbed_name) for spec, host in known]
    for run, own in zip(runs, every, strict=True):
        for what, first, other in zip(("spec", "processor", "testbed"), every[0], own, strict=True):
            if first != other:
                raise UsageError(
                    f"is a run of another {what} than {runs[0].path}: {other}, not {first}",
                    str(run.path),
                    "keep the results of each host in a folder of their own and name it with --results",
                )


def _series(metric: str, label: str, found: Sequence[tuple[str, float]]) -> MetricHistory:
    run_ids, values = tuple(run_id for run_id, _ in found), tuple(value for _, value in found)
    cuts = [0, *level_changes(values), len(values)]
    levels = [median(values[start:end]) for start, end in pairwise(cuts)]
    changes = [LevelChange(run_ids[at], *both) for at, both in zip(cuts[1:-1], pairwise(levels), strict=True)]
    return MetricHistory(metric, label, run_ids, values, tuple(changes))


def history_text(found: Sequence[MetricHistory]) -> str:
    """Return the changes as text, one per line, below the amount of data examined."""
    long = [each for each in found if len(each.values) >= FEWEST_OF_HISTORY]
    lines = [line for each in long for line in _changes(each)]
    most = max(len(each.values) for each in found)
    changes = counted(len(lines), "change")
    runs = "1 run" if most == 1 else f"up to {most} runs"
    said = [f"{len(found)} series (metric and point) over {runs}; {changes} of level."]
    if short := len(found) - len(long):
        said.append(f"{short} of {len(found)} have fewer than {FEWEST_OF_HISTORY} runs, too few to tell a change.")
    if lines:
        said.append(
            f"Without any change about {human_number(HISTORY_FALSE_ALARM * len(long), 2)} of the series would show one."
        )
    return "\n".join([*lines, *said])


def changed_with_it(runs: Sequence[RunFolder], found: Sequence[MetricHistory]) -> list[str]:
    """Return how the run of each change differs from the one before it in spec, host, build and knobs, as text."""
    by_id = {run.run_id: run for run in runs}
    firsts = [(each, {change.run_id for change in each.changes}) for each in found]
    pairs = {pair for each, new in firsts for pair in pairwise(each.run_ids) if pair[1] in new}
    lines = []
    for before, after in sorted(pairs):
        apart = differences_of(by_id[before], by_id[after])
        lines.append(
            f"From run {before} (A) to run {after} (B) {'also changed:' if apart else 'nothing else changed.'}"
        )
        lines += [f"  {line}" for line in apart]
    return lines


def _changes(each: MetricHistory) -> list[str]:
    text = metric_dictionary()[each.metric].text
    lines = []
    for change in each.changes:
        sign = "+" if change.after > change.before else ""
        percent = f" ({sign}{human_share(change.after / change.before - 1)})" if change.before > 0 else ""
        levels = f"{text(change.before)} before, {text(change.after)} from there on{percent}"
        lines.append(f"{each.metric}, {each.point}: changed at run {change.run_id}: {levels}")
    return lines


COSTS = (
    "The recommended trials per run assume that starting a run takes as long as one of its trials. If it takes k times "
    "as long, multiply them by the square root of k."
)


@dataclass(frozen=True)
class Together:
    """Hold a metric at a point over all runs; `found` is None if fewer than two runs have it."""

    metric: str
    point: str
    runs: int
    found: Hierarchy | None


def together(runs: Sequence[RunFolder], metrics: Sequence[str] | None = None) -> list[Together]:
    """Combine every metric at every point over the runs (stats.hierarchy).

    Args:
        runs: runs of one spec, on one host and testbed, in any order.
        metrics: names of metrics; None: those of `history`.

    Raises:
        UsageError: as in `history`.
    """
    return [
        Together(
            metric,
            label,
            len(of_runs),
            hierarchy([values for _, values in of_runs], limits=metric_dictionary()[metric].limits)
            if len(of_runs) >= FEWEST_RUNS
            else None,
        )
        for metric, label, of_runs in values_of_runs(runs, metrics)
    ]


def together_text(found: Sequence[Together]) -> str:
    """Return one line per metric and point."""
    lines = [_together_line(each) for each in found]
    return "\n".join([*lines, COSTS] if any(each.found for each in found) else lines)


def _together_line(each: Together) -> str:
    head = f"{each.metric}, {each.point}:"
    if each.found is None:
        return f"{head} one run has it, and an interval over runs needs two"
    text, mean = metric_dictionary()[each.metric].text, each.found.mean
    said = f"{head} {text(mean.value)} ({text(mean.low)} to {text(mean.high)}) over {each.runs} runs"
    if mean.value == 0:
        return said
    runs, trials = (abs(part / mean.value) for part in (each.found.between_runs, each.found.between_trials))
    if trials != trials:
        together = human_share(runs)
        return f"{said}; one trial per run, so scatter of runs and trials cannot be separated (together {together})"
    said += f"; runs scatter by {human_share(runs)}, trials of a run by {human_share(trials)}"
    best, now = each.found.optimal_trials, human_number(each.found.trials_a_run)
    if best is None:
        return f"{said}: runs do not differ more than trials; {now} trials per run"
    return f"{said}: {counted(best, 'trial')} per run instead of {now} would use the time best"
