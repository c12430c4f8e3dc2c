# SPDX-License-Identifier: BSD-3-Clause
"""Draw the figures of the papers and of users' own questions from run folders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from pollscope.analysis.claims.evaluate import rows_of
from pollscope.analysis.compare import Difference, difference_rows, verdict_lines
from pollscope.analysis.figures import files, special
from pollscope.analysis.figures.comparison import draw_comparison, told_most
from pollscope.analysis.figures.data import FigureData, figure_data
from pollscope.analysis.figures.figure import PaperFigure, TableFigure, figure_of, planned_levels
from pollscope.analysis.figures.files import Target
from pollscope.analysis.figures.finish import finish
from pollscope.analysis.figures.in_words import comparison_in_words, in_words
from pollscope.analysis.figures.model_error import ModelError, model_error
from pollscope.analysis.figures.style import absent_reason, look, watermark
from pollscope.analysis.figures.sweep import asked_figure, default_figure, shown_figures
from pollscope.analysis.point_values import factors, measured
from pollscope.base.names import figure_rows
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

__all__ = [
    "InlineFigure",
    "Target",
    "asked_figure",
    "figure_of",
    "figures_of",
    "inline_comparison",
    "inline_model_error",
    "inline_svg",
    "inline_table",
    "model_error",
    "planned_figures",
    "refused_figures",
    "save_comparison",
    "save_figure",
    "save_model_error",
    "save_table_figure",
    "table_figures",
]


def figures_of(run: RunFolder, paper: str | None = None) -> list[PaperFigure]:
    """Return the figures of a run: those of its rows that fit it, and those that its spec asks for.

    Where there are none of either and no paper is named, one is chosen: the first factor with a rate and the tax.
    """
    swept = _swept(run)
    fitting = [each for each in _row_figures(run, paper) if not each.misfit(swept)]
    if paper is not None:
        return fitting
    found = [*fitting, *(each for each in shown_figures(run) if isinstance(each, PaperFigure))]
    if run.attached:
        found.append(special.THREADS)
    chosen = None if found else default_figure(run)
    return found if chosen is None else [chosen]


def planned_figures(run: RunFolder, paper: str | None = None) -> list[PaperFigure]:
    """Return the figures of the run's rows that fit its spec, without a look at its trials."""
    return [each for each in _row_figures(run, paper) if not each.misfit(planned_levels(run))]


def refused_figures(run: RunFolder, paper: str | None = None) -> list[str]:
    """Return one sentence per figure of the run's rows or spec that would show this run empty or wrong."""
    swept = _swept(run)
    reasons = {each.row: each.misfit(swept) for each in _row_figures(run, paper)}
    refused = [f"The figure of {row} is not drawn: {reason}." for row, reason in reasons.items() if reason]
    return refused if paper is not None else [*refused, *(each for each in shown_figures(run) if isinstance(each, str))]


def _row_figures(run: RunFolder, paper: str | None) -> list[PaperFigure]:
    known = [figure_of(row) for row in rows_of(run) if row in figure_rows()]
    return [each for each in known if isinstance(each, PaperFigure) and paper in (None, each.paper)]


def _swept(run: RunFolder) -> dict[str, int]:
    """Return the number of levels of each factor, without zipped duplicates; without data, as planned."""
    data = measured(current_table(run))
    if data.empty:
        return planned_levels(run)
    return {name: data[f"factor.{name}"].nunique() for name in factors(data)}


def table_figures(paper: str | None) -> list[TableFigure]:
    """Return the figures of a paper that need no run."""
    return [each for each in map(figure_of, figure_rows()) if isinstance(each, TableFigure) and each.paper == paper]


def save_table_figure(figure: TableFigure, target: Target) -> list[Path]:
    """Draw a figure that needs no run into files, with its numbers as CSV beside them."""
    with look():
        return files.save(figure.draw(), f"{figure.row}. {figure.title}.\n{figure.caption()}", figure.rows(), target)


def save_figure(figure: PaperFigure, run: RunFolder, target: Target) -> list[Path]:
    """Draw one figure of a run into files, with its numbers as CSV beside them; returns the paths.

    Raises:
        UsageError: the run folder contradicts its formats, or the requested figure is impossible.
    """
    data = figure.data(run)
    with look():
        drawn = _finished(figure, data, target.keeps_absent)
        return files.save(
            drawn,
            f"{figure.heading}.\n{data.caption}",
            _origin([*data.drawn, *data.missing], modelled=data.modelled),
            target,
        )


