# SPDX-License-Identifier: BSD-3-Clause
"""S-F8: poll rate and LLC loads of one core without traffic, by number of queues (SoCC'19 figure 8)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, short_name
from pollscope.analysis.figures.style import (
    INK,
    LINES,
    MUTED,
    PAPER,
    absent_panel,
    interval_line,
    log2_axis,
    new_figure,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.samples import Sample
from pollscope.analysis.statistics import Estimate, ratio_estimate

TITLE = "Poll rate of one core without traffic against the number of RX queues"
NS_PER_US = 1e3


def draw(data: FigureData) -> Figure:
    """Four panels: poll rate, the same relative to one queue, time of a sweep, LLC loads."""
    figure = new_figure(4.6)
    (rate, relative), (sweep, loads) = figure.subplots(2, 2)
    _plain(rate, data, "poll_rate_running_hz", 1e-6, "Poll rate (million polls/s)")
    rate.set_title("Poll rate")
    rate.set_ylim(bottom=0)
    relative.set_title("Poll rate relative to one queue")
    _relative(relative, data)
    sweep.set_title("Time of one sweep over all queues")
    _sweep(sweep, data)
    loads.set_title("LLC loads")
    _plain(loads, data, "llc_loads_per_s", 1e-6, "LLC loads (million/s)")
    _mark_llc(loads, data)
    return figure


def _queue_axis(axes: Axes, levels: Sequence[float]) -> None:
    log2_axis(axes, levels)
    axes.set_xlabel("RX queues polled by the core")


def _by_queues(found: Sequence[Sample]) -> list[Sample]:
    return sorted(
        (sample for sample in found if "queues" in sample.levels), key=lambda each: float(each.levels["queues"])
    )


def _plain(axes: Axes, data: FigureData, metric: str, factor: float, label: str) -> None:
    found = _by_queues(data.samples(metric))
    if not found:
        absent_panel(axes, data.absence(metric))
        return
    x = [float(sample.levels["queues"]) for sample in found]
    interval_line(axes, x, [sample.estimate.scaled(factor) for sample in found], LINES[0])
    _queue_axis(axes, x)
    axes.set_ylabel(label)


def _relative(axes: Axes, data: FigureData) -> None:
    found = _by_queues(data.samples("poll_rate_running_hz"))
    one = next((sample for sample in found if sample.levels["queues"] == 1), None)
    if one is None:
        absent_panel(axes, data.absence("poll_rate_running_hz") if not found else "the run has no point with one queue")
        return
    x = [float(sample.levels["queues"]) for sample in found]
    # The first point is one by definition and has no interval of its own.
    ratios = [_one(one) if sample is one else ratio_estimate(sample.values, one.values) for sample in found]
    interval_line(axes, x, ratios, LINES[0])
    _queue_axis(axes, x)
    axes.set_ylim(0, max(1.15, 1.1 * max(ratio.value for ratio in ratios)))
    axes.set_ylabel("Poll rate / rate at 1 queue")
    value = stated("socc19", "S-F8")["poll_rate_ratio_512_to_1"]
    axes.plot(512, value, "*", ms=9, mfc=PAPER, mec=INK, mew=0.9, zorder=6)
    axes.annotate(
        f"{short_name('socc19')}: {value:g} at 512",
        (512, value),
        xytext=(-7, -13),
        textcoords="offset points",
        ha="right",
        fontsize=7.5,
        color=INK,
    )


def _one(sample: Sample) -> Estimate:
    return Estimate(1.0, 1.0, 1.0, len(sample.values), "by definition")


def _sweep(axes: Axes, data: FigureData) -> None:
    found = _by_queues(data.samples("sweep_time_ns"))
    if not found:
        absent_panel(axes, data.absence("sweep_time_ns"))
        return
    x = [float(sample.levels["queues"]) for sample in found]
    interval_line(axes, x, [sample.estimate.scaled(1 / NS_PER_US) for sample in found], LINES[0])
    _name(axes, "measured in the loop", LINES[0], 0.93)
    _calibrated(axes, data)
    _queue_axis(axes, x)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_ylabel("Time of a sweep (µs)")


def _calibrated(axes: Axes, data: FigureData) -> None:
    """The sweep alone, as calibrated before the trials: without the rest of the loop and without host gaps."""
    tsc_hz = data.run.meta.get("node_hello", {}).get("tsc_hz")
    found = _by_queues(data.samples("sweep_cycles"))
    if not found or not tsc_hz:
        return
    x = [float(sample.levels["queues"]) for sample in found]
    y = [sample.estimate.value / tsc_hz * 1e6 for sample in found]
    axes.plot(x, y, "s", ms=4, mfc=PAPER, mec=LINES[1], mew=1.0, zorder=5)
    _name(axes, "squares: calibrated, polls alone", LINES[1], 0.83)


def _name(axes: Axes, text: str, colour: str, height: float) -> None:
    axes.text(0.03, height, text, transform=axes.transAxes, fontsize=7.5, color=colour, va="top")


def _mark_llc(axes: Axes, data: FigureData) -> None:
    if not data.samples("llc_loads_per_s"):
        return
    levels = stated("socc19", "S-F8")
    marks = {
        "loads rise": levels["llc_loads_rise_above_queues"],
        "every head misses": levels["every_head_misses_above_queues"],
    }
    for text, queues in marks.items():
        axes.axvline(queues, color=MUTED, lw=0.8, ls=(0, (3, 3)))
        axes.annotate(
            f"{short_name('socc19')}: {text}",
            (queues, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-3, -3),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="top",
            fontsize=7,
            color=MUTED,
        )
