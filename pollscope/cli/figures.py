# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope figures`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from pollscope.errors import UsageError

EXAMPLES = (
    "pollscope figures results/*/* --out figures",
    "pollscope figures --paper socc19",
)


def figures(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN...]", help="Run folders; default: the newest of each spec.")
    ] = None,
    paper: Annotated[
        Literal["socc19", "corec", "hyperplane", "intrahost"] | None, typer.Option(help="Figures of this paper only.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go.")] = Path("figures"),
) -> None:
    """Draws the papers' figures from runs, each as SVG, PDF and PNG, and prints the files' paths.

    A figure is called after its paper row; when several runs show the same row, the run id is added.
    """
    from pollscope.analysis.figures import figures_of, save_figure
    from pollscope.run_folder import read_run

    chosen = [read_run(path) for path in runs or _newest_runs(Path("results"))]
    wanted = [(figure, run) for run in chosen for figure in figures_of(run, paper)]
    if not wanted:
        raise UsageError("none of these runs measures a row that has a figure", remedy="pollscope plan SPEC shows rows")
    rows = [figure.row for figure, _ in wanted]
    for figure, run in wanted:
        name = figure.row if rows.count(figure.row) == 1 else f"{figure.row}-{run.run_id}"
        for path in save_figure(figure, run, out, name):
            typer.echo(path)


def _newest_runs(results: Path) -> Sequence[Path]:
    """The newest run of every spec; run ids begin with the time, so names sort by age."""
    specs = sorted(path for path in results.glob("*") if path.is_dir())
    newest = [max(runs) for runs in ([run.parent for run in spec.glob("*/run.json")] for spec in specs) if runs]
    if not newest:
        raise UsageError("holds no run folder", str(results), "name run folders, or measure with `pollscope run`")
    return newest