@dataclass(frozen=True)
class InlineFigure:
    """Hold a figure for a page: without caption and fonts, its words, and why it shows nothing where it does not."""

    svg: str
    caption: str
    words: str
    absent: str = ""


def inline_svg(figure: PaperFigure, run: RunFolder) -> InlineFigure:
    """Return one figure of a run for a page.

    Raises:
        UsageError: the run folder contradicts its formats.
    """
    data = figure.data(run)
    with look():
        finished = _finished(figure, data, keeps_absent=False)
        svg = files.svg_text(finished, opaque=False)
    absent = "" if data.drawn else next(filter(None, map(absent_reason, finished.axes)), "")
    return InlineFigure(svg, data.caption, in_words(data.drawn), absent)


def inline_model_error(error: ModelError) -> InlineFigure:
    """Return the comparison of a model with a measurement for a page; caption and words state the error."""
    with look():
        svg = files.svg_text(_error_figure(error), opaque=False)
    return InlineFigure(svg, error.words(), error.words())


def _error_figure(error: ModelError) -> Figure:
    drawn = error.draw()
    finish(drawn, keeps_absent=False)
    return drawn


def save_model_error(error: ModelError, runs: Sequence[RunFolder], target: Target) -> list[Path]:
    """Draw a model against measurement into files, with its numbers as CSV beside them."""
    names = " ".join(dict.fromkeys(f"Run {run.run_id}." for run in runs))
    words = f"{error.heading}.\n{error.words()} {names}"
    with look():
        return files.save(_error_figure(error), words, _origins(error.differences, runs), target)


def inline_table(figure: TableFigure) -> InlineFigure:
    """Return a figure that needs no run for a page."""
    with look():
        svg = files.svg_text(figure.draw(), opaque=False)
    words = "; ".join(", ".join(f"{name} {value}" for name, value in row.items()) for row in figure.rows())
    return InlineFigure(svg, figure.caption(), words or figure.caption())


def _finished(figure: PaperFigure, data: FigureData, keeps_absent: bool) -> Figure:
    """Draw and finish a figure; add to the remarks of the data what it does not show."""
    drawn = figure.draw(data)
    data.remarks.extend(finish(drawn, keeps_absent))
    if data.modelled and data.drawn:
        watermark(drawn)
    return drawn


def save_comparison(
    differences: Sequence[Difference], runs: Sequence[RunFolder], title: str, target: Target
) -> list[Path]:
    """Draw a comparison of one run or two into files, with its numbers as CSV beside them."""
    with look():
        words = f"{title}.\n{_comparison_caption(differences, runs)}"
        return files.save(_comparison(differences, runs), words, _origins(differences, runs), target)


def _comparison(differences: Sequence[Difference], runs: Sequence[RunFolder]) -> Figure:
    drawn = draw_comparison(differences)
    if all(run.modelled for run in runs):
        watermark(drawn)
    return drawn


def _origin(rows: Sequence[Mapping[str, Any]], **marks: bool) -> list[dict[str, Any]]:
    """Return the rows with a column that marks modelled numbers, because a CSV file has no caption."""
    return [{**row, **marks} for row in rows]


def _origins(differences: Sequence[Difference], runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    marks = {"first_modelled": runs[0].modelled, "second_modelled": runs[-1].modelled}
    return _origin(difference_rows(differences), **marks)


def inline_comparison(differences: Sequence[Difference], run: RunFolder) -> InlineFigure:
    """Return a comparison for a page."""
    with look():
        svg = files.svg_text(_comparison(differences, [run]), opaque=False)
    return InlineFigure(svg, _comparison_caption(differences, [run]), comparison_in_words(differences))


def _comparison_caption(differences: Sequence[Difference], runs: Sequence[RunFolder]) -> str:
    """Return how many differences exceed noise, which are drawn, and what was measured where."""
    about = [figure_data(str(run.meta["spec_name"]), run, False).caption for run in runs]
    drawn, few = len(told_most(differences)), []
    if drawn < len(differences):
        few = [f"{drawn} of them are drawn, those that differ most; the CSV file has all."]
    return " ".join([*verdict_lines(differences, "in bold"), *few, *dict.fromkeys(about)])
