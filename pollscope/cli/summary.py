# SPDX-License-Identifier: BSD-3-Clause
"""Show the summary of a run that ended: a table of points, failures, and cautions."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

from pollscope.analysis.claims.evaluate import evaluate_run, own_claims, rows_of
from pollscope.analysis.claims.model import claims_of
from pollscope.analysis.claims.verdict import VerdictKind
from pollscope.analysis.findings import value_text
from pollscope.analysis.point_values import PointValues, by_point, factors, measured
from pollscope.analysis.quality import steadiness
from pollscope.analysis.saturation import generator_bound_points
from pollscope.analysis.searches import throughputs
from pollscope.base.units import human_share
from pollscope.metrics.dictionary import shown_metrics
from pollscope.run.execution import RunOutcome
from pollscope.spec.points import level_text
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder, read_run

# More rows would not fit a screen; the report has all.
MOST_ROWS = 60
MOST_REASONS = 5
_PLAIN_WIDTH = 160
# Width of the blanks and the line between two cells.
_AROUND_CELL = 3


def show_summary(outcome: RunOutcome, console: Console | None = None, columns: Sequence[str] = ()) -> None:
    """Print the table (of the metrics in `columns`, or of those that fit), failures and warnings of a run."""
    # Output to a file or a pipe has no width limit.
    screen = console or Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    run = read_run(outcome.folder)
    if outcome.ok + outcome.flagged:
        table = current_table(run)
        unsent = generator_bound_points(table)
        title = str(run.meta["title"]) + (" (modelled, not measured)" if table["modelled"].any() else "")
        _show_table(screen, measured(table), title, columns or _metrics_of(run, bool(unsent)), bool(columns))
        if unsent:
            worst = max(unsent, key=lambda point: unsent[point])
            text = (
                f"the generator left more than 1 % unsent at {len(unsent)} points, at most {human_share(unsent[worst])}"
            )
            screen.print(f"warning: {text} ({worst}): compare offered with received", markup=False, soft_wrap=True)
    for each in throughputs(run):
        line = f"search: {each.label}, loss ratio {human_share(each.loss_ratio, 6)}: {each.text}"
        screen.print(f"{line}; {each.reason}" if each.reason else line, markup=False, soft_wrap=True)
    screen.print(_counts(outcome), markup=False)
    _show_lines(screen, "failed", [f"{trial}: {reason}" for trial, reason in outcome.failures.items()])
    unsteady = steadiness(run, current_table(run)) if outcome.ok + outcome.flagged else []
    _show_lines(screen, "warning", [*outcome.warnings, *unsteady])
    _show_lines(screen, "left out", [f"{each['point']}: {each['reason']}" for each in run.meta["left_out"]])


def _counts(outcome: RunOutcome) -> str:
    if outcome.flagged and not outcome.ok + outcome.failed:
        return f"none failed; all {outcome.flagged} are flagged (noise)"
    return f"{outcome.ok} trials ok, {outcome.flagged} flagged, {outcome.failed} failed"


def _show_lines(screen: Console, word: str, lines: Sequence[str]) -> None:
    for line in lines[:MOST_REASONS]:
        screen.print(f"{word}: {line}", markup=False, soft_wrap=True)
    if len(lines) > MOST_REASONS:
        screen.print(f"{word}: and {len(lines) - MOST_REASONS} more, see run.json", markup=False)


def _metrics_of(run: RunFolder, unsent: bool) -> list[str]:
    """Return the metrics of the table: those that the spec asks for, those of claims, and the usual ones.

    The offered rate is added where the generator could not send what was due.
    """
    rows = rows_of(run)
    claimed = [claim.metric for claim in claims_of(rows)]
    asked = [name for show in run.meta["spec"].get("show", []) for name in show["y"]]
    asked += [claim.metric for claim in own_claims(run)]
    offered = ["offered_pps"] if unsent else []
    return list(dict.fromkeys([*asked, *offered, *claimed, *shown_metrics("summary")]))


def _show_table(screen: Console, data: pd.DataFrame, title: str, wanted: Sequence[str], all_of_them: bool) -> None:
    """Print the points with as many of the wanted metrics as fit on the screen; with all if there is no limit."""
    names = factors(data)
    present = [name for name in wanted if f"metric.{name}" in data.columns and data[f"metric.{name}"].notna().any()]
    per_metric = {name: {_key(sample, names): sample for sample in by_point(data, name)} for name in present}
    keys = list(dict.fromkeys(key for by_key in per_metric.values() for key in by_key))
    columns = {name: [level_text(name, key[place]) for key in keys[:MOST_ROWS]] for place, name in enumerate(names)}
    for name, found in per_metric.items():
        columns[name] = [
            value_text(name, found[key].estimate) if key in found else "absent" for key in keys[:MOST_ROWS]
        ]
    widths = [max(map(len, [name, *cells])) + _AROUND_CELL for name, cells in columns.items()]
    fitting = len(columns)
    while not all_of_them and fitting > len(names) + 1 and 1 + sum(widths[:fitting]) > screen.width:
        fitting -= 1
    shown = dict(list(columns.items())[:fitting])
    table = Table(title=title, caption=_caption(len(keys)))
    for name in shown:
        table.add_column(name, justify="right", no_wrap=not all_of_them, overflow="fold")
    for row in zip(*shown.values(), strict=True):
        table.add_row(*row)
    screen.print(table)
    if left := list(columns)[fitting:]:
        screen.print(f"not shown: {', '.join(left)} (--columns NAME,..., or the report)", markup=False, soft_wrap=True)


def _key(sample: PointValues, names: Sequence[str]) -> tuple[float | int | str | bool, ...]:
    return tuple(sample.levels[name] for name in names)


def _caption(points: int) -> str:
    rest = f"; the first {MOST_ROWS} of {points} points" if points > MOST_ROWS else ""
    ends = "both ends if it reaches a limit of the metric"
    return f"mean ± half of its 95 % interval ({ends}): points of a share, otherwise per cent of the mean{rest}"


def failed_claims(folder: Path) -> list[str]:
    """Return a sentence per claim that does not hold or could not be judged, for a spec with `must: claims`."""
    run = read_run(folder)
    if run.meta["spec"].get("must") != "claims":
        return []
    return [
        f"{verdict.claim.id}: {verdict.kind.value}: {verdict.finding.sentence}"
        for verdict in evaluate_run(run)
        if verdict.kind is not VerdictKind.AGREES
    ]
