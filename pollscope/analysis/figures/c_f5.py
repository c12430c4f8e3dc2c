# SPDX-License-Identifier: BSD-3-Clause
"""C-F5, C-F6: latency of cores with a queue each and of cores that share one (COREC figures 5 and 6)."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import MILLION, US_PER_NS, FigureData, levels_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.pooled import draw_cumulative, latency_axis, pooled_latencies
from pollscope.analysis.figures.style import (
    DASHES,
    LINES,
    absent_figure,
    absent_panel,
    floor_line,
    log_y_axis,
    mean_line,
    new_figure,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import Level, PointValues
from pollscope.base.units import counted, human_number
from pollscope.stats.histogram import Histogram

NAMES = {"scale-out": "a queue a core", "corec": "one queue for all cores (corec)"}
FACTORS = ("cores", "organisation", "load_of_max")
# Levels of a point, in an order that all metrics share.
Place = tuple[tuple[str, Level], ...]


def draw_load(data: FigureData) -> Figure:
    """C-F5: mean latency over what was offered, a panel for each number of cores."""
    found = data.by_point("latency_sent_mean_ns", "cores", "organisation")
    if not found:
        return absent_figure(data.absence("latency_sent_mean_ns"), 1.2)
    offered = {_place(each): each.estimate.value / MILLION for each in data.by_point("offered_pps")}
    cores = sorted({*levels_of(found, "cores")})
    figure = new_figure(3.0)
    for axes, count in zip(figure.subplots(1, len(cores), squeeze=False, sharey=True).flat, cores, strict=True):
        axes.set_title(counted(count, "core"))
        _over_load(axes, [each for each in found if each.levels["cores"] == count], offered)
        floor_line(axes, data.floor_ns)
    figure.axes[0].set_ylabel("Mean latency (µs)")
    log_y_axis(figure.axes[0])
    limit = stated("corec", "C-F5")["saturation_pps"] / MILLION
    figure.supxlabel(
        f"{short_name('corec')}: with corec flat up to {human_number(limit, 6)} Mpps, on 4 and on 8 cores", fontsize=8
    )
    return figure


def _place(sample: PointValues) -> Place:
    return tuple(sorted(sample.levels.items()))


def _over_load(axes: Axes, found: Sequence[PointValues], offered: Mapping[Place, float]) -> None:
    for rank, (organisation, name) in enumerate(NAMES.items()):
        members = [each for each in found if each.levels["organisation"] == organisation and _place(each) in offered]
        members.sort(key=lambda each: offered[_place(each)])
        if members:
            mean_line(axes, [offered[_place(each)] for each in members], members, US_PER_NS, rank, name, DASHES[rank])
    axes.set_xlabel("Offered (Mpps)")
    axes.set_xlim(left=0)


def draw_distribution(data: FigureData) -> Figure:
    """C-F6: distributions, all packets of a point together; a row for each load, a panel for each number of cores."""
    found = pooled_latencies(data, FACTORS)
    if not found:
        return absent_figure(data.absence("latency_sent_mean_ns"), 1.2)
    cores, loads = (sorted({float(at[place]) for at in found}) for place in (0, 2))
    figure = new_figure(0.6 + 2.4 * len(loads))
    panels = figure.subplots(len(loads), len(cores), squeeze=False, sharey=True)
    for row, load in zip(panels, loads, strict=True):
        for axes, count in zip(row, cores, strict=True):
            axes.set_title(f"{counted(count, 'core')}, {human_number(100 * load, 6)} % of the maximum")
            _curves(axes, data, {str(at[1]): each for at, each in found.items() if (at[0], at[2]) == (count, load)},
                    {"cores": count, "load_of_max": load})  # fmt: skip
        row[0].set_ylabel("Packets with at most that (%)")
    paper = " and ".join(
        f"{human_number(pps / MILLION, 6)} Mpps on {count} cores"
        for count, pps in stated("corec", "C-F6")["load_pps"].items()
    )
    figure.supxlabel(f"{short_name('corec')}: {paper}, of 37 Mpps that its NIC receives", fontsize=8)
    return figure


def _curves(axes: Axes, data: FigureData, found: Mapping[str, Histogram], levels: Mapping[str, float]) -> None:
    if not found:
        absent_panel(axes, "no trial of this point is data", 30)
        return
    for rank, (organisation, name) in enumerate(NAMES.items()):
        if organisation in found:
            at: dict[str, Level] = {**levels, "organisation": organisation}
            draw_cumulative(axes, data, found[organisation], at, color=LINES[rank], ls=DASHES[rank], label=name)
    latency_axis(axes, list(found.values()), data.floor_ns)
    floor_line(axes, data.floor_ns, along="x")
    axes.set_ylim(0, 101)


C_F5 = PaperFigure(
    "C-F5",
    "corec",
    "Mean latency against load, a queue a core and one queue that all cores share",
    draw_load,
    along=("load_of_max", "load_pps"),
    beside=("cores", "queues", "organisation"),
)
C_F6 = PaperFigure(
    "C-F6",
    "corec",
    "Distribution of the latency near saturation, a queue a core and one queue that all cores share",
    draw_distribution,
    along=("load_of_max",),
    beside=("cores", "queues", "organisation"),
    pools_trials=True,
)
