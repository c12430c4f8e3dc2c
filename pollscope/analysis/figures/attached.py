# SPDX-License-Identifier: BSD-3-Clause
"""Draw where the cycles of a foreign program's polling threads go (a run of `pollscope attach`)."""

from typing import Any

from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import INK, PAPER, PARTS, absent_figure, new_figure, whisker

KIND = "attach"
_BAR_WIDTH = 0.6
# From below; the tax is what lies on the lowest part.
_STACK = {
    "useful_share": ("Useful", PARTS["process_share"][1]),
    "empty_poll_share": PARTS["empty_poll_share"],
    "interrupted_share": ("Something else ran", PARTS["loop_share"][1]),
    "instrumentation_share": PARTS["instrumentation_share"],
}


def draw(data: FigureData) -> Figure:
    """Draw a stacked bar per polling thread, with the interval of its useful cycles."""
    useful = data.by_point("useful_share")
    if not useful:
        return absent_figure(data.absence("useful_share"), 2.2)
    figure = new_figure(2.8)
    axes = figure.subplots()
    names = [str(sample.levels.get("lcore", "all")) for sample in useful]
    floor = dict.fromkeys(names, 0.0)
    for metric, (label, colour) in _STACK.items():
        for sample in data.by_point(metric):
            name = str(sample.levels.get("lcore", "all"))
            height = 100 * max(0.0, sample.estimate.value)
            edge: Any = {"edgecolor": PAPER, "linewidth": 0.3}
            axes.bar(names.index(name), height, _BAR_WIDTH, floor[name], color=colour, label=label, **edge)
            floor[name] += height
    for place, sample in enumerate(useful):
        if sample.estimate.has_interval:
            whisker(axes, place, sample.estimate.scaled(100), INK)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(0, 100)
    axes.set_xlabel("Lcore")
    axes.set_ylabel("Cycles (%)")
    return figure


FIGURE = PaperFigure("ATTACH", None, "Cycles of a running program's polling threads by class", draw)
