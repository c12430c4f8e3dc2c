# SPDX-License-Identifier: BSD-3-Clause
"""Finish a drawn figure: remove empty panels, set axes that no interval crushes, add one legend."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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

# Of the height of a figure, what is no panel: legend and axis labels. Of the width of a panel, what the labels take.
AROUND_INCH = 0.5
_LABELS_INCH = 0.8
_ABSENT_INCH = 1.4
# Around the values of a panel, how much room intervals get at most, as a share of what the values span.
_ROOM = 1.0
# On a logarithmic axis values span at least this factor.
_LEAST_FACTOR = 4.0
# Of an interval that ends inside the axes, the room behind it.
BEHIND = 0.04
# Between intervals at one place that overlap: two of them stay behind the marker.
APART_POINTS, POINTS_PER_INCH = 2.4, 72
_MARK_INCH = 0.05
# Of the height of the axes, about what a marker covers: an interval that is shorter is hidden, wherever it stands.
_MARKER_SHARE = 0.03
# Nearer to the edge of the axes than this share, a line is not seen.
SEEN = 0.02
# A statement of a paper that lies this many times above the measured values would press them flat.
_FAR = 4
_ABOVE_STATED = 1.08
_LEGEND_CHARACTERS = 125  # of a line as wide as a page
_HANDLE_CHARACTERS = 8
_LEGEND_LINE_INCH = 0.16
_THOUSAND = 1000
# What marks mean that any figure may have: label of the artist -> (marker, words).
MARKS = {HOLLOW: ("o", f"hollow: {NO_INTERVAL}"), CUT: ("^", "the interval goes on beyond the axis")}


def finish(figure: Figure, keeps_absent: bool = False) -> list[str]:
    """Brings a drawn figure into its last form; sentences for the caption about what it does not show.

    Args:
        figure: as `PaperFigure.draw` returns it.
        keeps_absent: leave panels without data where they are.
    """
    said = [] if keeps_absent else _without_absent(figure)
    for axes in figure.axes:
        _hold(axes)
        _separate_thousands(axes)
    said += _stated(figure)
    for axes in figure.axes:
        _mark_cuts(axes)
    said += _without_hidden_floor(figure)
    _legend(figure)
    return said


def _separate_thousands(axes: Axes) -> None:
    """Ticks that matplotlib wrote by itself as all other numbers are written: 1,250."""
    if isinstance(axes.yaxis.get_major_formatter(), ScalarFormatter) and max(map(abs, axes.get_ylim())) >= _THOUSAND:
        axes.yaxis.set_major_formatter(lambda value, _: human_number(value, 6))


def _without_absent(figure: Figure) -> list[str]:
    """Takes out panels that only say why they are empty; where there is nothing else, one of them stays."""
    for axes in [each for each in figure.axes if not each.get_visible()]:
        figure.delaxes(axes)
    reasons = {axes: reason for axes in figure.axes if (reason := absent_reason(axes))}
    kept = [axes for axes in figure.axes if axes not in reasons]
    if not reasons or (not kept and len(reasons) == 1):
        return []
    columns, rows = _grid(figure)
    titles = _by_reason(reasons)
    for axes in reasons:
        figure.delaxes(axes)
    if not kept:
        return _one_reason(figure, titles)
    _arrange(figure, kept, columns, rows)
    told = "; ".join(f"{', '.join(names)}, because {reason}" for reason, names in titles.items())
    return [f"Absent, so not drawn: {told}."]


def _by_reason(reasons: Mapping[Axes, str]) -> dict[str, list[str]]:
    """Reason -> titles of the panels that gave it."""
    titles: dict[str, list[str]] = {}
    for axes, reason in reasons.items():
        titles.setdefault(reason, []).append(axes.get_title(loc="left"))
    return {reason: list(dict.fromkeys(filter(None, names))) for reason, names in titles.items()}


def _one_reason(figure: Figure, titles: Mapping[str, Sequence[str]]) -> list[str]:
    """One low panel with the first reason; a sentence for the others."""
    first, *others = titles
    figure.set_figheight(_ABSENT_INCH)
    absent_panel(figure.subplots(), first, 100)
    return [f"{', '.join(titles[reason])}: absent, because {reason}." for reason in others]


def _grid(figure: Figure) -> tuple[int, int]:
    """Columns and rows of the panels."""
    places = [place for axes in figure.axes if (place := axes.get_subplotspec()) is not None]
    grid = places[0].get_gridspec()
    return grid.ncols, grid.nrows


def _arrange(figure: Figure, kept: Sequence[Axes], most_columns: int, rows_before: int) -> None:
    """The panels that stay, line by line; the figure loses the lines that it no longer needs."""
    columns = min(most_columns, len(kept))
    rows = math.ceil(len(kept) / columns)
    height = (figure.get_figheight() - AROUND_INCH) / rows_before
    figure.set_figheight(AROUND_INCH + rows * height)
    grid = figure.add_gridspec(rows, columns)
    for place, axes in enumerate(kept):
        axes.set_subplotspec(grid[place // columns, place % columns])


def _hold(axes: Axes) -> None:
    """Set limits between which values are told apart: intervals end inside or are cut (see `_mark_cuts`)."""
    whiskers = [line for line in axes.lines if line.get_label() == WHISKER]
    scale = _Log() if axes.get_yscale() == "log" else _Linear()
    sharing = axes.get_shared_y_axes().get_siblings(axes)
    values = [scale.of(value) for each in sharing for value in _heights(each) if scale.has(value)]
    if not whiskers or not values:
        return
    bottom, top = (scale.of(max(edge, scale.least)) for edge in axes.get_ylim())
    from_zero = scale.zero and bottom >= 0
    low, high = min([*values, 0.0] if from_zero else values), max(values)
    span = max(high - low, scale.least_span) or abs(high) or 1.0
    room = min(_ROOM * span, scale.most_room)
    every = [line for each in sharing for line in each.lines if line.get_label() == WHISKER]
    reach = {line: [scale.of(y) if scale.has(y) else -math.inf for y in _numbers(line.get_ydata())] for line in every}
    ends = list(reach.values())
    before = top if top <= high + room else high + BEHIND * span
    top = min(high + room, max(before, *(end + BEHIND * span for _, end in ends)))
    if not from_zero:
        bottom = max(low - room, min(bottom, *(end - BEHIND * span for end, _ in ends)))
        short = max(0.0, scale.least_span - (top - bottom)) / 2
        bottom, top = bottom - short, top + short
    axes.set_ylim(scale.back(bottom), scale.back(top))
    _side_by_side(axes, whiskers, [reach[line] for line in whiskers], _MARKER_SHARE * (top - bottom))


def _mark_cuts(axes: Axes) -> None:
    """Mark the intervals that leave the axes, at their edge, once nothing moves it any more."""
    bottom, top = axes.get_ylim()
    below = bottom / (top / bottom) ** BEHIND if axes.get_yscale() == "log" else bottom - BEHIND * (top - bottom)
    for line in [line for line in axes.lines if line.get_label() == WHISKER]:
        x, (lower, upper) = _numbers(line.get_xdata())[0], _numbers(line.get_ydata())
        _cut(axes, line, x, top if upper > top else None, "^")
        _cut(axes, line, x, bottom if lower < below else None, "v")


def _side_by_side(axes: Axes, whiskers: Sequence[Line2D], ends: Sequence[Sequence[float]], marker: float) -> None:
    """Moves intervals at one place apart where they overlap: the last one would hide the others.

    Args:
        axes: of the lines.
        whiskers: an interval each.
        ends: lower and upper end of each along the axis.
        marker: the height that a marker covers, along the axis; what is shorter is hidden by it and stays.
    """
    places: dict[float, list[_Reach]] = {}
    for rank, (line, (lower, upper)) in enumerate(zip(whiskers, ends, strict=True)):
        if upper - lower > marker:
            places.setdefault(_numbers(line.get_xdata())[0], []).append(_Reach(lower, upper, rank))
    figure = axes.get_figure(root=True)
    assert figure is not None
    furthest = 0.0
    for meeting in (group for found in places.values() for group in _meeting(found)):
        lanes = _lanes(meeting)
        for each, lane in lanes.items():
            inches = (lane - max(lanes.values()) / 2) * APART_POINTS / POINTS_PER_INCH
            moved = ScaledTranslation(inches, 0, figure.dpi_scale_trans)
            whiskers[each.rank].set_transform(axes.transData + moved)
            furthest = max(furthest, inches)
    if furthest:
        _keep_inside(axes, figure, list(places), furthest)


def _keep_inside(axes: Axes, figure: Figure, places: Sequence[float], inches: float) -> None:
    """Lets the axis reach so far beyond the first and the last place, and a mark further."""
    scale = axes.xaxis.get_transform()
    first, last = scale.transform([min(places), max(places)])
    low, high = scale.transform(axes.get_xlim())
    share = (inches + _MARK_INCH) / (figure.get_figwidth() / _grid(figure)[0] - _LABELS_INCH)
    room = share * (high - low) / (1 - 2 * share)
    axes.set_xlim(*scale.inverted().transform([min(low, first - room), max(high, last + room)]))


class _Reach(NamedTuple):
    """An interval along the axis, and its place among those of the axes."""

    lower: float
    upper: float
    rank: int


def _meeting(found: Sequence[_Reach]) -> list[list[_Reach]]:
    """Groups of intervals that overlap, directly or through others, each in the order of its lines."""
    groups: list[list[_Reach]] = []
    for each in sorted(found):
        if groups and each.lower <= max(other.upper for other in groups[-1]):
            groups[-1].append(each)
        else:
            groups.append([each])
    return [sorted(group, key=lambda each: each.rank) for group in groups]


def _lanes(meeting: Sequence[_Reach]) -> dict[_Reach, int]:
    """For each interval the first lane in which it meets none before it."""
    lanes: dict[_Reach, int] = {}
    for each in meeting:
        taken = {lanes[other] for other in lanes if other.lower <= each.upper and each.lower <= other.upper}
        lanes[each] = next(lane for lane in itertools.count() if lane not in taken)
    return lanes


def _cut(axes: Axes, line: Line2D, x: float, y: float | None, marker: str) -> None:
    """A mark where an interval leaves the axes; none where it does not."""
    if y is not None:
        (mark,) = axes.plot(x, y, marker, ms=5, color=line.get_color(), clip_on=False, zorder=6, label=CUT)
        mark.set_transform(line.get_transform())


class _Linear:
    zero, least, least_span, most_room = True, -math.inf, 0.0, math.inf

    def has(self, value: float) -> bool:
        return math.isfinite(value)

    def of(self, value: float) -> float:
        return value

    def back(self, place: float) -> float:
        return place


class _Log(_Linear):
    zero, least, least_span, most_room = False, float(np.finfo(float).tiny), math.log10(_LEAST_FACTOR), 1.0

    def has(self, value: float) -> bool:
        return math.isfinite(value) and value > 0

    def of(self, value: float) -> float:
        return math.log10(value)

    def back(self, place: float) -> float:
        return float(10**place)


def _numbers(values: object) -> list[float]:
    return [float(value) for value in np.asarray(values, dtype=float)]


def _heights(axes: Axes) -> list[float]:
    """Where values are drawn: of lines and marks that belong to data, and of bars."""
    lines = [
        line
        for line in axes.lines
        if line.get_label() not in (WHISKER, FLOOR) and not _words_stated(line) and _in_data(axes, line)
    ]
    bars = [patch for bars in axes.containers for patch in bars if isinstance(patch, Rectangle)]
    ends = [end for bar in bars for end in (bar.get_y(), bar.get_y() + bar.get_height())]
    return [value for line in lines for value in _numbers(line.get_ydata())] + ends


def _in_data(axes: Axes, line: Line2D) -> bool:
    """Tell whether a line stands for data; one across the whole axes does not."""
    return line.get_transform() == axes.transData


def _words_stated(line: Line2D) -> str:
    """The words of a mark that stands for what a paper states; empty for others."""
    label = str(line.get_label())
    return label.removeprefix(STATED) if label.startswith(STATED) else ""


def _stated(figure: Figure) -> list[str]:
    """Makes room for what papers state; what lies far beyond the axes is taken out and said."""
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
    """Tell whether the axes reach a mark of a paper; they are made higher where that costs little."""
    if not _in_data(axes, line):
        low, high = axes.get_xlim()
        return low <= _numbers(line.get_xdata())[0] <= high
    height, measured = max(_numbers(line.get_ydata())), max(_heights(axes), default=math.inf)
    if height > _FAR * measured:
        return False
    axes.set_ylim(top=max(axes.get_ylim()[1], _ABOVE_STATED * height))
    return True


def _without_hidden_floor(figure: Figure) -> list[str]:
    """Takes out the line of the path alone where it lies upon the edge of the axes or beyond it."""
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
    """One legend above all panels: each drawn thing that has a name, once, and the marks that any figure may have."""
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
    """The most columns of a legend that fit into the figure; entries fill one column after the other.

    Args:
        characters: of each entry with its mark.
        width: of the figure, as a share of a page.
    """
    for columns in range(len(characters), 1, -1):
        # As matplotlib fills them: the first columns hold one more where it does not come out even.
        widest = [max(column) for column in np.array_split(characters, columns)]
        if sum(widest) <= _LEGEND_CHARACTERS * width:
            return columns
    return 1
