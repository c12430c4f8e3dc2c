# SPDX-License-Identifier: BSD-3-Clause
"""Finish a drawn figure: remove empty panels, set axes that no interval crushes, add one legend."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import ScalarFormatter
from matplotlib.transforms import ScaledTranslation

from pollscope.analysis.figures.style import (
    CUT,
    FLOOR,
    HOLLOW,
    MUTED,
    PAPER,
    STATED,
    WHISKER,
    WIDTH_INCH,
    absent_panel,
    absent_reason,
)
from pollscope.base.units import human_number
from pollscope.stats.estimates import NO_INTERVAL

# Height of a figure outside its panels (legend, axis labels), and width of a panel's labels.
AROUND_INCH = 0.5
_LABELS_INCH = 0.8
_ABSENT_INCH = 1.4
# Room for intervals beyond the values of a panel, at most, as a share of the span of the values.
_ROOM = 1.0
# A logarithmic axis spans at least this factor.
_LEAST_FACTOR = 4.0
_TINY = float(np.finfo(float).tiny)
# Room after an interval that ends inside the axes, as a share of the span.
BEHIND = 0.04
# Distance between overlapping intervals at one place; two of them stay behind the marker.
APART_POINTS, POINTS_PER_INCH = 2.4, 72
_MARK_INCH = 0.05
# Share of the axes' height that a marker covers, about: a shorter interval is always hidden.
_MARKER_SHARE = 0.03
# A line nearer to the edge of the axes than this share is not visible.
SEEN = 0.02
# A paper's value this many times above the measured ones would flatten them.
_FAR = 4
_ABOVE_STATED = 1.08
_LEGEND_CHARACTERS = 125  # characters of a line as wide as a page
_HANDLE_CHARACTERS = 8
_LEGEND_LINE_INCH = 0.16
# Marks that any figure may have: label of the artist -> (marker, words in the legend).
MARKS = {HOLLOW: ("o", f"hollow: {NO_INTERVAL}"), CUT: ("^", "the interval continues beyond the axis")}


def finish(figure: Figure, keeps_absent: bool = False) -> list[str]:
    """Finish a drawn figure and return sentences for the caption about things that it does not show.

    Args:
        figure: as `PaperFigure.draw` returns it.
        keeps_absent: leave panels without data where they are.
    """
    said = [] if keeps_absent else _without_absent(figure)
    for axes in figure.axes:
        _hold(axes)
        # Write large tick labels with a separator, as all other numbers: 1,250.
        if isinstance(axes.yaxis.get_major_formatter(), ScalarFormatter) and max(map(abs, axes.get_ylim())) >= 1000:
            axes.yaxis.set_major_formatter(lambda value, _: human_number(value, 6))
    said += _stated(figure)
    for axes in figure.axes:
        _mark_cuts(axes)
    said += _without_hidden_floor(figure)
    _legend(figure)
    return said


def _without_absent(figure: Figure) -> list[str]:
    """Remove panels without data and return sentences with the reasons; if none has data, keep one panel."""
    for axes in [each for each in figure.axes if not each.get_visible()]:
        figure.delaxes(axes)
    reasons = {axes: reason for axes in figure.axes if (reason := absent_reason(axes))}
    kept = [axes for axes in figure.axes if axes not in reasons]
    if not reasons or (not kept and len(reasons) == 1):
        return []
    columns, rows = _grid(figure)
    titles: dict[str, dict[str, None]] = {}  # reason -> the panels' titles
    for axes, reason in reasons.items():
        titles.setdefault(reason, {})[axes.get_title(loc="left")] = None
        figure.delaxes(axes)
    names = {reason: ", ".join(filter(None, each)) for reason, each in titles.items()}
    if not kept:
        # One low panel shows the first reason.
        first, *others = names
        figure.set_figheight(_ABSENT_INCH)
        absent_panel(figure.subplots(), first, 100)
        return [f"{names[reason]}: absent, because {reason}." for reason in others]
    _arrange(figure, kept, columns, rows)
    absences = "; ".join(f"{each}, because {reason}" for reason, each in names.items())
    return [f"Absent, so not drawn: {absences}."]


def _grid(figure: Figure) -> tuple[int, int]:
    places = [place for axes in figure.axes if (place := axes.get_subplotspec()) is not None]
    grid = places[0].get_gridspec()
    return grid.ncols, grid.nrows


def _arrange(figure: Figure, kept: Sequence[Axes], most_columns: int, rows_before: int) -> None:
    """Arrange the remaining panels row by row and shrink the figure by the rows that it no longer needs."""
    columns = min(most_columns, len(kept))
    rows = math.ceil(len(kept) / columns)
    height = (figure.get_figheight() - AROUND_INCH) / rows_before
    figure.set_figheight(AROUND_INCH + rows * height)
    grid = figure.add_gridspec(rows, columns)
    for place, axes in enumerate(kept):
        axes.set_subplotspec(grid[place // columns, place % columns])


def _hold(axes: Axes) -> None:
    """Set axis limits that keep values distinguishable; longer intervals are cut (see `_mark_cuts`)."""
    whiskers = [line for line in axes.lines if line.get_label() == WHISKER]
    log = axes.get_yscale() == "log"
    least_span = math.log10(_LEAST_FACTOR) if log else 0.0
    sharing = axes.get_shared_y_axes().get_siblings(axes)
    values = [place for each in sharing for value in _heights(each) if math.isfinite(place := _place(value, log))]
    if not whiskers or not values:
        return
    bottom, top = (_place(max(edge, _TINY) if log else edge, log) for edge in axes.get_ylim())
    from_zero = not log and bottom >= 0
    low, high = min([*values, 0.0] if from_zero else values), max(values)
    span = max(high - low, least_span) or abs(high) or 1.0
    room = min(_ROOM * span, 1.0 if log else math.inf)
    every = [line for each in sharing for line in each.lines if line.get_label() == WHISKER]
    reach = {line: [_place(y, log) for y in _numbers(line.get_ydata())] for line in every}
    ends = list(reach.values())
    before = top if top <= high + room else high + BEHIND * span
    top = min(high + room, max(before, *(end + BEHIND * span for _, end in ends)))
    if not from_zero:
        bottom = max(low - room, min(bottom, *(end - BEHIND * span for end, _ in ends)))
        short = max(0.0, least_span - (top - bottom)) / 2
        bottom, top = bottom - short, top + short
    axes.set_ylim(*(float(10**edge) if log else edge for edge in (bottom, top)))
    _side_by_side(axes, whiskers, [reach[line] for line in whiskers], _MARKER_SHARE * (top - bottom))


def _place(value: float, log: bool) -> float:
    """Return where a value lies on an axis; a logarithmic one has no place for 0 and below."""
    if not math.isfinite(value) or (log and value <= 0):
        return -math.inf
    return math.log10(value) if log else value


def _mark_cuts(axes: Axes) -> None:
    """Mark intervals that leave the axes at their edge. Call this when the limits are final."""
    bottom, top = axes.get_ylim()
    below = bottom / (top / bottom) ** BEHIND if axes.get_yscale() == "log" else bottom - BEHIND * (top - bottom)
    for line in [line for line in axes.lines if line.get_label() == WHISKER]:
        x, (lower, upper) = _numbers(line.get_xdata())[0], _numbers(line.get_ydata())
        _cut(axes, line, x, top if upper > top else None, "^")
        _cut(axes, line, x, bottom if lower < below else None, "v")


def _side_by_side(axes: Axes, whiskers: Sequence[Line2D], ends: Sequence[Sequence[float]], marker: float) -> None:
    """Move overlapping intervals at one place apart, because the last one would hide the others.

    Args:
        axes: the axes of the lines.
        whiskers: one line per interval.
        ends: lower and upper end of each, on the scale of the axis.
        marker: height that a marker covers, on the same scale; it hides shorter intervals, which stay.
    """
    places: dict[float, list[tuple[Line2D, Sequence[float]]]] = {}
    for line, end in zip(whiskers, ends, strict=True):
        if end[1] - end[0] > marker:
            places.setdefault(_numbers(line.get_xdata())[0], []).append((line, end))
    figure = axes.get_figure(root=True)
    assert figure is not None
    furthest = 0.0
    for found in places.values():
        lanes: list[tuple[int, Line2D, Sequence[float]]] = []
        for line, end in found:
            behind = [lane for lane, _, other in lanes if other[0] <= end[1] and end[0] <= other[1]]
            lanes.append((max(behind, default=-1) + 1, line, end))
        middle = max(lane for lane, _, _ in lanes) / 2
        for lane, line, _ in lanes:
            inches = (lane - middle) * APART_POINTS / POINTS_PER_INCH
            line.set_transform(axes.transData + ScaledTranslation(inches, 0, figure.dpi_scale_trans))
            furthest = max(furthest, inches)
    if furthest:
        _keep_inside(axes, figure, list(places), furthest)


def _keep_inside(axes: Axes, figure: Figure, places: Sequence[float], inches: float) -> None:
    """Extend the x axis by a distance and the size of a mark beyond the first and the last place."""
    scale = axes.xaxis.get_transform()
    first, last = scale.transform([min(places), max(places)])
    low, high = scale.transform(axes.get_xlim())
    share = (inches + _MARK_INCH) / (figure.get_figwidth() / _grid(figure)[0] - _LABELS_INCH)
    room = share * (high - low) / (1 - 2 * share)
    axes.set_xlim(*scale.inverted().transform([min(low, first - room), max(high, last + room)]))


def _cut(axes: Axes, line: Line2D, x: float, y: float | None, marker: str) -> None:
    """Draw a mark where an interval leaves the axes; do nothing if it does not."""
    if y is not None:
        (mark,) = axes.plot(x, y, marker, ms=5, color=line.get_color(), clip_on=False, zorder=6, label=CUT)
        mark.set_transform(line.get_transform())


def _numbers(values: object) -> list[float]:
    return [float(value) for value in np.asarray(values, dtype=float)]


def _heights(axes: Axes) -> list[float]:
    lines = [
        line
        for line in axes.lines
        if line.get_label() not in (WHISKER, FLOOR) and not _words_stated(line) and _in_data(axes, line)
    ]
    bars = [patch for bars in axes.containers for patch in bars if isinstance(patch, Rectangle)]
    ends = [end for bar in bars for end in (bar.get_y(), bar.get_y() + bar.get_height())]
    return [value for line in lines for value in _numbers(line.get_ydata())] + ends


def _in_data(axes: Axes, line: Line2D) -> bool:
    """Return whether a line is data; a line across the whole axes is not."""
    return line.get_transform() == axes.transData


def _words_stated(line: Line2D) -> str:
    label = str(line.get_label())
    return label.removeprefix(STATED) if label.startswith(STATED) else ""


def _stated(figure: Figure) -> list[str]:
    """Make room for papers' values; remove those far beyond the axes and return sentences about them."""
    said = []
    for axes in figure.axes:
        for line in [line for line in axes.lines if _words_stated(line)]:
            words, reached = _words_stated(line), _reaches(axes, line)
            line.set_label(words)
            if not reached:
                line.remove()
                said.append(f"{words} (beyond the axis).")
    return list(dict.fromkeys(said))


