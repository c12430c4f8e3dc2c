# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope claims`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pollscope.cli.words import JsonFlag

if TYPE_CHECKING:
    from pollscope.analysis.claims import Verdict

EXAMPLES = ("pollscope claims results/s-f5-polling-tax/20261120T162617Z-1a2b3c", "pollscope claims results/*/* --json")


def claims(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    as_json: JsonFlag = False,
) -> None:
    """Judges the papers' claims by runs: agrees, disagrees, inconclusive, or not measurable here.

    Every verdict comes with the numbers behind it and with what differs from the paper's testbed. The exit code is 0
    whatever the verdicts are.
    """
    from pollscope.analysis.claims import evaluate_run
    from pollscope.run_folder import read_run

    verdicts = [evaluate_run(run) for run in [read_run(path) for path in runs]]
    if as_json:
        plain = [verdict.to_json() for of_run in verdicts for verdict in of_run]
        typer.echo(json.dumps(plain, indent=2, allow_nan=False))
        return
    for path, of_run in zip(runs, verdicts, strict=True):
        _show(path, of_run)


def _show(path: Path, verdicts: "list[Verdict]") -> None:
    if not verdicts:
        typer.echo(f"{path}: no claim is known for the rows of this run")
        return
    for verdict in verdicts:
        typer.echo(verdict.text())
    differences = list(dict.fromkeys(line for verdict in verdicts for line in verdict.differs))
    for line in [*(["What differs from the paper's testbed:"] if differences else []), *differences]:
        typer.echo(line)
