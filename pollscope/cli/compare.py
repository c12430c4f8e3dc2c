# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pollscope.base.errors import ExitCode, UsageError
from pollscope.cli.words import MetricNames

if TYPE_CHECKING:
    from pollscope.analysis.compare import Difference
    from pollscope.store.run_folder import RunFolder

EXAMPLES = (
    "pollscope compare results/s-f8-poll-rate/20261120T162617Z-1a2b3c latest",
    "pollscope compare latest --by queues --metric tax_share",
    "pollscope compare i-iommu --by iommu --out iommu.pdf",
    "pollscope compare results/s-f13/A results/s-f13/B --fail-if 'rx_pps < -2 %'",
)


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
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR|FILE", help="Where the figure goes; x.pdf is this one file.")
    ] = Path("figures"),
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if",
            metavar="'METRIC < NUMBER %'",
            help="End with 1 where the change from the first to the second is below (<) or above (>) the bound, by its "
            "whole interval; may be given again.",
        ),
    ] = None,
) -> None:
    """Puts two runs, or the levels of a factor, side by side with 95 % intervals.

    A difference counts when it stands out among all that are compared (false discovery rate 5 %); each interval stands
    for itself. The same is drawn as SVG, PDF and PNG; the files' paths follow. With --fail-if the conditions come last:
    one that holds at any point ends the command with 1, one that can be told at no point with 2.
    """
    from pollscope.analysis.compare import comparison_text, missing_in_second
    from pollscope.analysis.figures import save_comparison
    from pollscope.analysis.gate import condition, judge
    from pollscope.cli.outputs import figure_out
    from pollscope.store.find import find_run
    from pollscope.store.run_folder import read_run

    if len(runs) != (2 if by is None else 1):
        raise UsageError("give two run folders, or one run folder with --by FACTOR", remedy="pollscope compare --help")
    conditions = [condition(text) for text in fail_if or []]
    target = figure_out(out)
    places = [find_run(word) for word in runs]
    if by is None and places[0].resolve() == places[1].resolve():
        raise UsageError("is both sides", str(places[0]), "give two runs, or --by FACTOR to compare levels inside one")
    folders = [read_run(place) for place in places]
    lines = _differences(folders, by, metrics)
    wanted = list(dict.fromkeys(each.metric for each in conditions))
    missing = missing_in_second(folders[0], folders[1], wanted) if by is None else []
    judged = judge(conditions, _differences(folders, by, wanted), missing) if wanted else []
    for line in _sides(folders):
        typer.echo(line)
    typer.echo(comparison_text(lines))
    title, name = _names([folder.run_id for folder in folders], by)
    for path in save_comparison(lines, folders, title, target.target(name)):
        typer.echo(path)
    for verdict in judged:
        for line in verdict.lines():
            typer.echo(line)
    if any(verdict.holds for verdict in judged):
        raise typer.Exit(ExitCode.TRIALS_FAILED)


def _differences(folders: "list[RunFolder]", by: str | None, metrics: list[str] | None) -> "list[Difference]":
    from pollscope.analysis.compare import compare_levels, compare_pairs, compare_runs

    if by is None:
        return compare_runs(folders[0], folders[1], metrics)
    return compare_pairs(folders[0], metrics) if by == "pair" else compare_levels(folders[0], by, metrics)


def _sides(runs: "list[RunFolder]") -> list[str]:
    """Which run is A, which is B, and what differs between them besides the results; empty for one run."""
    if len(runs) == 1:
        return []
    from pollscope.analysis.run_differences import differences_of

    apart = differences_of(*runs)
    heads = [f"{letter}: {run.path}" for letter, run in zip("AB", runs, strict=True)]
    modelled = [letter for letter, run in zip("AB", runs, strict=True) if run.modelled]
    if modelled:
        ratios = ": ratios are the model's error, where costs were not fitted to it" if len(modelled) == 1 else ""
        heads.append(f"{' and '.join(modelled)}: MODELLED, computed by a simulation, not measured{ratios}")
    if not apart:
        return [*heads, "Spec, host, build and knobs are the same.", ""]
    return [*heads, "What differs between them:", *(f"  {line}" for line in apart), ""]


def _names(runs: list[str], by: str | None) -> tuple[str, str]:
    """Title and file name of the figure."""
    if by is None:
        return f"B, run {runs[1]}, against A, run {runs[0]}", f"compare-{runs[0]}-{runs[1]}"
    return f"Levels of {by}, all else equal", f"compare-{by}-{runs[0]}"
