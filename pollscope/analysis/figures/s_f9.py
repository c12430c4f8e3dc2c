# SPDX-License-Identifier: BSD-3-Clause
"""S-F9: latency at light load by number of queues, traffic in one queue and in all (SoCC'19 figure 9)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import US_PER_NS, FigureData, all_queues, queues_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.predicted import draw_latency
from pollscope.analysis.figures.style import (
    absent_panel,
    floor_line,
    interval_line,
    log_y_axis,
    mean_line,
    new_figure,
    queue_axis,
    stated_point,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import human_number
from pollscope.metrics.dictionary import metric_dictionary

NAMES = {"SQ": "all traffic in one queue (the paper's single flow)", "FB": "traffic in all queues (its multi flow)"}
# The paper shows the average; the median is beside it because short absences of a core do not move it.
# Both from the actual departure, as its generator stamps packets.
METRICS = ("latency_sent_mean_ns", "latency_sent_p50_ns")


def draw(data: FigureData) -> Figure:
    """Draw mean and median, each in microseconds and relative to one queue."""
    figure = new_figure(4.9)
    for (absolute, relative), metric in zip(figure.subplots(2, 2), METRICS, strict=True):
        title = metric_dictionary()[metric].title
        _absolute(absolute, data, metric, title)
        _relative(relative, data, metric, title)
    _stated(figure.axes[1])
    return figure


def _by_shape(data: FigureData, metric: str) -> dict[str, list[PointValues]]:
    found = data.by_point(metric, "queues")
    shapes = {shape: [each for each in found if each.levels.get("shape", "FB") == shape] for shape in NAMES}
    return {shape: samples for shape, samples in shapes.items() if samples}


def _absolute(axes: Axes, data: FigureData, metric: str, title: str) -> None:
    axes.set_title(title)
    shapes = _by_shape(data, metric)
    if not shapes:
        absent_panel(axes, data.absence(metric))
        return
    for rank, (shape, found) in enumerate(shapes.items()):
        mean_line(axes, queues_of(found), found, US_PER_NS, rank, NAMES[shape])
        if metric == "latency_sent_mean_ns":
            draw_latency(axes, data, found, shape, US_PER_NS)
    floor_line(axes, data.floor_ns)
    queue_axis(axes, all_queues(shapes))
    axes.set_ylabel("Latency (µs)")
    log_y_axis(axes)  # a sweep over 512 queues takes hundreds of times as long as one poll


def _relative(axes: Axes, data: FigureData, metric: str, title: str) -> None:
    axes.set_title(f"{title}, relative to one queue")
    shapes = {shape: found for shape, found in _by_shape(data, metric).items() if queues_of(found)[0] == 1}
    if not shapes:
        reason = "the run has no point with one queue" if data.by_point(metric) else data.absence(metric)
        absent_panel(axes, reason)
        return
    for shape, found in shapes.items():
        ratios = [sample.relative_to(found[0]) for sample in found]
        interval_line(axes, queues_of(found), ratios, list(NAMES).index(shape))
    queue_axis(axes, all_queues(shapes))
    axes.set_ylabel("Latency / latency at 1 queue")
    log_y_axis(axes)


def _stated(axes: Axes) -> None:
    """Mark the lower bound that the text states for 512 queues."""
    if not axes.lines:
        return
    least = stated("socc19", "S-F9")["latency_ratio_512_to_1_above"]
    stated_point(axes, 512, least, f"{short_name('socc19')}: more than {human_number(least, 6)} times at 512 queues")


FIGURE = PaperFigure(
    "S-F9",
    "socc19",
    "Latency at light load against the number of RX queues, traffic in one queue and in all",
    draw,
    along=("queues",),
    beside=("shape",),
)
