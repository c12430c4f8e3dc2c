# SPDX-License-Identifier: BSD-3-Clause
"""H-F3b and H-F3c: forwarding latency under light traffic by number of queues (HyperPlane figure 3b and 3c)."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData
from pollscope.analysis.figures.style import LINES, MARKERS, absent_panel, interval_line, new_figure
from pollscope.analysis.samples import measured
from pollscope.derive import last_attempts
from pollscope.histogram import Histogram, merged
from pollscope.record import NotMeasured, Trial

TITLE_GROWTH = "Mean and 99th percentile of the forwarding latency against the number of queues"
TITLE_DISTRIBUTION = "Distribution of the forwarding latency at three numbers of queues"
US_PER_NS = 1e-3
LATENCY = ("latency_ns", "from_intended")


def draw_growth(data: FigureData) -> Figure:
    """H-F3b: mean and tail as the paper shows them; beside them the median, with the time of a sweep to compare."""
    figure = new_figure(2.9)
    paper, robust = figure.subplots(1, 2)
    paper.set_title("Mean and 99th percentile")
    _lines(paper, data, {"latency_mean_ns": "mean", "latency_p99_ns": "99th percentile"})
    robust.set_title("Median, beside the time of a sweep")
    _lines(robust, data, {"latency_p50_ns": "median latency", "sweep_time_ns": "sweep over all queues"})
    return figure


def _lines(axes: Axes, data: FigureData, metrics: Mapping[str, str]) -> None:
    drawn = False
    for rank, (metric, name) in enumerate(metrics.items()):
        found = [sample for sample in data.samples(metric) if "queues" in sample.levels]
        if found:
            x = [float(sample.levels["queues"]) for sample in found]
            y = [sample.estimate.scaled(US_PER_NS) for sample in found]
            interval_line(axes, x, y, LINES[rank], MARKERS[rank], name)
            drawn = True
    if not drawn:
        absent_panel(axes, data.absence(next(iter(metrics))))
        return
    axes.set_xlabel("RX queues polled by the core")
    axes.set_ylabel("Time (µs)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")


def draw_distribution(data: FigureData) -> Figure:
    """H-F3c: cumulative distribution, all packets of all trials of a point together."""
    figure = new_figure(3.0)
    axes = figure.subplots()
    found = distributions(data)
    if not found:
        absent_panel(axes, data.absence("latency_mean_ns"))
        return figure
    for rank, (queues, histogram) in enumerate(found.items()):
        curve = histogram.cumulative()
        x = [value * US_PER_NS for value, _ in curve]
        y = [100 * share for _, share in curve]
        axes.step(x, y, where="post", color=LINES[rank], label=f"{queues} queue{'s' if queues > 1 else ''}")
    _time_axis(axes, list(found.values()))
    axes.set_ylabel("Packets with at most that latency (%)")
    axes.set_ylim(0, 101)
    axes.legend(loc="lower right")
    return figure


def _time_axis(axes: Axes, histograms: Sequence[Histogram]) -> None:
    """From the fastest packet to the slowest but one in a thousand: beyond lie absences of a core."""
    axes.set_xscale("log")
    low = min(histogram.smallest for histogram in histograms)
    high = max(histogram.percentile(99.9) for histogram in histograms)
    axes.set_xlim(0.9 * low * US_PER_NS, 1.1 * high * US_PER_NS)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("Latency from the intended departure (µs)")


def distributions(data: FigureData) -> dict[int, Histogram]:
    """Number of queues -> histogram of all latencies (ns) of its trials that are data; points without are left out."""
    counted = set(measured(data.table)["trial"])
    parts: dict[int, list[Histogram]] = {}
    for record in last_attempts(data.run.trials):
        histogram = _latencies(record) if record["trial"] in counted else None
        if histogram is not None:
            levels: Any = record["factors"]
            parts.setdefault(int(levels["queues"]), []).append(histogram)
    return {queues: merged(parts[queues], f"{queues} queues") for queues in sorted(parts)}


def _latencies(record: dict[str, object]) -> Histogram | None:
    try:
        return Trial(record).gen_histogram(*LATENCY)
    except NotMeasured:
        return None