def _reaches(axes: Axes, line: Line2D) -> bool:
    """Return whether the axes reach a paper's value; extend them if that costs little."""
    if not _in_data(axes, line):
        low, high = axes.get_xlim()
        return low <= _numbers(line.get_xdata())[0] <= high
    height, measured = max(_numbers(line.get_ydata())), max(_heights(axes), default=math.inf)
    if height > _FAR * measured:
        return False
    axes.set_ylim(top=max(axes.get_ylim()[1], _ABOVE_STATED * height))
    return True


def _without_hidden_floor(figure: Figure) -> list[str]:
    """Remove the line of the path alone if it lies at the edge of the axes or beyond."""
    said = []
    for axes in figure.axes:
        for line in [line for line in axes.lines if line.get_label() == FLOOR]:
            upright = len(set(_numbers(line.get_xdata()))) == 1
            place = _numbers(line.get_xdata() if upright else line.get_ydata())[0]
            axis = axes.transAxes.inverted().transform(axes.transData.transform((place, place)))[0 if upright else 1]
            if not (0 if upright else SEEN) < axis < 1:
                line.remove()
                said.append(
                    f"The path alone, without a DUT, takes {human_number(place)} µs (median), "
                    "too little to be seen here."
                )
    return list(dict.fromkeys(said))


