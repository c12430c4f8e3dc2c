# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope report`."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = ("pollscope report results/s-f5-polling-tax/20261120T162617Z-1a2b3c", "pollscope report results/*/*")


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.html", help="Default: report.html in the run folder, or here for several."),
    ] = None,
) -> None:
    """Writes one self-contained HTML page about runs and prints its path.

    It opens with what could mislead a reader, then verdicts, figures, claims with their numbers, every point, and facts
    of the host.
    """
    from pollscope.analysis.report import write_report
    from pollscope.store.run_folder import read_run

    folders = [read_run(path) for path in runs]
    target = out or (folders[0].path / "report.html" if len(folders) == 1 else Path("report.html"))
    typer.echo(write_report(folders, target))
