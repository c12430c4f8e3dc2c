# SPDX-License-Identifier: BSD-3-Clause
"""Draw a figure for any run: metrics over a factor, one line per level of others (`show:`, `pollscope figures`)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from pydantic import ValidationError

from pollscope.analysis.figures.data import FigureData
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.finish import AROUND_INCH
from pollscope.analysis.figures.style import (
    COLUMN_INCH,
    MUTED,
    AmountTicks,
    absent_panel,
    interval_line,
    log_y_axis,
    new_figure,
)
from pollscope.analysis.figures.sweep_lines import SweepLine, base_words, default_show, factor_word, lines_of, title_of
from pollscope.analysis.point_values import Level, factors, level_rank, measured
from pollscope.base.errors import UsageError
from pollscope.metrics.dictionary import Metric, metric_dictionary
from pollscope.spec.model import Show
from pollscope.spec.points import level_text
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

PANEL_INCH = 1.8
MOST_TICKS = {False: 12, True: 6}
# Units after the names of factors on axes.
UNITS = {
    "load_of_max": "share of the maximum",
    "load_of_line": "share of line rate",
    "load_of_trace": "share of the trace's rate",
    "flow_size": "B",
    "frame": "B",
    "burst": "packets",
}


def shown_figures(run: RunFolder) -> list[PaperFigure | str]:
    """Return the figures that the run's spec asks for by `show:`, or why the run cannot fill one."""
    try:
        asked = [Show.model_validate(each) for each in run.meta.get("spec", {}).get("show", [])]
    except ValidationError as error:
        place = f"{run.path / 'run.json'}: spec.show"
        raise UsageError(f"cannot be read: {error.errors()[0]['msg']}", place) from None
    return [_figure_or_refusal(show, run) for show in asked]


def _figure_or_refusal(show: Show, run: RunFolder) -> PaperFigure | str:
    try:
        figure = _sweep_figure(show, run)
        data = figure.data(run)
        for metric in show.y:
            lines_of(show, metric, data)
    except UsageError as error:
        return f"The figure '{title_of(show)}' that the spec asks for is not drawn: {error.what}."
    return figure


def default_figure(run: RunFolder) -> PaperFigure | None:
    """Return the figure of a run when none is asked for; None if no factor has two levels."""
    show = default_show(run)
    return None if show is None else _sweep_figure(show, run)


def asked_figure(run: RunFolder, asked: Mapping[str, Any], narrow: bool) -> PaperFigure:
    """Make the figure that the command line asks for by keys of `Show`; `narrow` fits a column of a page."""
    try:
        show = default_show(run, asked)
    except ValidationError as error:
        problem = error.errors()[0]
        raise UsageError(
            problem["msg"].removeprefix("Value error, "), f"--{problem['loc'][0]}", "pollscope figures --help"
        ) from None
    if show is None:
        if not asked.get("at") and run.attached:
            what = "the recording of one thread has one point, and a figure needs a factor"
            raise UsageError(what, str(run.path), "pollscope report, or pollscope query 'FROM trials'")
        what = "--at holds every factor that was swept" if asked.get("at") else "the run swept no factor"
        raise UsageError(what, str(run.path), "choose with --x and --y")
    figure = _sweep_figure(show, run, narrow)
    # Figures of one run that differ in lines or in held levels only are different files.
    lines = [f"lines-{name}" for name in asked.get("by", ())]
    held = [f"at-{name}-{level}" for name, level in asked.get("at", {}).items()]
    return replace(figure, row=_file_name("-".join([figure.row, *lines, *held])))


def _file_name(text: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "-" for each in text)


def _sweep_figure(show: Show, run: RunFolder, narrow: bool = False) -> PaperFigure:
    """Make a figure of a run; `narrow` fits a column of a page.

    Raises:
        UsageError: a factor that the run did not sweep, or an unknown metric.
    """
    data = measured(current_table(run))
    swept = factors(data)
    for name in (show.x, *show.by, *show.at):
        if name not in swept and not data.empty:
            raise UsageError(f"the run has no factor '{name}'", str(run.path), f"its factors: {', '.join(swept)}")
    for name in show.y:
        metric_dictionary()[name]
    by = f"{'-'.join(show.y)}-by-{show.x}" + (f"-over-{show.ratio_to}" if show.ratio_to is not None else "")
    running = {"running" in metric for metric in show.y}
    away = None if len(running) > 1 else running.pop()
    draw = partial(_draw, show, narrow)
    return PaperFigure(_file_name(by), None, title_of(show), draw, leaves_out_interruptions=away, every_pair=True)


