# SPDX-License-Identifier: BSD-3-Clause
"""Combine all runs of one spec: a mean whose interval counts runs, and the sources of the scatter."""

from collections.abc import Sequence
from dataclasses import dataclass

from pollscope.analysis.history import values_of_runs
from pollscope.base.units import counted, human_number, human_share
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.stats.hierarchy import FEWEST_RUNS, Hierarchy, hierarchy
from pollscope.store.run_folder import RunFolder

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
    lines = [_line(each) for each in found]
    return "\n".join([*lines, COSTS] if any(each.found for each in found) else lines)


def _line(each: Together) -> str:
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
