# SPDX-License-Identifier: BSD-3-Clause
"""C-F3 and C-F4: time in the system with one queue for all cores and with a queue each (COREC figures 3 and 4)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import MILLION, US_PER_NS, FigureData, by_level, levels_of
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import absent_figure, absent_panel, log_y_axis, mean_line, new_figure
from pollscope.base.units import counted

NAMES = {"scale-out": "a queue for each core", "corec": "one queue for all cores"}
METRICS = {"latency_sent_mean_ns": "mean", "latency_sent_p99_ns": "99th percentile"}
LOADS = ("load_of_max", "load_pps")


def draw(data: FigureData) -> Figure:
    """A panel for each number of cores and each metric, a line for each organisation."""
    found = data.by_point("latency_sent_mean_ns", "cores")
    cores = sorted({int(each.levels["cores"]) for each in found})
    if not cores:
        return absent_figure(data.absence("latency_sent_mean_ns"), 1.4)
    figure = new_figure(2.3 * len(cores) + 0.5)
    panels = figure.subplots(len(cores), len(METRICS), squeeze=False)
    for row, number in zip(panels, cores, strict=True):
        for axes, (metric, name) in zip(row, METRICS.items(), strict=True):
            axes.set_title(f"{counted(number, 'core')}: {name}")
            _over_load(axes, data, metric, number)
    return figure


def _over_load(axes: Axes, data: FigureData, metric: str, cores: int) -> None:
    every = data.by_point(metric)
    load = next((name for name in LOADS if any(name in each.levels for each in every)), LOADS[0])
    found = [each for each in every if each.levels.get("cores") == cores and load in each.levels]
    if not found:
        absent_panel(axes, data.absence(metric))
        return
    share, scale = load == "load_of_max", 100.0 if load == "load_of_max" else 1 / MILLION
    for rank, (organisation, name) in enumerate(NAMES.items()):
        own = [each for each in found if each.levels.get("organisation", "scale-out") == organisation]
        if members := by_level(own, load):
            mean_line(axes, levels_of(members, load, scale), members, US_PER_NS, rank, name)
    axes.set_xlabel("Load (% of what the cores can do)" if share else "Offered load (Mpps)")
    axes.set_ylabel("Time in the system (µs)")
    log_y_axis(axes)


C_F3 = PaperFigure(
    "C-F3",
    "corec",
    "Time in the system against load with one queue for all cores and with a queue each, exponential service",
    draw,
    along=LOADS,
    beside=("cores", "queues", "organisation"),
)
C_F4 = PaperFigure(
    "C-F4",
    "corec",
    "Time in the system against load with one queue for all cores and with a queue each, constant service",
    draw,
    along=LOADS,
    beside=("cores", "queues", "organisation"),
)
