# SPDX-License-Identifier: BSD-3-Clause
"""Draw two runs, or the levels of a factor, side by side: the sides with intervals, ratios, and differences."""

import math
import textwrap
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from pollscope.analysis.compare import Difference, change_text
from pollscope.analysis.figures.style import INK, LINES, MARKERS, MUTED, PAPER, absent_panel, amount_axis, new_figure
from pollscope.base.units import human_number
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.stats.estimates import Estimate

LEGEND_INCH, PANEL_INCH, SIDE_INCH = 0.5, 0.62, 0.145
_POINT_CHARACTERS = 30
_SPREAD = 0.8  # share of the distance between two points that the sides of one take
TICKS = 4
# With more lines a figure is unreadable: the most informative ones are drawn, and the caption says so.
_MOST_INCH = 8.5
# Amounts that span more than this factor, and ratios that span more than that, lie on a logarithmic axis.
_WIDE_AMOUNTS, _WIDE_RATIOS = 50.0, 3.0
_EDGE = 0.03  # share of the axis: room for the mark of a value at the limit of the metric


def draw_comparison(differences: Sequence[Difference]) -> Figure:
    """Draw, for each metric and point, the sides with their intervals and beside them the ratios to the first.

    Args:
        differences: at least one; of many, those of `told_most` are drawn.
    """
    differences = told_most(differences)
    by_metric = {each.metric: [other for other in differences if other.metric == each.metric] for each in differences}
    ranks = _ranks(differences)
    heights = [PANEL_INCH + SIDE_INCH * len(ranks) * len(_points(found)) for found in by_metric.values()]
    figure = new_figure(LEGEND_INCH + sum(heights))
    panels = figure.subplots(len(by_metric), 2, squeeze=False, height_ratios=heights, width_ratios=(3, 2))
    for (values, ratios), (metric, found) in zip(panels, by_metric.items(), strict=True):
        _draw_sides(values, metric, found, ranks)
        _draw_ratios(ratios, found, ranks)
    firsts = {each.first_name for each in differences}
    panels[0][1].set_title(f"Ratio to {firsts.pop() if len(firsts) == 1 else 'the first'}")
    figure.legend(handles=_handles(ranks, differences), loc="outside upper left", ncols=4)
    return figure