def _legend(figure: Figure) -> None:
    """Draw one legend above all panels: each named artist once, and the common marks that occur."""
    named: dict[str, Any] = {}
    for axes in figure.axes:
        found = list(zip(*axes.get_legend_handles_labels(), strict=True))
        bars_first = sorted(found, key=lambda each: not isinstance(each[0], Container))
        named |= {label: handle for handle, label in bars_first if label not in named}
    drawn = {str(line.get_label()) for axes in figure.axes for line in axes.lines}
    for label, (marker, words) in MARKS.items():
        if label in drawn:
            face = PAPER if label == HOLLOW else MUTED
            named[words] = Line2D([], [], ls="", marker=marker, ms=4.2, mfc=face, mec=MUTED, mew=1.1)
    if not named:
        return
    columns = _columns([len(name) + _HANDLE_CHARACTERS for name in named], figure.get_figwidth() / WIDTH_INCH)
    figure.set_figheight(figure.get_figheight() + _LEGEND_LINE_INCH * (math.ceil(len(named) / columns) - 1))
    figure.legend(list(named.values()), list(named), loc="outside upper left", ncols=columns)


def _columns(characters: Sequence[int], width: float) -> int:
    """Return the largest number of legend columns that fit a share of a page, when entries fill them one by one."""
    for columns in range(len(characters), 1, -1):
        # As in matplotlib, the first columns hold one entry more if the division leaves a remainder.
        widest = [max(column) for column in np.array_split(characters, columns)]
        if sum(widest) <= _LEGEND_CHARACTERS * width:
            return columns
    return 1
