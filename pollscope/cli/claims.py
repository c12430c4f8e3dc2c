# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope claims`."""

from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer

from pollscope.analysis.claims import Verdict, VerdictKind, evaluate_run, with_views
from pollscope.analysis.claims.reasons import pages
from pollscope.analysis.findings import by_chance, findings, folded, tally, verdict_lines
from pollscope.analysis.point_values import viewed
from pollscope.base.errors import UsageError
from pollscope.cli.words import (
    JsonFlag,
    PaperName,
    RunWords,
    StatName,
    WithoutFlagged,
    echo,
    echo_json,
    runs_of,
    say_unfinished,
)
from pollscope.store.run_folder import RunFolder

# Width of a statement in the table at the top.
_STATEMENT_WIDTH = 100


def claims(
    runs: RunWords = None,
    paper: PaperName = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also the claims that were not measurable, with reasons.")
    ] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Only findings and the table of verdicts.")] = False,
    stat: StatName = "mean",
    without_flagged: WithoutFlagged = False,
    as_json: JsonFlag = False,
) -> None:
    """Judge the papers' claims by runs: agrees, disagrees, inconclusive, or not measurable here.

    The output begins with a table of the verdicts. Every verdict then follows with the numbers behind it and with what
    differs from the paper's testbed. Claims that were not measurable are one line unless --all is given. With --paper,
    only claims of that paper are judged. The exit code is 0 whatever the verdicts are.

    A claim is judged by the statistic that it states, from all trials. --stat and --without-flagged add the numbers by
    another statistic, and the verdict that they would give.
    """
    if not runs:
        raise UsageError("no run is given", remedy="name run folders; `pollscope explain --paper` needs none")
    folders = runs_of(runs)
    places = [run.path for run in folders]
    say_unfinished(folders)
    judged = [evaluate_run(run) for run in folders]
    if stat != "mean" or without_flagged:
        others = [evaluate_run(viewed(run, stat, without_flagged=without_flagged)) for run in folders]
        seen = f"{stat}s{' without flagged trials' if without_flagged else ''}"
        judged = [with_views(*both, seen) for both in zip(judged, others, strict=True)]
    verdicts = [[each for each in of_run if paper in (None, each.claim.paper)] for of_run in judged]
    if as_json:
        plain = [verdict.to_json() for of_run in verdicts for verdict in of_run]
        echo_json(plain)
        return
    all_verdicts = [verdict for of_run in verdicts for verdict in of_run]
    _show_summary(folders if summary else [], all_verdicts, every)
    if summary:
        return
    for path, of_run in zip(places, verdicts, strict=True):
        typer.echo()
        _show(path, of_run, every)


def _show_summary(runs: list[RunFolder], verdicts: list[Verdict], every: bool) -> None:
    """Show findings, the table of verdicts, and in one line what could not be measured."""
    if runs:
        typer.echo("Findings")
        for sentence in findings(runs) or ["No run measured anything that this summary covers."]:
            typer.echo(f"- {sentence}")
        typer.echo()
    if not verdicts:
        return
    typer.echo(f"Verdicts: {', '.join(text for _, text in tally(verdicts))}")
    lines = verdict_lines(verdicts)
    widths = [max((len(line[column]) for line in lines), default=0) for column in (0, 1)]
    for kind, claim, statement in lines:
        text = shorten(statement, _STATEMENT_WIDTH, placeholder=" ...")
        typer.echo(f"  {kind:{widths[0]}}  {claim:{widths[1]}}  {text}")
    if (missing := folded(verdicts)) and not every:
        typer.echo(f"Not measurable here: {missing}: `pollscope claims --all`")
    if chance := by_chance(verdicts):
        typer.echo(chance)


def _show(path: Path, verdicts: list[Verdict], every: bool) -> None:
    if not verdicts:
        typer.echo(f"{path}: no claim is known for this run; state some in its spec under `claims:` (docs/validity.md)")
        return
    shown = [verdict for verdict in verdicts if every or verdict.kind is not VerdictKind.NOT_MEASURABLE]
    echo(verdict.text() for verdict in shown)
    differences = list(dict.fromkeys(line for verdict in verdicts for line in verdict.differs))
    heading = ["What differs from the paper's experiment:"] if differences else []
    echo([*heading, *differences, *pages(verdict.claim.row for verdict in verdicts)])
