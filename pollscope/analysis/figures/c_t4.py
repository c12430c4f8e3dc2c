# SPDX-License-Identifier: BSD-3-Clause
"""C-T4: order of the packets of replayed traces behind cores that share a receive queue (COREC table 4)."""

from pathlib import PurePath
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, by_level, levels_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import absent_panel, level_axis, mean_line, new_figure
from pollscope.analysis.papers import stated


class _Panel(NamedTuple):
    title: str
    metric: str
    scale: float
    label: str


PANELS = (
    _Panel("Reordered", "reordered_share", 100.0, "Packets (%)"),
    _Panel("Displaced, early or late", "displaced_share", 100.0, "Packets (%)"),
    _Panel("Largest distance", "reordering_distance_max", 1.0, "Packets of the flow"),
)

# Of the table as data/papers has it.
KEYS = ("reordered_share", "distance_max")


def draw(data: FigureData) -> Figure:
    """Over cores, a line for each trace at the lowest load, which is the paper's; its table's values stand below."""
    figure = new_figure(3.2)
    for axes, panel in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        axes.set_title(panel.title)
        _over_cores(axes, data, panel)
    paper = stated("corec", "C-T4")
    shares, distances = ([value for each in paper[key].values() for value in each] for key in KEYS)
    words = f"{100 * min(shares):.2f} to {100 * max(shares):.2f} % and {min(distances)} to {max(distances)} packets"
    figure.supxlabel(f"{short_name('corec')}: {words}, MAWI traces on 2, 4 and 8 cores", fontsize=8)
    return figure


def _over_cores(axes: Axes, data: FigureData, panel: _Panel) -> None:
    found = data.by_point(panel.metric, "cores", "trace")
    if not found:
        absent_panel(axes, data.absence(panel.metric), 30)
        return
    lowest = min(each.levels.get("load_of_max", 0) for each in found)
    found = [each for each in found if each.levels.get("load_of_max", 0) == lowest]
    for rank, trace in enumerate(sorted({str(each.levels["trace"]) for each in found})):
        members = by_level([each for each in found if each.levels["trace"] == trace], "cores")
        mean_line(axes, levels_of(members, "cores"), members, panel.scale, rank, PurePath(trace).stem)
    level_axis(axes, sorted({*levels_of(found, "cores")}))
    axes.set_xlabel("Cores at one receive queue")
    axes.set_ylabel(panel.label)
    axes.set_ylim(bottom=0)


FIGURE = PaperFigure(
    "C-T4",
    "corec",
    "Reordered packets of replayed traces, cores that share one receive queue",
    draw,
    along=("cores",),
    beside=("trace",),
)
