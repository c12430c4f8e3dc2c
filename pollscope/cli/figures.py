# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope figures`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pollscope.analysis.figures import (
    Target,
    asked_figure,
    figure_of,
    figures_of,
    model_error,
    planned_figures,
    refused_figures,
    save_figure,
    save_model_error,
    save_table_figure,
    table_figures,
)
from pollscope.analysis.figures.figure import PaperFigure, TableFigure
from pollscope.analysis.gallery import paper_rows, runs_of_rows, why_absent
from pollscope.analysis.point_values import viewed
from pollscope.base.errors import UsageError
from pollscope.base.names import figure_rows
from pollscope.cli.modelled import computed_runs, measured_runs
from pollscope.cli.outputs import figure_out
from pollscope.cli.words import (
    ModelFlag,
    PaperName,
    RunWords,
    StatName,
    WithoutFlagged,
    echo,
    runs_of,
    say,
    say_unfinished,
    split_words,
)
from pollscope.store.find import RESULTS
from pollscope.store.run_folder import RunFolder

PAGE = "page"


def figures(
    runs: RunWords = None,
    paper: PaperName = None,
    x: Annotated[str | None, typer.Option("--x", metavar="FACTOR", help="The factor along the x axis.")] = None,
    y: Annotated[
        list[str] | None,
        typer.Option("--y", metavar="METRIC,...", help="Metrics, one panel each (docs/reference-metrics.md)."),
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option("--by", metavar="FACTOR,...", help="Factors whose levels are lines.")
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option("--at", metavar="FACTOR=LEVEL", help="Hold a factor at one of its levels.")
    ] = None,
    ratio_to: Annotated[
        str | None,
        typer.Option("--ratio-to", metavar="LEVEL", help="Divide by this level of the lines or of x; or FACTOR=LEVEL."),
    ] = None,
    log: Annotated[list[str] | None, typer.Option("--log", metavar="x|y", help="Logarithmic axes.")] = None,
    width: Annotated[
        Literal["column", "page"], typer.Option("--width", help="One column of a printed page, or both.")
    ] = "page",
    no_caption: Annotated[bool, typer.Option("--no-caption", help="Omit the caption.")] = False,
    absent: Annotated[
        Literal["drop", "show"],
        typer.Option("--absent", help="Panels without data: omit them and say why in the caption, or keep them."),
    ] = "drop",
    stat: StatName = "mean",
    without_flagged: WithoutFlagged = False,
    model: ModelFlag = True,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR|FILE", help="Folder for the files, or one file such as x.pdf.")
    ] = Path("figures"),
) -> None:
    """Draw runs as SVG, PDF and PNG with the numbers as CSV, and print the paths of the files.

    Without further options, these are the figures of the papers' rows that the run measures and those of its spec
    (`show:`). If there are none, a rate and the tax are drawn over the first factor. --x, --y, --by, --at, --ratio-to
    and --log select any other figure; missing ones take the defaults above. With --paper, rows whose numbers are that
    paper's own table are drawn as well; they need no run.

    --paper without a run draws every row of the paper as `pollscope gallery` does: from `results` and the recorded
    runs, else computed by the testbed `model`, and says of each other row why it is absent.
    """
    asked = {
        "x": x,
        "y": split_words(y),
        "by": split_words(by),
        "at": _held(at or ()),
        "ratio_to": ratio_to,
        "log": split_words(log),
    }
    asked = {key: value for key, value in asked.items() if value}
    target = figure_out(out, not no_caption, absent == "show")
    tables = [] if asked else table_figures(paper)
    if paper is None or runs or asked or width != PAGE:
        wanted = _wanted(runs_of(runs or str(RESULTS)), paper, asked, width)
    else:
        wanted = _every_row(paper, target.folder / "modelled" if model else None)
    if not wanted and not tables:
        raise UsageError("none of these runs has anything to draw", remedy="choose with --x and --y")
    wanted = [(figure, viewed(run, stat, without_flagged=without_flagged)) for figure, run in wanted]
    if target.name and len(tables) + len(wanted) > 1:
        what = f"{len(tables) + len(wanted)} figures do not fit into one file"
        remedy = "name a folder, or choose one figure with --x and --y"
        raise UsageError(what, f"--out {target.name}.{target.formats[0]}", remedy)
    _draw(tables, wanted, target)


