# SPDX-License-Identifier: BSD-3-Clause
"""H-F3a, H-F3b and H-F3c: throughput and latency by number of queues (HyperPlane figure 3)."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import MILLION, US_PER_NS, FigureData, queues_of
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.pooled import draw_cumulative, latency_axis, pooled_latencies
from pollscope.analysis.figures.predicted import draw_latency
from pollscope.analysis.figures.style import (
    DASHES,
    LINES,
    absent_panel,
    floor_line,
    interval_line,
    level_axis,
    mean_line,
    new_figure,
    ring_generator_limits,
)
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import counted
from pollscope.stats.histogram import Histogram

SHAPES = {
    "FB": "FB (all queues)",
    "PC": "PC (a fifth always busy)",
    "NC": "NC (100 always busy)",
    "SQ": "SQ (one queue)",
}
# Of the axis, the distance between two shapes at one number of queues.
_SIDE_SHARE = 0.012


def draw_shapes(data: FigureData) -> Figure:
    """H-F3a: throughput, and relative to the fewest queues; rings mark what the generator limited."""
    figure = new_figure(3.1)
    absolute, relative = figure.subplots(1, 2)
    absolute.set_title("Maximum throughput")
    relative.set_title("Relative to the fewest queues")
    with_queues = data.by_point("tx_pps", "queues")
    shapes = {shape: [each for each in with_queues if each.levels.get("shape") == shape] for shape in SHAPES}
    if not any(shapes.values()):
        for axes in (absolute, relative):
            absent_panel(axes, data.absence("tx_pps"))
        return figure
    for rank, found in enumerate(shapes.values()):
        if found:
            _shape(absolute, relative, data, found, rank)
    limited = data.generator_limited("tx_pps", "queues")
    x = [_place(data, each, list(SHAPES).index(str(each.levels["shape"]))) for each in limited]
    ring_generator_limits(absolute, x, [each.estimate.value / MILLION for each in limited])
    for axes, label in ((absolute, "Encapsulated (Mpps)"), (relative, "Throughput / at the fewest queues")):
        level_axis(axes, sorted({*queues_of(with_queues)}))
        axes.set_xlabel("RX queues polled by the core")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    return figure


def _place(data: FigureData, sample: PointValues, rank: int) -> float:
    """Where a shape stands beside its number of queues, so that intervals do not hide each other."""
    most = max(queues_of(data.by_point("tx_pps", "queues")), default=0)
    return float(sample.levels["queues"]) + _SIDE_SHARE * most * (rank - (len(SHAPES) - 1) / 2)


def _shape(absolute: Axes, relative: Axes, data: FigureData, found: Sequence[PointValues], rank: int) -> None:
    x = [_place(data, sample, rank) for sample in found]
    mean_line(absolute, x, found, 1 / MILLION, rank, list(SHAPES.values())[rank])
    interval_line(relative, x, [sample.relative_to(found[0]) for sample in found], rank)


def draw_growth(data: FigureData) -> Figure:
    """H-F3b: mean and tail as the paper shows them; beside them the median, with the time of a sweep to compare."""
    figure = new_figure(2.9)
    paper, robust = figure.subplots(1, 2)
    paper.set_title("Mean and 99th percentile")
    _lines(paper, data, {"latency_sent_mean_ns": "mean latency", "latency_sent_p99_ns": "99th percentile"}, 0)
    robust.set_title("Median, beside the time of a sweep")
    _lines(robust, data, {"latency_sent_p50_ns": "median latency", "sweep_time_ns": "sweep over all queues"}, 2)
    return figure


def _lines(axes: Axes, data: FigureData, metrics: Mapping[str, str], first_rank: int) -> None:
    levels: set[float] = set()
    for rank, (metric, name) in enumerate(metrics.items(), first_rank):
        found = data.by_point(metric, "queues")
        if found:
            mean_line(axes, queues_of(found), found, US_PER_NS, rank, name)
            levels |= set(queues_of(found))
        if metric == "latency_sent_mean_ns":
            draw_latency(axes, data, found, "FB", US_PER_NS)
    if not levels:
        absent_panel(axes, data.absence(next(iter(metrics))))
        return
    floor_line(axes, data.floor_ns)
    level_axis(axes, sorted(levels))
    axes.set_xlabel("RX queues polled by the core")
    axes.set_ylabel("Time (µs)")
    axes.set_ylim(bottom=0)


def draw_distribution(data: FigureData) -> Figure:
    """H-F3c: cumulative distribution, all packets of all trials of a point together."""
    figure = new_figure(3.0)
    axes = figure.subplots()
    found = distributions(data)
    if not found:
        absent_panel(axes, data.absence("latency_sent_mean_ns"))
        return figure
    for rank, (queues, histogram) in enumerate(found.items()):
        look: Any = {"color": LINES[rank], "ls": DASHES[rank], "label": counted(queues, "queue")}
        draw_cumulative(axes, data, histogram, {"queues": queues}, **look)
    latency_axis(axes, list(found.values()), data.floor_ns)
    floor_line(axes, data.floor_ns, along="x")
    axes.set_ylabel("Packets with at most that latency (%)")
    axes.set_ylim(0, 101)
    return figure


def distributions(data: FigureData) -> dict[int, Histogram]:
    """Number of queues -> histogram of all latencies (ns) of its trials that are data; points without are left out."""
    return {int(queues): found for (queues,), found in pooled_latencies(data, ["queues"]).items()}


H_F3A = PaperFigure(
    "H-F3a",
    "hyperplane",
    "Maximum throughput of packet encapsulation on one core against the number of queues, by traffic shape",
    draw_shapes,
    along=("queues",),
    beside=("shape",),
)
H_F3B = PaperFigure(
    "H-F3b",
    "hyperplane",
    "Mean and 99th percentile of the forwarding latency against the number of queues",
    draw_growth,
    along=("queues",),
    beside=(),
)
H_F3C = PaperFigure(
    "H-F3c",
    "hyperplane",
    "Distribution of the forwarding latency at three numbers of queues",
    draw_distribution,
    along=("queues",),
    beside=(),
    pools_trials=True,
)
