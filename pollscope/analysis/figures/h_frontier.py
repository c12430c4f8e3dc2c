# SPDX-License-Identifier: BSD-3-Clause
"""H-FRONTIER: what each notification leaves of the core, and what that costs in latency and throughput."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, by_level
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import DASHES, absent_figure, absent_panel, log_y_axis, mean_line, new_figure
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import counted

# (notification, what a core does while no queue is ready) -> words.
WAYS: Mapping[tuple[str, str], str] = {
    ("spin", "pause"): "spinning",
    ("sleep-ramp", "pause"): "ever longer sleeps",
    ("adaptive", "pause"): "spinning, then interrupt",
    ("interrupt", "pause"): "interrupt",
    ("monitor", "pause"): "halted on a line",
    ("monitor-multi", "pause"): "halted on all queues' lines",
    ("qwait", "pause"): "QWAIT, pauses",
    ("qwait", "sleep"): "QWAIT, asleep",
}
# A point of the run, by its levels.
_Key = tuple[tuple[str, object], ...]
HEIGHT_INCH = 7.2
_FREED = "waiting_share"
# Metric -> words of its axis, and what one of it is worth.
_PRICES = {
    "latency_sent_p99_ns": ("99th percentile (µs)", 1e3),
    "tx_pps": ("Throughput (kpps)", 1e3),
    "package_power_w": ("Power of all packages (W)", 1.0),
}


def draw(data: FigureData) -> Figure:
    """A column for each number of queues, a line over the loads for each notification."""
    freed = {_key(each): each for each in data.by_point(_FREED, "load_pps")}
    queues = sorted({int(each.levels.get("queues", 1)) for each in freed.values()})
    if not freed:
        return absent_figure(data.absence(_FREED), HEIGHT_INCH)
    figure = new_figure(HEIGHT_INCH)
    panels = figure.subplots(len(_PRICES), len(queues), squeeze=False)
    for row, (metric, (words, unit)) in zip(panels, _PRICES.items(), strict=True):
        found = [each for each in data.by_point(metric) if _key(each) in freed]
        for axes, number in zip(row, queues, strict=True):
            here = [each for each in found if int(each.levels.get("queues", 1)) == number]
            if not found:
                axes.set_title(words.partition(" (")[0])
                absent_panel(axes, data.absence(metric))
                continue
            axes.set_title(counted(number, "queue"))
            _panel(axes, here, freed, unit)
            axes.set_ylabel(words if number == queues[0] else "")
    return figure


def _key(sample: PointValues) -> _Key:
    return tuple(sorted(sample.levels.items()))


def _panel(axes: Axes, found: list[PointValues], freed: Mapping[_Key, PointValues], unit: float) -> None:
    for rank, ((notification, idle), words) in enumerate(WAYS.items()):
        samples = [
            each
            for each in found
            if each.levels.get("notification", "spin") == notification and each.levels.get("idle", "pause") == idle
        ]
        if samples := by_level(samples, "load_pps"):
            x = [100 * freed[_key(each)].estimate.value for each in samples]
            mean_line(axes, x, samples, 1 / unit, rank, words, DASHES[rank])
    axes.set_xlim(-5, 105)
    axes.set_xlabel("Cycles freed (%)")
    log_y_axis(axes)


FIGURE = PaperFigure(
    "H-FRONTIER",
    "hyperplane",
    "Latency and throughput against the cycles that each notification leaves free, a point for each load",
    draw,
    along=("load_pps",),
    beside=("notification", "idle", "queues"),
)