def told_most(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences that fit into a figure: those of the points that differ, the largest ratios first."""

    def rank(place: tuple[str, str]) -> tuple[bool, float]:
        here = [each for each in differences if (each.metric, each.point) == place]
        apart = [abs(math.log(each.ratio.value)) for each in here if each.ratio.value > 0]
        return not any(each.beyond_noise for each in here), -max(apart, default=math.inf)

    sides, left = len(_ranks(differences)), _MOST_INCH - LEGEND_INCH
    kept: set[tuple[str, str]] = set()
    for metric, point in sorted(dict.fromkeys((each.metric, each.point) for each in differences), key=rank):
        needs = SIDE_INCH * sides + (PANEL_INCH if metric not in {other for other, _ in kept} else 0.0)
        if needs <= left or not kept:
            kept.add((metric, point))
            left -= needs
    return [each for each in differences if (each.metric, each.point) in kept]


def _points(found: Sequence[Difference]) -> list[str]:
    return list(dict.fromkeys(each.point for each in found))


def _ranks(differences: Sequence[Difference]) -> dict[str, int]:
    names = dict.fromkeys(name for each in differences for name in (each.first_name, each.second_name))
    return {name: rank for rank, name in enumerate(names)}


def _sides(found: Sequence[Difference], point: str) -> dict[str, Estimate]:
    here = [each for each in found if each.point == point]
    return {here[0].first_name: here[0].first} | {each.second_name: each.second for each in here}


def _draw_sides(axes: Axes, metric: str, found: Sequence[Difference], ranks: dict[str, int]) -> None:
    described, points = metric_dictionary()[metric], _points(found)
    axes.set_title(described.title)
    for line, point in enumerate(points):
        for name, estimate in _sides(found, point).items():
            _mark(axes, estimate, line + _shift(ranks[name], len(ranks)), ranks[name], estimate.has_interval)
    _lines(axes, [textwrap.fill(point, _POINT_CHARACTERS) for point in points])
    ends = [end.value for each in found for end in (each.first, each.second)]
    if found[0].relative:
        axes.set_xlabel("Share of its own baseline")
    elif not _log_where_wide(axes, ends, _WIDE_AMOUNTS, described.text):
        (least, most), (low, high) = described.limits, axes.get_xlim()
        least = least if min(ends) >= least else low  # a loss is negative if foreign packets were counted
        margin = _EDGE * (min(high, most) - max(low, least) or 1.0)
        axes.set_xlim(max(low, least - margin), min(high, most + margin))
        amount_axis(axes.xaxis, described, TICKS)


def _draw_ratios(axes: Axes, found: Sequence[Difference], ranks: dict[str, int]) -> None:
    if all(math.isnan(each.ratio.value) for each in found):
        absent_panel(axes, "the first is zero")
        return
    points = _points(found)
    axes.axvline(1, color=MUTED, lw=0.9, zorder=1)
    for each in found:
        rank = ranks[each.second_name]
        y = points.index(each.point) + _shift(rank, len(ranks))
        if not math.isnan(each.ratio.value):
            _mark(axes, each.ratio, y, rank, each.beyond_noise)
        _say(axes, each, y)
    _lines(axes, [""] * len(points))
    _log_where_wide(
        axes, [each.ratio.value for each in found if not math.isnan(each.ratio.value)], _WIDE_RATIOS, human_number
    )


def _log_where_wide(axes: Axes, values: Sequence[float], factor: float, text: Callable[[float], str]) -> bool:
    """Make the axis of values logarithmic where all are above 0 and they span more than a factor; tell whether."""
    if min(values) <= 0 or max(values) <= factor * min(values):
        return False
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 1.3, max(values) * 1.3)
    decades = math.log10(max(values) / min(values))
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 1.5 else (1.0,), numticks=TICKS + 2))
    axes.xaxis.set_major_formatter(lambda value, _: text(value))
    axes.xaxis.set_minor_locator(NullLocator())
    return True


def _say(axes: Axes, each: Difference, y: float) -> None:
    """Write the ratio and the difference beside the axes, in bold when the difference is larger than noise."""
    ratio = "no ratio" if math.isnan(each.ratio.value) else human_number(each.ratio.value)
    text = f"{ratio}  ({change_text(each, interval=False)})"
    colour, weight = (INK, "bold") if each.beyond_noise else (MUTED, "normal")
    place = ("axes fraction", "data")
    axes.annotate(text, (1.02, y), xycoords=place, va="center", fontsize=7, color=colour, fontweight=weight)


def _shift(rank: int, count: int) -> float:
    return _SPREAD * ((rank + 0.5) / count - 0.5)


def _mark(axes: Axes, estimate: Estimate, y: float, rank: int, filled: bool) -> None:
    """Draw a value and its interval; hollow if there is no interval, or none that says anything."""
    colour = LINES[rank % len(LINES)]
    face = colour if filled else PAPER
    if estimate.has_interval:
        axes.plot([estimate.low, estimate.high], [y, y], color=colour, lw=1.6, solid_capstyle="butt", zorder=3)
    axes.plot(estimate.value, y, MARKERS[rank % len(MARKERS)], ms=4.2, mfc=face, mec=colour, mew=1.1, zorder=4)


def _lines(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    if axes.get_xscale() != "log":
        axes.xaxis.set_major_locator(MaxNLocator(TICKS))


def _handles(ranks: dict[str, int], differences: Sequence[Difference]) -> list[Line2D]:
    """Return legend entries for the sides, and for filled and hollow marks if there are any."""
    sides = [
        Line2D([], [], color=LINES[rank % len(LINES)], marker=MARKERS[rank % len(MARKERS)], ms=4.2, label=name)
        for name, rank in ranks.items()
    ]
    drawn = {each.beyond_noise for each in differences if not math.isnan(each.ratio.value)}
    hollow = False in drawn or not all(end.has_interval for each in differences for end in (each.first, each.second))
    said = {"difference larger than noise": MUTED} if True in drawn else {}
    said |= {"difference within noise, or its interval is unbounded": PAPER} if hollow else {}
    return sides + [
        Line2D([], [], color=MUTED, marker="o", ms=4.2, mec=MUTED, mew=1.1, ls="", mfc=face, label=label)
        for label, face in said.items()
    ]
