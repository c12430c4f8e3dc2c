# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope claims`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pollscope.base.errors import UsageError
from pollscope.cli.words import JsonFlag, PaperName, RunWords, say_unfinished

if TYPE_CHECKING:
    from pollscope.analysis.claims import Verdict

EXAMPLES = (
    "pollscope claims latest",
    "pollscope claims results/s-f5-polling-tax/20261120T162617Z-1a2b3c --json",
    "pollscope claims --paper intrahost",
)


def claims(
    runs: RunWords = None,
    paper: PaperName = None,
    as_json: JsonFlag = False,
) -> None:
    """Judges the papers' claims by runs: agrees, disagrees, inconclusive, or not measurable here.

    Every verdict comes with the numbers behind it and with what differs from the paper's testbed. With --paper,
    statements on that paper's own tables are judged as well; they need no run. The exit code is 0 whatever the verdicts
    are.
    """
    from pollscope.analysis.claims import evaluate_run, judge_tables
    from pollscope.store.find import find_runs
    from pollscope.store.run_folder import read_run

    if not runs and paper is None:
        raise UsageError("no run is given", remedy="name run folders, or --paper for what a paper's own tables say")
    places = find_runs(runs or ())
    folders = [read_run(path) for path in places]
    say_unfinished(folders)
    judged = [evaluate_run(run) for run in folders]
    verdicts = [[each for each in of_run if paper in (None, each.claim.paper)] for of_run in judged]
    if paper is not None and (tables := judge_tables(paper)):
        places, verdicts = [Path(paper), *places], [tables, *verdicts]
    if as_json:
        plain = [verdict.to_json() for of_run in verdicts for verdict in of_run]
        typer.echo(json.dumps(plain, indent=2, allow_nan=False))
        return
    for number, (path, of_run) in enumerate(zip(places, verdicts, strict=True)):
        typer.echo("\n" * bool(number), nl=False)
        _show(path, of_run)


def _show(path: Path, verdicts: "list[Verdict]") -> None:
    from pollscope.analysis.claims.reasons import pages

    if not verdicts:
        typer.echo(f"{path}: no claim is known for this run; `claims:` in its spec states some (docs/validity.md)")
        return
    for verdict in verdicts:
        typer.echo(verdict.text())
    differences = list(dict.fromkeys(line for verdict in verdicts for line in verdict.differs))
    heading = ["What differs from the paper's experiment:"] if differences else []
    for line in [*heading, *differences, *pages(verdict.claim.row for verdict in verdicts)]:
        typer.echo(line)
