# SPDX-License-Identifier: BSD-3-Clause
"""S-F8: poll rate and LLC loads of one core without traffic, by number of queues (SoCC'19 figure 8)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import US_PER_NS, FigureData, all_queues, by_level, queues_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.predicted import draw_poll_rate
from pollscope.analysis.figures.style import (
    LINES,
    absent_panel,
    interval_line,
    log_y_axis,
    mean_line,
    new_figure,
    queue_axis,
    stated_at,
    stated_point,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.errors import UsageError
from pollscope.base.units import human_number
from pollscope.metrics.dictionary import metric_dictionary


def draw(data: FigureData) -> Figure:
    """Four panels: poll rate, the same relative to one queue, time of a sweep, LLC loads."""
    figure = new_figure(4.6)
    (rate, relative), (sweep, loads) = figure.subplots(2, 2)
    _plain(rate, data, "poll_rate_running_hz", 1e-6, "Poll rate (million polls/s)")
    title = metric_dictionary()["poll_rate_running_hz"].title
    rate.set_title(title)
    relative.set_title(f"{title}, relative to one queue")
    _relative(relative, data)
    sweep.set_title(metric_dictionary()["sweep_time_ns"].title)
    _sweep(sweep, data)
    loads.set_title("LLC loads")
    _plain(loads, data, "llc_loads_per_s", 1e-6, "LLC loads (million/s)")
    _mark_llc(loads, data)
    return figure


def _ring_size(sample: PointValues) -> int:
    level = sample.levels.get("rx_desc", 0)
    try:
        return int(level)
    except ValueError:
        raise UsageError(f"is {level!r}, not a number of descriptors", "trials.jsonl: factors.rx_desc") from None


def _by_rings(found: Sequence[PointValues]) -> dict[str, list[PointValues]]:
    """A line for each size of the rings, by rising number of queues; one without a name where it is not swept."""
    lines = sorted({_ring_size(sample) for sample in found})
    return {
        f"{size} descriptors" if size else "": by_level((each for each in found if _ring_size(each) == size), "queues")
        for size in lines
    }


def _plain(axes: Axes, data: FigureData, metric: str, factor: float, label: str) -> None:
    lines = _by_rings(data.by_point(metric, "queues"))
    if not lines:
        absent_panel(axes, data.absence(metric))
        return
    for rank, (name, found) in enumerate(lines.items()):
        mean_line(axes, queues_of(found), found, factor, rank, name)
        if metric == "poll_rate_running_hz":
            draw_poll_rate(axes, data, found, factor)
    queue_axis(axes, all_queues(lines))
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)


def _relative(axes: Axes, data: FigureData) -> None:
    lines = _by_rings(data.by_point("poll_rate_running_hz", "queues"))
    with_one = {name: found for name, found in lines.items() if 1 in queues_of(found)}
    if not with_one:
        absent_panel(axes, data.absence("poll_rate_running_hz") if not lines else "the run has no point with one queue")
        return
    for name, found in with_one.items():
        ratios = [sample.relative_to(found[0]) for sample in found]
        interval_line(axes, queues_of(found), ratios, list(lines).index(name))
    queue_axis(axes, all_queues(with_one))
    axes.set_ylim(0, max(1.15, axes.get_ylim()[1]))
    axes.set_ylabel("Poll rate / rate at 1 queue")
    value = stated("socc19", "S-F8")["poll_rate_ratio_512_to_1"]
    stated_point(axes, 512, value, f"{short_name('socc19')}: {human_number(value)} of the poll rate at 512 queues")


def _sweep(axes: Axes, data: FigureData) -> None:
    lines = _by_rings(data.by_point("sweep_time_ns", "queues"))
    if not lines:
        absent_panel(axes, data.absence("sweep_time_ns"))
        return
    for rank, found in enumerate(lines.values()):
        mean_line(axes, queues_of(found), found, US_PER_NS, rank)
    _calibrated(axes, data)
    queue_axis(axes, all_queues(lines))
    log_y_axis(axes)
    axes.set_ylabel("Time of a sweep (µs)")


def _calibrated(axes: Axes, data: FigureData) -> None:
    """The sweep alone, as calibrated before the trials: without the rest of the loop and without host gaps."""
    tsc_hz = (data.run.meta.get("node_hello") or {}).get("tsc_hz")
    lines = _by_rings(data.by_point("sweep_cycles", "queues"))
    if not lines or not tsc_hz:
        return
    for rank, found in enumerate(lines.values()):
        y = [sample.estimate.value / tsc_hz * 1e6 for sample in found]
        label = "a sweep as calibrated, polls alone" if rank == 0 else "_nolegend_"
        axes.plot(queues_of(found), y, "_", ms=9, mec=LINES[rank], mew=1.4, ls="", zorder=5, label=label)


def _mark_llc(axes: Axes, data: FigureData) -> None:
    if not data.by_point("llc_loads_per_s"):
        return
    levels = stated("socc19", "S-F8")
    rise, miss = levels["llc_loads_rise_above_queues"], levels["every_head_misses_above_queues"]
    stated_at(axes, rise, f"{short_name('socc19')}: LLC loads rise above {human_number(rise)} queues")
    stated_at(axes, miss, f"{short_name('socc19')}: every head misses above {human_number(miss)} queues", ":")


FIGURE = PaperFigure(
    "S-F8",
    "socc19",
    "Poll rate of one core without traffic against the number of RX queues",
    draw,
    along=("queues",),
    beside=("rx_desc",),
    leaves_out_interruptions=True,
)
