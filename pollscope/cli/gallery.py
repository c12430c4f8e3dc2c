# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope gallery`."""

from pathlib import Path
from typing import Annotated

import typer

from pollscope.analysis.gallery import gallery_html, paper_gallery, paper_rows, runs_of_rows
from pollscope.analysis.page import write_page
from pollscope.base.names import papers
from pollscope.cli.modelled import computed_runs, measured_runs
from pollscope.cli.outputs import page_out
from pollscope.cli.words import ModelFlag, PaperName, RunWords
from pollscope.models.hyperplane import chip, judged
from pollscope.store.run_folder import RunFolder

_HYPERPLANE = "hyperplane"  # HyperPlane's chip has a model of its own


def gallery(
    runs: RunWords = None,
    paper: PaperName = None,
    model: ModelFlag = True,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The HTML page to write.")] = Path(
        "gallery.html"
    ),
) -> None:
    """Draw every row of the papers into one self-contained HTML page and print its path.

    A row is drawn from the runs that measure it: those given, else those in `results` and the recorded ones that ship
    with pollscope. Rows that no run shows are computed by a modelled machine (shortened; the runs stay in `modelled`
    beside the page, and are not computed again), and marked so. So are the points of measured runs that a model knows:
    one figure then shows both, with the model's error. All other rows are absent, with the reason.
    """
    target, chosen = page_out(out), [paper] if paper else list(papers())
    rows = [row for name in chosen for row in paper_rows(name)]
    there = measured_runs(runs, rows)
    by_row = runs_of_rows(rows, there)
    computed, reasons, statements = list[RunFolder](), dict[str, str](), list[dict[str, object]]()
    if model:
        computed, reasons = computed_runs(by_row, target.parent / "modelled")
        statements = judged(chip()) if _HYPERPLANE in chosen else []
    pages = [paper_gallery(name, [*there, *computed], reasons, statements) for name in chosen]
    typer.echo(write_page(gallery_html(pages), target))
