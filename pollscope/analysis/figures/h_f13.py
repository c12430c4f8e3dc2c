# SPDX-License-Identifier: BSD-3-Clause
"""H-F13: throughput with a ready set that is searched, relative to one that finds the next queue at once."""

from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.h_f3 import SHAPES
from pollscope.analysis.figures.h_f8 import TASKS
from pollscope.analysis.figures.style import MUTED, absent_figure, new_figure, ratio_bar, stated_level
from pollscope.analysis.papers import stated
from pollscope.stats.estimates import Estimate

SEARCHED, FOUND_AT_ONCE = "linear", "hierarchical"
BAR_WIDTH = 0.36
HEIGHT_INCH = 2.6


def draw(data: FigureData) -> Figure:
    """A group of bars for each task, a bar for each shape."""
    ratios = _ratios(data)
    if not ratios:
        found = data.by_point("tx_pps")
        reason = "the run has no pair of points with both ready sets" if found else data.absence("tx_pps")
        return absent_figure(reason, HEIGHT_INCH)
    figure = new_figure(HEIGHT_INCH)
    axes = figure.subplots()
    tasks = [task for task in TASKS if any(task == each for each, _ in ratios)]
    shapes = [shape for shape in SHAPES if any(shape == each for _, each in ratios)]
    for (task, shape), ratio in ratios.items():
        at = tasks.index(task) + (shapes.index(shape) - (len(shapes) - 1) / 2) * BAR_WIDTH
        ratio_bar(axes, at, ratio, BAR_WIDTH, list(SHAPES).index(shape), SHAPES[shape])
    axes.axhline(1, color=MUTED, lw=0.9, label="hierarchical ready set")
    axes.set_xticks(range(len(tasks)), [TASKS[task].replace(" ", "\n") for task in tasks])
    axes.set_xlim(-0.6, len(tasks) - 0.4)
    axes.set_ylabel("Throughput, relative")
    axes.set_ylim(bottom=0)
    lowest = float(stated("hyperplane", "H-F13")["software_over_hardware_lowest"])
    words = f"{short_name('hyperplane')}: lowest with FB, over a ready set in hardware"
    stated_level(axes, axes.get_xlim(), lowest, words)
    return figure


def _ratios(data: FigureData) -> dict[tuple[str, str], Estimate]:
    """(task, shape) -> the searched ready set over the other one."""
    found = {
        (str(each.levels["workload"]), str(each.levels["shape"]), str(each.levels["ready_set"])): each
        for each in data.by_point("tx_pps", "workload", "shape", "ready_set")
    }
    return {
        (task, shape): found[task, shape, SEARCHED].over(found[task, shape, FOUND_AT_ONCE])
        for task in TASKS
        for shape in SHAPES
        if (task, shape, SEARCHED) in found and (task, shape, FOUND_AT_ONCE) in found
    }


FIGURE = PaperFigure(
    "H-F13",
    "hyperplane",
    "Throughput of QWAIT in software with a linear ready set, relative to a hierarchical one",
    draw,
    along=("ready_set",),
    beside=("workload", "frame", "shape"),
)
