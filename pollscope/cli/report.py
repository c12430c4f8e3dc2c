# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope report`."""

from pathlib import Path
from typing import Annotated

import typer

from pollscope.analysis.report import write_report
from pollscope.cli.outputs import page_out
from pollscope.cli.words import RunWords, runs_of
from pollscope.store.find import LATEST


def report(
    runs: RunWords = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.html", help="Default: report.html in the run folder; here for several runs."
        ),
    ] = None,
) -> None:
    """Write one self-contained HTML page about runs and print its path.

    The page opens with findings and one figure. Cautions, verdicts, figures, claims with their numbers, every point and
    the metadata of the host follow. Without a run it is about the latest one.
    """
    target = None if out is None else page_out(out)
    folders = runs_of(runs or LATEST)
    target = target or (folders[0].path / "report.html" if len(folders) == 1 else Path("report.html"))
    typer.echo(write_report(folders, target))
