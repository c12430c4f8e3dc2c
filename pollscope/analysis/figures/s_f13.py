# SPDX-License-Identifier: BSD-3-Clause
"""S-F13: what core-queue pairs receive and send, by packet size (SoCC'19 figure 13)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pollscope.analysis.figures.data import FEEDS, MILLION, FigureData, by_feed, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import (
    DASHES,
    GRID,
    MARKERS,
    MUTED,
    absent_panel,
    interval_line,
    level_axis,
    new_figure,
    ring_generator_limits,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues

_PROPORTIONAL = "in proportion to one core"
PANELS = {"rx_pps": ("Received", "Received (Mpps)"), "tx_pps": ("Sent", "Sent (Mpps)")}


def draw(data: FigureData) -> Figure:
    """Received and sent packets, with what proportional growth would be, and the paper's plateau."""
    figure = new_figure(3.1)
    for axes, (metric, (title, label)) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        axes.set_title(title)
        sizes = _by_size(data.by_point(metric))
        if not sizes:
            absent_panel(axes, data.absence(metric))
            continue
        for rank, (name, found) in enumerate(sizes.items()):
            for feed, members in by_feed(found).items():
                _one(axes, members, rank, name, feed)
        limited = data.generator_limited(metric)
        ring_generator_limits(axes, _cores(limited), [each.estimate.value / MILLION for each in limited])
        level_axis(axes, sorted({cores for found in sizes.values() for cores in _cores(found)}))
        axes.set_xlabel("Cores, each with a queue of its own")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(6))
        _plateau(axes)
    return figure


def _by_size(found: Sequence[PointValues]) -> dict[str, list[PointValues]]:
    """Samples by packet size in words, each by rising number of cores."""
    sizes: dict[str, list[PointValues]] = {}
    for sample in sorted(found, key=lambda each: (str(each.levels.get("frame")).zfill(6), each.levels.get("cores", 1))):
        name = _size_text(sample.levels["frame"]) if "frame" in sample.levels else "one size"
        sizes.setdefault(name, []).append(sample)
    return sizes


def _size_text(frame: object) -> str:
    return f"{frame} B" if isinstance(frame, int | float) else str(frame)


def _cores(found: Sequence[PointValues]) -> list[float]:
    return [float(sample.levels.get("cores", 1)) for sample in found]


def _one(axes: Axes, found: Sequence[PointValues], rank: int, name: str, feed: str) -> None:
    """Draw one line; other colours and dashes mark rings that the virtual NIC keeps full."""
    cores, full = _cores(found), feed == FEEDS["infinite"]
    words, estimates = f"{name}, {feed}" if feed else name, [each.estimate.scaled(1 / MILLION) for each in found]
    interval_line(axes, cores, estimates, rank + 4 * full, words, DASHES[full], marker=MARKERS[rank])
    if cores[0] == 1 and len(cores) > 1:
        ideal = [estimates[0].value * count for count in cores]
        axes.plot(cores, ideal, color=MUTED, lw=0.8, ls=(0, (2, 2)), label=_PROPORTIONAL)


def _plateau(axes: Axes) -> None:
    first, last = stated("socc19", "S-F13")["plateau_queues"]
    low, high = axes.get_xlim()
    if high < last:
        return
    words = f"{short_name('socc19')}: plateau from {first} to {last} cores"
    axes.axvspan(first, last, color=GRID, alpha=0.6, zorder=0, label=words)
    axes.set_xlim(low, high)


FIGURE = PaperFigure(
    "S-F13",
    "socc19",
    "Receive and transmit throughput against the number of core-queue pairs, by packet size",
    draw,
    along=("cores",),
    beside=("queues", "frame", "feed"),
)
