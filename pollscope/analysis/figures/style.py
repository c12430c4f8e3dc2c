# SPDX-License-Identifier: BSD-3-Clause
"""One look for all figures: sizes, colours, axes, captions, and panels that say why they are empty."""

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator, NullLocator

from pollscope.analysis.figures.points import ESTIMATES
from pollscope.analysis.point_values import PointValues
from pollscope.base.paths import data_folder
from pollscope.base.units import human_number
from pollscope.metrics.dictionary import Metric
from pollscope.stats.estimates import Estimate

WIDTH_INCH = 7.2  # two columns of a printed page
COLUMN_INCH = 3.5  # one column
FONT = "DejaVu Sans"  # comes with matplotlib, so a figure looks the same everywhere
_CAPTION_CHARACTERS = 141
_LEFT = 0.012  # of a caption, as a share of the width
# Numbers of up to four digits that stand side by side below half a figure, and below an inch of an axis.
MOST_TICKS = 11
_TICKS_PER_INCH = 3.5
# Width of a mark with its margins, as a share of an axis of half a figure.
_MARK_SHARE = 0.025
# An axis that spans less than this factor has ticks between its powers of ten as well.
_FEW_DECADES = 300

# Neutral colours. The report replaces exactly these in dark mode, so nothing else may use them.
INK, MUTED, GRID, PAPER = "#1b2026", "#5b6570", "#d9dee3", "#ffffff"
# Blue for useful work and orange for tax: distinct with every colour blindness, and neighbours differ in grey.
PARTS = {
    "empty_poll_share": ("Empty polls", "#e07b2c"),
    "loop_share": ("Loop", "#f2b27c"),
    "instrumentation_share": ("Instrumentation", "#6f767e"),
    "transmit_share": ("Sending", "#b5d3ea"),
    "process_share": ("Processing", "#4b8cc4"),
    "receive_share": ("Receiving", "#1f5a91"),
    "wire_share": ("Wire (virtual NIC)", "#dfe6c9"),
}
# The parts of useful cycles, drawn as one if busy polls of any bar overlap, so that its parts do not add up.
USEFUL_PARTS = ("transmit_share", "process_share", "receive_share")
USEFUL_WHOLE = ("Useful", "#6f9fd0")
# Line colours and markers by rank (Okabe and Ito 2008, without the yellow that vanishes on white).
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d1f", "#7a7a7a", "#5e3c99", "#2f7f7f")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*", "<")
DASHES: Any = (
    *("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1)), (0, (1, 3)), (0, (8, 3)), (0, (2, 4))),
    (0, (4, 1, 1, 1, 1, 1)),
)
# Hatches distinguish neighbouring bars without colour.
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++")
# Labels of artists that finish.py looks for; matplotlib omits labels that begin with _ from legends.
WHISKER, HOLLOW, CUT = "_interval", "_no interval", "_cut interval"
FLOOR = "path alone: one crossing, no DUT (median)"
ABSENT = "absent: "  # of axes: the reason
STATED = "stated: "  # what a paper states beside the data; the words behind it are for the legend

# Any: matplotlib types the keys one by one.
SETTINGS: Any = {
    **mpl.rc_params_from_file(data_folder("configs") / "figures.mplstyle", use_default_template=False),
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "grid.color": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


@contextmanager
def look() -> Iterator[None]:
    """Apply the settings above, and matplotlib's own defaults for all others, for the time of a `with` block.

    matplotlib reads a file matplotlibrc of the current folder, which may be untrusted and could run LaTeX.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield


def absent_panel(axes: Axes, reason: str, width: int = 40) -> None:
    """Draw an empty panel that gives the reason for the missing data, in lines of `width` characters."""
    axes.grid(False)
    axes.tick_params(which="both", bottom=False, left=False, labelbottom=False, labelleft=False)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_linestyle((0, (4, 4)))
        spine.set_color(GRID)
    axes.set_label(ABSENT + reason)
    text = textwrap.fill(f"absent, because {reason}", width)
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=MUTED, fontsize=8)


def absent_reason(axes: Axes) -> str:
    """Return the reason why a panel is empty; an empty text for one that is not."""
    label = str(axes.get_label())
    return label.removeprefix(ABSENT) if label.startswith(ABSENT) else ""


def interval_line(
    axes: Axes,
    x: Sequence[float],
    estimates: Sequence[Estimate],
    rank: int,
    label: str = "",
    dashes: Any = "-",
    *,
    marker: str = "",
) -> None:
    """Draw a line of means with 95 % intervals as whiskers; a mean without an interval is hollow.

    Its rank gives the colour, and the marker unless another one is given.
    """
    colour, marker = LINES[rank % len(LINES)], marker or MARKERS[rank % len(MARKERS)]
    y = [estimate.value for estimate in estimates]
    name = label or "_nolegend_"
    look_of: Any = {"color": colour, "ls": dashes, "marker": marker, "ms": 4.2, "mec": colour, "mew": 1.1, "zorder": 3}
    (line,) = axes.plot(x, y, label=name, **look_of)
    ESTIMATES[line] = label, estimates
    for position, estimate in zip(x, estimates, strict=True):
        if estimate.has_interval:
            whisker(axes, position, estimate, colour)
        else:
            mark: Any = {"ms": 4.2, "mfc": PAPER, "mec": colour, "mew": 1.1, "label": HOLLOW}
            (hollow,) = axes.plot(position, estimate.value, marker, zorder=4, **mark)
            ESTIMATES[hollow] = label, [estimate]


def mean_line(
    axes: Axes,
    x: Sequence[float],
    found: Sequence[PointValues],
    scale: float,
    rank: int,
    label: str = "",
    dashes: Any = "-",
    *,
    marker: str = "",
) -> None:
    """Draw the means of samples, times `scale`, in the style of a rank; of medians, also a dot per trial."""
    for place, each in zip(x, found, strict=True):
        if each.statistic == "median":
            values = [value * scale for value in each.values]
            dots: Any = {"ls": "", "marker": ".", "ms": 2.5, "alpha": 0.5, "zorder": 2}
            axes.plot([place] * len(values), values, color=LINES[rank % len(LINES)], **dots)
    interval_line(axes, x, [each.estimate.scaled(scale) for each in found], rank, label, dashes, marker=marker)


def ratio_bar(axes: Axes, at: float, ratio: Estimate, width: float, rank: int, label: str) -> None:
    """Draw a bar with its number at the foot, and its interval."""
    look_of: Any = {"color": LINES[rank], "edgecolor": PAPER, "linewidth": 0, "hatch": HATCHES[rank]}
    axes.bar(at, ratio.value, width=0.9 * width, label=label, zorder=2, **look_of)
    axes.annotate(
        f"{ratio.value:.2f}", (at, 0), (0, 3), textcoords="offset points", ha="center", fontsize=7.5, color=PAPER,
        bbox={"facecolor": LINES[rank], "edgecolor": "none", "pad": 1.2},
    )  # fmt: skip
    if ratio.has_interval:
        whisker(axes, at, ratio, INK)


def whisker(axes: Axes, x: float, estimate: Estimate, colour: str) -> None:
    """Draw the 95 % interval at one place; a larger marker hides it."""
    ends = [estimate.low, estimate.high]
    axes.plot([x, x], ends, color=colour, lw=1.6, solid_capstyle="butt", zorder=3.5, label=WHISKER)


def least_top(axes: Axes, top: float) -> None:
    """Extend a drawn axis to at least `top` with an invisible point, so that tiny values look tiny."""
    if axes.lines:
        axes.plot(axes.lines[0].get_xdata()[:1], [top], ls="", marker="", label="_least top")  # type: ignore[index]
        axes.set_ylim(top=max(axes.get_ylim()[1], top))


def floor_line(axes: Axes, floor_ns: float | None, along: str = "y") -> None:
    """Mark the latency of the path alone on an axis in microseconds; nothing if it was not measured."""
    if floor_ns is None:
        return
    draw = axes.axhline if along == "y" else axes.axvline
    draw(floor_ns / 1e3, color=MUTED, lw=1.0, ls=(0, (4, 3)), zorder=2, label=FLOOR)


def stated_point(axes: Axes, x: float, y: float, words: str) -> None:
    """Draw a star at a value that a paper states; finish.py prevents it from compressing the data."""
    axes.plot(x, y, "*", ms=9, mfc=PAPER, mec=INK, mew=0.9, ls="", zorder=6, label=STATED + words)


def stated_level(axes: Axes, x: Sequence[float], y: float, words: str) -> None:
    """Draw a level that a paper states for this range of x."""
    axes.plot([x[0], x[-1]], [y, y], color=INK, lw=1.1, ls=(0, (3, 2)), zorder=2, label=STATED + words)


def stated_at(axes: Axes, x: float, words: str, dashes: Any = (0, (3, 2))) -> None:
    """Draw a line across the axes at an x that a paper states; the axes keep their limits."""
    limits = axes.get_xlim()
    axes.axvline(x, color=INK, lw=0.9, ls=dashes, zorder=1, label=STATED + words)
    axes.set_xlim(limits)


class AmountTicks(Formatter):
    """Format ticks with the metric's unit, all with the prefix of the largest."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def __call__(self, value: float, pos: int | None = None) -> str:
        return self._metric.text(value)

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        largest = max((abs(float(value)) for value in values), default=0.0)
        return [self._metric.text(float(value), largest) for value in values]


def amount_axis(axis: Axis, metric: Metric, most_ticks: int) -> None:
    """Make a linear axis of a metric."""
    axis.set_major_locator(MaxNLocator(most_ticks, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(AmountTicks(metric))


def log_y_axis(axes: Axes) -> None:
    """Make a logarithmic axis whose ticks are plain numbers, also where it spans less than a decade."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < _FEW_DECADES else (1.0,)))
    axes.yaxis.set_major_formatter(lambda value, _: human_number(value, 6))
    axes.yaxis.set_minor_locator(NullLocator())


def log2_axis(axes: Axes, levels: Sequence[float]) -> None:
    """Make an axis of base 2 whose ticks are the measured levels, except those too near the next one."""
    axes.set_xscale("log", base=2)
    shown = [levels[-1]] if levels else []
    room = (levels[-1] / levels[0]) ** (1 / MOST_TICKS) if levels else 1.0
    for level in reversed(levels[:-1]):
        if shown[-1] / level >= room:
            shown.append(level)
    axes.set_xticks(shown, [human_number(level, 6) for level in shown])
    axes.minorticks_off()


def level_axis(axes: Axes, levels: Sequence[float]) -> None:
    """Make a linear axis whose ticks are the measured levels, except those too near the next; centre a single one."""
    shown = list(levels[-1:])
    most = min(MOST_TICKS, _TICKS_PER_INCH * axes.get_window_extent().width / axes.figure.dpi)
    for level in reversed(levels[:-1]):
        if (shown[-1] - level) * most >= levels[-1] - levels[0]:
            shown.append(level)
    # The first level is the reference: a neighbour too close to it has no tick.
    if len(shown) > 1:
        shown[-1] = levels[0]
    axes.set_xticks(shown, [human_number(level, 6) for level in shown])
    room = 0.05 * (levels[-1] - levels[0]) or 1.0
    axes.set_xlim(levels[0] - room, levels[-1] + room)


def spread_axis(axes: Axes, levels: Sequence[float]) -> None:
    """Make a logarithmic axis if levels crowd on a linear one, otherwise a linear one."""
    (log2_axis if crowd(levels) else level_axis)(axes, levels)


def crowd(levels: Sequence[float]) -> bool:
    """Return whether more of the sorted levels are separated on a logarithmic axis."""
    return len(levels) > 2 and levels[0] > 0 and _clear([math.log(level) for level in levels]) > _clear(levels)


def _clear(places: Sequence[float]) -> int:
    """Count the places whose marks do not overlap the mark before."""
    room = _MARK_SHARE * (places[-1] - places[0])
    clear = list(places[:1])
    for place in places[1:]:
        clear += [place] if place - clear[-1] >= room else []
    return len(clear)


def watermark(figure: Figure) -> None:
    """Write across a figure that its numbers were computed; the caption may be lost when a figure is copied."""
    figure.text(
        0.5, 0.5, "MODELLED", ha="center", va="center", rotation=20, fontsize=44, fontweight="bold", color=MUTED,
        alpha=0.16, zorder=10,
    )  # fmt: skip


def absent_figure(reason: str, height_inch: float) -> Figure:
    """Make a figure without data that gives the reason."""
    figure = new_figure(height_inch)
    absent_panel(figure.subplots(), reason, 100)
    return figure


def caption(figure: Figure, text: str) -> None:
    """Write text below the figure, wrapped to its width; the saved file grows by the text."""
    most = round(_CAPTION_CHARACTERS * figure.get_figwidth() / WIDTH_INCH)
    # A number and its unit stay on one line: textwrap does not break at a no-break space.
    whole = re.sub(r"(?<=\d) (?=[%\w])|(?<=\bRun) ", "\N{NO-BREAK SPACE}", text)
    written = figure.text(_LEFT, -0.01, "", ha="left", va="top", fontsize=7, color=MUTED, linespacing=1.45)
    for characters in range(most, most // 2, -1):
        wrapped = "\n".join(line for part in whole.split("\n") for line in textwrap.wrap(part, characters))
        written.set_text(wrapped.replace("\N{NO-BREAK SPACE}", " "))
        if written.get_window_extent().width <= (1 - 2 * _LEFT) * figure.bbox.width:
            break


def new_figure(height_inch: float) -> Figure:
    """Make an empty figure of the common width."""
    return Figure(figsize=(WIDTH_INCH, height_inch), layout="constrained")
