# SPDX-License-Identifier: BSD-3-Clause
"""The figures of the papers, drawn from run folders."""

from collections.abc import Sequence
from pathlib import Path

from pollscope.analysis.claims.evaluate import rows_of
from pollscope.analysis.compare import Difference
from pollscope.analysis.figures import files
from pollscope.analysis.figures.comparison import draw_comparison
from pollscope.analysis.figures.data import figure_data
from pollscope.analysis.figures.figure import PaperFigure, TableFigure
from pollscope.analysis.figures.style import look
from pollscope.base.names import FIGURES, load
from pollscope.store.run_folder import RunFolder


def figure_of(row: str) -> PaperFigure | TableFigure:
    """How a paper row is drawn."""
    figure: PaperFigure | TableFigure = load(FIGURES, row)
    return figure


def figures_of(run: RunFolder, paper: str | None = None) -> list[PaperFigure]:
    """The figures that a run has data for, of one paper or of all."""
    known = [figure_of(row) for row in rows_of(run) if row in FIGURES]
    return [each for each in known if isinstance(each, PaperFigure) and paper in (None, each.paper)]


def table_figures(paper: str | None) -> list[TableFigure]:
    """The figures of a paper that need no run."""
    return [each for each in map(figure_of, FIGURES) if isinstance(each, TableFigure) and each.paper == paper]


def save_table_figure(figure: TableFigure, folder: Path) -> list[Path]:
    """Draw a figure that needs no run into SVG, PDF and PNG files."""
    with look():
        return files.save(figure.draw(), f"{figure.row}. {figure.title}.\n{figure.caption()}", folder, figure.row)


def save_figure(figure: PaperFigure, run: RunFolder, folder: Path, name: str) -> list[Path]:
    """Draw one figure of a run into SVG, PDF and PNG files.

    Raises:
        UsageError: the run folder contradicts its formats.
    """
    data = figure_data(figure.row, run, figure.leaves_out_interruptions)
    with look():
        return files.save(figure.draw(data), f"{figure.row}. {figure.title}.\n{data.caption}", folder, name)


def inline_svg(figure: PaperFigure, run: RunFolder) -> tuple[str, str]:
    """One figure of a run as SVG without caption and fonts, for a page, and its caption.

    Raises:
        UsageError: the run folder contradicts its formats.
    """
    data = figure_data(figure.row, run, figure.leaves_out_interruptions)
    with look():
        return files.svg_text(figure.draw(data), opaque=False), data.caption


def save_comparison(
    differences: Sequence[Difference], runs: Sequence[RunFolder], title: str, folder: Path, name: str
) -> list[Path]:
    """Draw a comparison into SVG, PDF and PNG files.

    Args:
        differences: at least one.
        runs: the run, or the two, that they are from.
        title: what is compared.
        folder: for the files.
        name: of the files, without their endings.
    """
    with look():
        words = f"{title}.\n{comparison_caption(differences, runs)}"
        return files.save(draw_comparison(differences), words, folder, name)


def inline_comparison(differences: Sequence[Difference], run: RunFolder) -> tuple[str, str]:
    """A comparison as SVG without caption and fonts, for a page, and its caption."""
    with look():
        return files.svg_text(draw_comparison(differences), opaque=False), comparison_caption(differences, [run])


def comparison_caption(differences: Sequence[Difference], runs: Sequence[RunFolder]) -> str:
    """How many differences are larger than noise, and what was measured where."""
    count = sum(each.beyond_noise for each in differences)
    verdict = f"{count} of {len(differences)} differences are larger than noise"
    about = [figure_data(str(run.meta["row"]), run, leaves_out_interruptions=False).caption for run in runs]
    return " ".join([f"{verdict} among so many (false discovery rate 5 %).", *dict.fromkeys(about)])
