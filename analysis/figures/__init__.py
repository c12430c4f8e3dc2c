# SPDX-License-Identifier: BSD-3-Clause
"""The figures of the papers, drawn from run folders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from pollscope.analysis.claims.evaluate import rows_of
from pollscope.analysis.compare import Difference
from pollscope.analysis.figures import (
    files,
    h_f3,
    i_f4,
    i_ll,
    s_f5,
    s_f6,
    s_f7,
    s_f8,
    s_f9,
    s_f10,
    s_f12,
    s_f13,
    s_f16,
    s_t42,
)
from pollscope.analysis.figures.comparison import draw_comparison
from pollscope.analysis.figures.data import FigureData, figure_data
from pollscope.analysis.figures.style import look
from pollscope.analysis.littles_law import paper_scaling
from pollscope.analysis.papers import stated
from pollscope.run_folder import RunFolder


@dataclass(frozen=True)
class PaperFigure:
    """How one paper row is drawn."""

    row: str
    paper: str
    title: str
    draw: Callable[[FigureData], Figure]
    leaves_out_interruptions: bool = True


FIGURES = {
    figure.row: figure
    for figure in (
        PaperFigure("S-F5", "socc19", s_f5.TITLE, s_f5.draw),
        PaperFigure("S-F6", "socc19", s_f6.TITLE, s_f6.draw),
        PaperFigure("S-F7a", "socc19", s_f7.TITLE_CORUNNER, s_f7.draw_corunner),
        PaperFigure("S-F7b", "socc19", s_f7.TITLE_ROUTER, s_f7.draw_router, False),
        PaperFigure("S-T4.2", "socc19", s_t42.TITLE, s_t42.draw),
        PaperFigure("S-F8", "socc19", s_f8.TITLE, s_f8.draw),
        PaperFigure("S-F9", "socc19", s_f9.TITLE, s_f9.draw, False),
        PaperFigure("S-F10a", "socc19", s_f10.TITLE_SINGLE, s_f10.draw_single, False),
        PaperFigure("S-F10b", "socc19", s_f10.TITLE_MULTI, s_f10.draw_multi, False),
        PaperFigure("S-F12", "socc19", s_f12.TITLE, s_f12.draw, False),
        PaperFigure("S-F13", "socc19", s_f13.TITLE, s_f13.draw, False),
        PaperFigure("S-F16", "socc19", s_f16.TITLE_CORES, s_f16.draw_cores, False),
        PaperFigure("S-F17a", "socc19", s_f16.TITLE_PLAIN, s_f16.draw_latency, False),
        PaperFigure("S-F17b", "socc19", s_f16.TITLE_HICCUP, s_f16.draw_latency, False),
        PaperFigure("S-F18", "socc19", s_f16.TITLE_SMT, s_f16.draw_smt, False),
        PaperFigure("H-F3a", "hyperplane", h_f3.TITLE_SHAPES, h_f3.draw_shapes, False),
        PaperFigure("H-F3b", "hyperplane", h_f3.TITLE_GROWTH, h_f3.draw_growth, False),
        PaperFigure("H-F3c", "hyperplane", h_f3.TITLE_DISTRIBUTION, h_f3.draw_distribution, False),
        PaperFigure("I-F4", "intrahost", i_f4.TITLE_RATE, i_f4.draw_rate, False),
        PaperFigure("I-F5", "intrahost", i_f4.TITLE_KEY, i_f4.draw_key, False),
        PaperFigure("I-F6", "intrahost", i_f4.TITLE_ALL, i_f4.draw_all, False),
        PaperFigure("I-WAYS", "intrahost", i_f4.TITLE_WAYS, i_f4.draw_ways, False),
    )
}


@dataclass(frozen=True)
class TableFigure:
    """How a row is drawn that needs no run, because its numbers are a paper's table."""

    row: str
    paper: str
    title: str
    draw: Callable[[], Figure]
    caption: Callable[[], str]


def _draw_law() -> Figure:
    return i_ll.draw_law(paper_scaling(), stated("intrahost", "I-LL")["tag_limit"])


TABLE_FIGURES = (
    TableFigure("I-T1", "intrahost", i_ll.TITLE_TABLE, i_ll.draw_table, i_ll.caption),
    TableFigure("I-LL", "intrahost", i_ll.TITLE_LAW, _draw_law, i_ll.caption),
)


def save_table_figure(figure: TableFigure, folder: Path) -> list[Path]:
    """Draw a figure that needs no run into SVG, PDF and PNG files."""
    with look():
        return files.save(figure.draw(), f"{figure.row}. {figure.title}.\n{figure.caption()}", folder, figure.row)


def figures_of(run: RunFolder, paper: str | None = None) -> list[PaperFigure]:
    """The figures that a run has data for, of one paper or of all."""
    known = [FIGURES[row] for row in rows_of(run) if row in FIGURES]
    return [figure for figure in known if paper is None or figure.paper == paper]


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
    verdict = f"{count} of {len(differences)} differences are larger than noise: the 95 % interval of their ratio"
    about = [figure_data(str(run.meta["row"]), run, leaves_out_interruptions=False).caption for run in runs]
    return " ".join([f"{verdict} leaves out 1.", *dict.fromkeys(about)])