def _draw(tables: Sequence[TableFigure], wanted: list[tuple[PaperFigure, RunFolder]], target: Target) -> None:
    """Write the figures; append the run's id to the name where two runs have the same figure."""
    for table in tables:
        echo(save_table_figure(table, target.called(table.row)))
    names = [figure.row for figure, _ in wanted]
    _errors(wanted, target)
    say_unfinished({run.run_id: run for _, run in wanted}.values())
    for figure, run in wanted:
        name = figure.row if names.count(figure.row) == 1 else f"{figure.row}-{run.run_id}"
        echo(save_figure(figure, run, target.called(name)))


def _errors(wanted: list[tuple[PaperFigure, RunFolder]], target: Target) -> None:
    """Draw measured and modelled runs of a row in one figure, and print the error of the model."""
    for figure, run in wanted:
        models = [other for same, other in wanted if same is figure and other.modelled and not run.modelled]
        error = next((found for other in models if (found := model_error(figure, run, other))), None)
        if error is not None:
            echo(save_model_error(error, [run, *models], target.called(f"{figure.row}-model-error")))
            say(f"{figure.row}: {error.words()}")


def _wanted(
    runs: list[RunFolder], paper: str | None, asked: dict[str, Any], width: str
) -> list[tuple[PaperFigure, RunFolder]]:
    if asked:
        return [(asked_figure(run, asked, width != PAGE), run) for run in runs]
    if width != PAGE:
        _refuse_papers((figure, run) for run in runs for figure in planned_figures(run, paper))
    for run in runs:
        for sentence in refused_figures(run, paper):
            say(f"{run.path}: {sentence}")
    found = [(figure, run) for run in runs for figure in figures_of(run, paper)]
    if width == PAGE:
        return found
    _refuse_papers(found)
    return [(asked_figure(run, {}, True), run) for _, run in found]


def _refuse_papers(found: Iterable[tuple[PaperFigure, RunFolder]]) -> None:
    for figure, run in found:
        if figure.paper:
            ready = f"one panel of {figure.row}: pollscope figures {run.path} --width column {figure.asked(run)}"
            raise UsageError("the papers' figures are as wide as a page", "--width column", ready)


def _every_row(paper: str, modelled: Path | None) -> list[tuple[PaperFigure, RunFolder]]:
    """Return the figures of each row of a paper; `modelled` is the folder for runs of the model, None without them."""
    every = paper_rows(paper)
    there = measured_runs(None, every)
    rows = [row for row in every if row not in figure_rows() or isinstance(figure_of(row), PaperFigure)]
    by_row = runs_of_rows(rows, there)
    computed, reasons = list["RunFolder"](), dict[str, str]()
    if modelled:
        computed, reasons = computed_runs(by_row, modelled)
    runs, found = [*there, *computed], []
    for row, own in runs_of_rows(rows, runs).items():
        if own:
            found += [(figure, run) for run in own if isinstance(figure := figure_of(row), PaperFigure)]
        else:
            say(f"{row}: absent. {why_absent(row, runs, reasons)}")
    return found


def _held(words: Sequence[str]) -> dict[str, str]:
    levels = [_level(word) for word in words]
    held = dict(levels)
    if len(held) < len(levels):
        raise UsageError("holds a factor at two levels", f"--at {' --at '.join(words)}", "once for each factor")
    return held


def _level(word: str) -> tuple[str, str]:
    factor, equals, level = word.partition("=")
    if not equals:
        raise UsageError("is not FACTOR=LEVEL", f"--at {word}", "for instance --at lookups=1")
    return factor.strip(), level.strip()
