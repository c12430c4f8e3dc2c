# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope figures`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pollscope.base.errors import UsageError
from pollscope.cli.words import PaperName

EXAMPLES = (
    "pollscope figures results/*/* --out figures",
    "pollscope figures --paper socc19",
    "pollscope figures --paper intrahost",
)


def figures(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN...]", help="Run folders; default: the newest of each spec.")
    ] = None,
    paper: PaperName = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go.")] = Path("figures"),
) -> None:
    """Draws the papers' figures from runs, each as SVG, PDF and PNG, and prints the files' paths.

    A figure is called after its paper row; when several runs show the same row, the run id is added. With --paper, rows
    whose numbers are that paper's own table are drawn as well; they need no run.
    """
    from pollscope.analysis.figures import figures_of, save_figure, save_table_figure, table_figures
    from pollscope.store.run_folder import read_run

    tables = table_figures(paper)
    for figure in tables:
        for path in save_table_figure(figure, out):
            typer.echo(path)
    if tables and not runs:
        return
    chosen = [read_run(path) for path in runs or _newest_runs(Path("results"))]
    wanted = [(figure, run) for run in chosen for figure in figures_of(run, paper)]
    if not wanted and not tables:
        raise UsageError("none of these runs measures a row that has a figure", remedy="pollscope plan SPEC shows rows")
    rows = [drawn.row for drawn, _ in wanted]
    for drawn, run in wanted:
        name = drawn.row if rows.count(drawn.row) == 1 else f"{drawn.row}-{run.run_id}"
        for path in save_figure(drawn, run, out, name):
            typer.echo(path)


def _newest_runs(results: Path) -> Sequence[Path]:
    """The newest run of every spec; run ids begin with the time, so names sort by age."""
    specs = sorted(path for path in results.glob("*") if path.is_dir())
    newest = [max(runs) for runs in ([run.parent for run in spec.glob("*/run.json")] for spec in specs) if runs]
    if not newest:
        raise UsageError("holds no run folder", str(results), "name run folders, or measure with `pollscope run`")
    return newest
