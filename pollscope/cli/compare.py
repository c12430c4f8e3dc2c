# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope compare`."""

from pathlib import Path
from typing import Annotated

import typer

from pollscope.analysis.compare import (
    Difference,
    compare_levels,
    compare_pairs,
    compare_runs,
    comparison_text,
    missing_in_second,
)
from pollscope.analysis.figures import save_comparison
from pollscope.analysis.gate import Condition, Judged, condition, judge, judge_levels
from pollscope.analysis.point_values import viewed
from pollscope.analysis.run_differences import differences_of
from pollscope.base.errors import UsageError
from pollscope.cli.gate import code_of
from pollscope.cli.outputs import figure_out
from pollscope.cli.words import FailIf, MetricNames, StatName, WithoutFlagged, echo, say_unfinished
from pollscope.store.find import find_run
from pollscope.store.run_folder import RunFolder, read_run

# Most file systems take 255 bytes, of which some are for the ending.
_LONGEST_NAME = 240


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="A B | RUN", help="Two run folders, or one with --by; names of specs, or `latest`."),
    ],
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="FACTOR", help="Compare the levels of this factor or knob, or the pairs."),
    ] = None,
    metrics: MetricNames = None,
    stat: StatName = "mean",
    without_flagged: WithoutFlagged = False,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR|FILE", help="Folder for the figure, or one file such as x.pdf.")
    ] = Path("figures"),
    fail_if: FailIf = None,
) -> None:
    """Compare two runs, or the levels of a factor, side by side with 95 % intervals.

    A difference counts if it is significant among all differences compared (false discovery rate 5 %); the intervals
    are not corrected. The figure is written as SVG, PDF and PNG, and the paths follow. With --fail-if the conditions
    come last. The command ends with 1 if one of them holds at any point, else with 4 if at some point the intervals are
    too wide to see such a change, else with 0.
    """
    if len(runs) != (2 if by is None else 1):
        raise UsageError("give two run folders, or one run folder with --by FACTOR", remedy="pollscope compare --help")
    conditions = [condition(text) for text in fail_if or []]
    target = figure_out(out)
    folders = [viewed(run, stat, without_flagged=without_flagged) for run in _compared(runs)]
    say_unfinished(folders)
    differences = _differences(folders, by, metrics)
    judged = _judged(conditions, folders, by)
    _show(folders, differences)
    title, name = _names([folder.run_id for folder in folders], by, metrics or [])
    echo(save_comparison(differences, folders, title, target.called(name)))
    if code := code_of(judged):
        raise typer.Exit(code)


def _compared(runs: list[str]) -> list[RunFolder]:
    places = [find_run(word) for word in runs]
    if len({place.resolve() for place in places}) < len(places):
        raise UsageError("is both sides", str(places[0]), "give two runs, or --by FACTOR to compare levels inside one")
    return [read_run(place) for place in places]


def _differences(folders: list[RunFolder], by: str | None, metrics: list[str] | None) -> list[Difference]:
    if by is None:
        return compare_runs(folders[0], folders[1], metrics)
    return compare_pairs(folders[0], metrics) if by == "pair" else compare_levels(folders[0], by, metrics)


def _judged(conditions: list[Condition], folders: list[RunFolder], by: str | None) -> list[Judged]:
    """Judge each condition by a comparison of its own metrics only, whether they are shown or not."""
    metrics = list(dict.fromkeys(each.metric for each in conditions))
    if not metrics:
        return []
    if by is not None and by != "pair":
        return judge_levels(folders[0], by, conditions)
    missing = missing_in_second(folders[0], folders[1], metrics) if by is None else []
    return judge(conditions, _differences(folders, by, metrics), missing)


def _show(folders: list[RunFolder], differences: list[Difference]) -> None:
    echo(_sides(folders))
    typer.echo(comparison_text(differences))


def _sides(runs: list[RunFolder]) -> list[str]:
    """Return which run is A, which is B, and what differs between them besides the results; nothing for one run."""
    if len(runs) == 1:
        return [f"{runs[0].path} (modelled, not measured)", ""] if runs[0].modelled else []
    apart = differences_of(*runs)
    heads = [f"{letter}: {run.path}" for letter, run in zip("AB", runs, strict=True)]
    modelled = [letter for letter, run in zip("AB", runs, strict=True) if run.modelled]
    if modelled:
        ratios = ": ratios show the model's error, unless costs were fitted to it" if len(modelled) == 1 else ""
        heads.append(f"{' and '.join(modelled)}: MODELLED, computed by a simulation, not measured{ratios}")
    if not apart:
        return [*heads, "Spec, host, build and knobs are the same.", ""]
    return [*heads, "What differs between them:", *(f"  {line}" for line in apart), ""]


def _names(runs: list[str], by: str | None, metrics: list[str]) -> tuple[str, str]:
    """Return the title of the figure and the name of its files, in which the metrics are those that were asked for."""
    title = f"B, run {runs[1]}, against A, run {runs[0]}" if by is None else f"Levels of {by}, all else equal"
    return title, "-".join(["compare", *([] if by is None else [by]), *runs, *metrics])[:_LONGEST_NAME]