def _draw(show: Show, narrow: bool, data: FigureData) -> Figure:
    """Draw one panel per metric, one above the other over the same x axis."""
    lines = {metric: lines_of(show, metric, data) for metric in show.y}
    names = list(dict.fromkeys(line.name for found in lines.values() for line in found))
    figure = new_figure(AROUND_INCH + PANEL_INCH * len(show.y))
    if narrow:
        figure.set_figwidth(COLUMN_INCH)
    panels = figure.subplots(len(show.y), 1, squeeze=False)[:, 0]
    for axes, (metric, found) in zip(panels, lines.items(), strict=True):
        _panel(axes, show, metric_dictionary()[metric], found, names, narrow)
        if not found:
            absent_panel(axes, data.absence(metric))
    return figure


def _panel(
    axes: Axes, show: Show, metric: Metric, lines: Sequence[SweepLine], names: Sequence[str], narrow: bool
) -> None:
    axes.set_title(metric.title if show.ratio_to is None else f"{metric.title}, relative to {base_words(show)}")
    if not lines:
        return
    levels = sorted({level for line in lines for level in line.x}, key=level_rank)
    places = _places(levels)
    for line in lines:
        rank = names.index(line.name)
        label = line.name if len(names) > 1 else ""
        interval_line(axes, [places[level] for level in line.x], line.y, rank, label)
    _x_axis(axes, show, places, narrow)
    _y_axis(axes, show, metric)


def _places(levels: Sequence[Level]) -> dict[Level, float]:
    """Return positions of levels: numbers by value, words side by side."""
    numbers = not any(isinstance(level, str | bool) for level in levels)
    return {level: float(level) if numbers else float(index) for index, level in enumerate(levels)}


def _x_axis(axes: Axes, show: Show, places: Mapping[Level, float], narrow: bool) -> None:
    if "x" in show.log and min(places.values()) > 0:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    numbers = not any(isinstance(level, str | bool) for level in places)
    if len(places) <= MOST_TICKS[narrow] or not numbers or axes.get_xscale() == "log":
        kept = _clear_ticks(axes, places, MOST_TICKS[narrow]) if numbers else list(places)
        axes.set_xticks([places[level] for level in kept], [level_text(show.x, level) for level in kept])
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: level_text(show.x, value)))
        axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS[narrow]))
    word = factor_word(show.x)
    unit = f" ({UNITS[show.x]})" if show.x in UNITS else ""
    axes.set_xlabel(f"{word[0].upper()}{word[1:]}{unit}")


def _clear_ticks(axes: Axes, places: Mapping[Level, float], most: int) -> list[Level]:
    """Return the levels whose labels do not collide: the last, those far enough from the next, and the first."""
    at = dict(zip(places, axes.xaxis.get_transform().transform(list(places.values())), strict=True))
    first, *between, last = at if len(at) > 1 else [*at, *at]
    room = (at[last] - at[first]) / most
    kept = [last]
    for level in reversed(between):
        if min(at[kept[-1]] - at[level], at[level] - at[first]) >= room:
            kept.append(level)
    return [*kept, first] if first != last else kept


def _y_axis(axes: Axes, show: Show, metric: Metric) -> None:
    if "y" in show.log:
        log_y_axis(axes)
    else:
        # Leave no room below 0 unless a value or an interval lies there.
        axes.set_ylim(bottom=axes.get_ylim()[0] if axes.dataLim.ymin < 0 else 0.0)
    if show.ratio_to is not None:
        axes.axhline(1, color=MUTED, lw=0.8, zorder=1)
        axes.set_ylabel("Ratio")
    else:
        # The ticks of a logarithmic axis are far apart: each has its own prefix.
        plain = FuncFormatter(lambda value, _place: metric.text(value))
        axes.yaxis.set_major_formatter(plain if "y" in show.log else AmountTicks(metric))
