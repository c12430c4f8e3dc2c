# SPDX-License-Identifier: BSD-3-Clause
"""S-F6: IPC of the polling core against offered load, by number of queues (SoCC'19 figure 6)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, levels_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import GRID, absent_figure, absent_panel, mean_line, new_figure
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import groups
from pollscope.base.units import human_number

PANELS = {"ipc": "Whole window", "ipc_useful": "Useful part", "ipc_polling": "Polling part"}


def draw(data: FigureData) -> Figure:
    """One panel for the window and one for each part of it."""
    reasons = {data.absence(metric) for metric in PANELS if not data.by_point(metric)}
    values = [sample.estimate.value for metric in PANELS for sample in data.by_point(metric)]
    if not values and len(reasons) == 1:
        return absent_figure(reasons.pop(), 1.6)
    figure = new_figure(2.6)
    for axes, (metric, title) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
        axes.set_title(title)
        _panel(axes, data, metric, 1.08 * max(*values, stated("socc19", "S-F6")["ipc_average"][1]))
    return figure


def _panel(axes: Axes, data: FigureData, metric: str, top: float) -> None:
    found = data.by_point(metric)
    if not found:
        absent_panel(axes, data.absence(metric), 28)
        return
    for rank, (label, members) in enumerate(groups(found, "load_of_max")):
        mean_line(axes, levels_of(members, "load_of_max", 100), members, 1, rank, _queues_in_words(label))
    if metric == "ipc":
        _stated_range(axes)
    axes.set_ylim(0, top)
    axes.set_xlim(-4, 104)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel("Offered load (% of maximum)")
    axes.set_ylabel("Instructions per core cycle")


def _queues_in_words(label: str) -> str:
    number = label.removeprefix("queues ")
    return f"{number} queue" if number == "1" else f"{number} queues"


def _stated_range(axes: Axes) -> None:
    low, high = stated("socc19", "S-F6")["ipc_average"]
    label = f"average in {short_name('socc19')}, {human_number(low, 6)} to {human_number(high, 6)}"
    axes.axhspan(low, high, color=GRID, alpha=0.6, zorder=0, lw=0, label=label)


FIGURE = PaperFigure(
    "S-F6",
    "socc19",
    "Instructions per cycle of one polling core against offered load",
    draw,
    along=("load_of_max",),
    leaves_out_interruptions=True,
)
