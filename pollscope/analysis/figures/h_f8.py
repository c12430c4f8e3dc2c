# SPDX-License-Identifier: BSD-3-Clause
"""H-F8 to H-F12: six tasks, several cores, IPC and power of a data plane (HyperPlane figures 8 to 12)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, by_level, levels_of
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.h_f3 import SHAPES
from pollscope.analysis.figures.style import DASHES, absent_panel, log_y_axis, mean_line, new_figure, spread_axis
from pollscope.base.units import counted

TASKS = {
    "encap": "Encapsulation",
    "crypto": "Crypto forwarding",
    "steer": "Steering",
    "rs": "Erasure coding",
    "raid": "RAID protection",
    "dispatch": "Request dispatching",
}
# How cores share queues: spinning cores share them behind a lock, notified cores by a ready set.
_SHARING = {
    ("scale-out", "own"): "queues of its own",
    ("locked", "own"): "shared queues",
    ("scale-out", "shared"): "shared queues",
}
PLACES = {"smt-sibling": "on the SMT sibling", "same-llc": "behind the same LLC", "other-core": "on another core"}
IPC = {"ipc": "all", "ipc_useful": "useful work", "ipc_polling": "polling"}
SHARES = {"useful_share": "useful work", "tax_share": "polling", "waiting_share": "waiting"}
# Levels -> how a core waits.
WAITS = {
    (("notification", "spin"),): "spinning",
    (("notification", "qwait"), ("idle", "pause")): "QWAIT, pauses",
    (("notification", "qwait"), ("idle", "sleep")): "QWAIT, asleep",
}
# How a line tells which notification it has, where a run has several: words and dashes.
_NOTIFICATIONS: Mapping[str, tuple[str, Any]] = {"spin": ("spinning", "-"), "qwait": ("QWAIT", (0, (2, 1)))}
COLUMNS = 3

Levels = Mapping[str, Any]


class Scale(NamedTuple):
    """Describe an axis: its label, the value of one unit, and whether it is logarithmic."""

    label: str
    unit: float = 1.0
    log: bool = False


QUEUES = Scale("RX queues polled by the core")
LOAD = Scale("Offered load (% of the maximum)", 0.01)
_MPPS = Scale("Throughput (Mpps)", 1e6)
_MICROSECONDS = Scale("Latency (µs)", 1e3)


class Line(NamedTuple):
    """A metric along a factor at the points that have these levels.

    It is drawn as the one of its rank, or of its place; dashes that it has not itself are those of the rank.
    """

    name: str
    metric: str
    levels: Levels
    rank: int | None = None
    dashes: Any = None


def _by_notification(data: FigureData, lines: Sequence[Line]) -> list[Line]:
    """Each line for each notification that the run compares; the lines as they are where they name one, or it none."""
    if "notification" in lines[0].levels:
        return list(lines)
    return [
        Line(f"{line.name}, {words}", line.metric, {**line.levels, "notification": level}, line.rank or rank, dashes)
        for level, (words, dashes) in _compared(data, lines[0].metric).items()
        for rank, line in enumerate(lines)
    ] or list(lines)


def _compared(data: FigureData, metric: str) -> dict[str, tuple[str, Any]]:
    """The notifications that the run compares, and how a line tells them."""
    swept = {str(each.levels.get("notification", "")) for each in data.by_point(metric)}
    return {level: how for level, how in _NOTIFICATIONS.items() if level in swept}


def _panel(axes: Axes, data: FigureData, lines: Sequence[Line], factor: str, scales: tuple[Scale, Scale]) -> None:
    """Lines that were measured; the reason in their place when none was."""
    along, up = scales
    levels: set[float] = set()
    for place, line in enumerate(_by_notification(data, lines)):
        rank = place if line.rank is None else line.rank
        samples = [each for each in data.by_point(line.metric, factor) if line.levels.items() <= each.levels.items()]
        if found := by_level(samples, factor):
            x = levels_of(found, factor, 1 / along.unit)
            mean_line(axes, x, found, 1 / up.unit, rank, line.name, line.dashes or DASHES[rank])
            levels |= set(x)
    if not levels:
        absent_panel(axes, data.absence(lines[0].metric), 34)
        return
    spread_axis(axes, sorted(levels))
    axes.set_xlabel(along.label)
    axes.set_ylabel(up.label)
    if up.log:
        log_y_axis(axes)
    else:
        axes.set_ylim(bottom=0)


def draw_peaks(data: FigureData) -> Figure:
    """H-F8: for each task a line per traffic shape; spinning and QWAIT in panels of their own with one scale."""
    compared: dict[str, tuple[str, Any]] = _compared(data, "tx_pps")
    if len(compared) < 2:
        compared = {"": ("", None)}
    columns = 2 * len(compared) if len(compared) > 1 else COLUMNS
    figure = new_figure(6.4 if len(compared) > 1 else 4.6)
    panels = figure.subplots(-(-len(TASKS) * len(compared) // columns), columns)
    places = iter(panels.flat)
    for task, title in TASKS.items():
        own = [next(places) for _ in compared]
        for axes, (notification, (words, _)) in zip(own, compared.items(), strict=True):
            levels = {"workload": task, **({"notification": notification} if notification else {})}
            if axes is not own[0]:
                axes.sharey(own[0])
            axes.set_title("\n".join(filter(None, (title, words))))
            lines = [Line(name, "tx_pps", {**levels, "shape": shape}) for shape, name in SHAPES.items()]
            _panel(axes, data, lines, "queues", (QUEUES._replace(label="RX queues"), _MPPS))
            if axes is not own[0]:
                axes.set_ylabel("")
    return figure


def draw_light_load(data: FigureData) -> Figure:
    """H-F9: mean and 99th percentile, a line for each task; panels for each notification, tens of times apart."""
    titles = {"latency_sent_mean_ns": "Mean", "latency_sent_p99_ns": "99th percentile"}
    compared = _compared(data, next(iter(titles)))
    rows: list[tuple[Levels, str]] = [({"notification": level}, f", {words}") for level, (words, _) in compared.items()]
    found = data.by_point(next(iter(titles)), "idle")
    asleep = [(dict(levels), f", {name}") for levels, name in WAITS.items()] if found else []
    rows = (
        [each for each in asleep if any(each[0].items() <= one.levels.items() for one in found)] or rows or [({}, "")]
    )
    figure = new_figure(2.9 if len(rows) == 1 else 2.3 * len(rows))
    panels = figure.subplots(len(rows), len(titles), squeeze=False)
    for own, (levels, words) in zip(panels, rows, strict=True):
        for axes, (metric, title) in zip(own, titles.items(), strict=True):
            axes.set_title(title + words)
            lines = [Line(name, metric, {"workload": task, **levels}) for task, name in TASKS.items()]
            _panel(axes, data, lines, "queues", (QUEUES, _MICROSECONDS._replace(log=len(rows) > 1)))
    return figure


def _organised(data: FigureData, shape: str) -> list[Line]:
    """Return a line per number of cores and per way of sharing queues."""
    names = ("cores", "organisation", "ready_set_sharing")
    found = {
        tuple((name, each.levels[name]) for name in names if name in each.levels)
        for each in data.by_point("latency_p99_ns")
    }
    lines = []
    for key in sorted(found or {(("cores", 1), ("organisation", "scale-out"))}, key=str):
        levels: dict[str, Any] = dict(key)
        cores, sharing = int(levels["cores"]), levels.get("ready_set_sharing", "own")
        if words := _SHARING.get((levels["organisation"], sharing)):
            name = f"{counted(cores, 'core')}, {words}"
            lines.append(Line(name, "latency_p99_ns", {**levels, "shape": shape}))
    return lines


def draw_multicore(data: FigureData) -> Figure:
    """H-F10: a panel for each shape."""
    figure = new_figure(2.9)
    for axes, shape in zip(figure.subplots(1, 2), ("FB", "PC"), strict=True):
        axes.set_title(f"99th percentile, {SHAPES[shape]}")
        # Near full load queues grow a hundred times longer than at a tenth of it.
        _panel(axes, data, _organised(data, shape), "load_of_max", (LOAD, _MICROSECONDS._replace(log=True)))
    return figure


def draw_ipc(data: FigureData) -> Figure:
    """H-F11a: IPC, all and by what it was for; beside it shares of cycles, which need no counters."""
    figure = new_figure(2.7)
    counted, shares = figure.subplots(1, 2)
    counted.set_title("Instructions per cycle")
    _panel(counted, data, [Line(name, metric, {}) for metric, name in IPC.items()], "load_of_max", (LOAD, Scale("IPC")))
    shares.set_title("Share of cycles")
    # Lines that both panels share look the same in both.
    lines = [Line(name, metric, {}, rank) for rank, (metric, name) in enumerate(SHARES.items(), 1)]
    _panel(shares, data, lines, "load_of_max", (LOAD, Scale("Share of cycles (%)", 0.01)))
    return figure


def draw_corunner(data: FigureData) -> Figure:
    """H-F11b: IPC, and the rate, which needs no PMU."""
    figure = new_figure(2.7)
    metrics = {"corunner_ipc": Scale("IPC"), "corunner_rate_running_hz": Scale("Multiplications a ms", 1e3)}
    for axes, (metric, scale) in zip(figure.subplots(1, 2), metrics.items(), strict=True):
        axes.set_title("IPC" if scale.unit == 1 else "Rate")
        lines = [Line(name, metric, {"corunner_place": place}) for place, name in PLACES.items()]
        _panel(axes, data, lines, "load_of_max", (LOAD, scale))
    return figure


def draw_power(data: FigureData) -> Figure:
    """H-F12: power of all packages, and the tail of the latency."""
    figure = new_figure(2.7)
    metrics = {
        "package_power_w": _power_scale(data),
        "latency_sent_p99_ns": _MICROSECONDS._replace(log=True),
    }
    for axes, (metric, scale) in zip(figure.subplots(1, 2), metrics.items(), strict=True):
        axes.set_title("99th percentile" if scale.log else "Power")
        swept = bool(data.by_point(metric, "notification"))
        lines = [Line(name, metric, dict(levels)) for levels, name in WAITS.items()]
        _panel(axes, data, lines if swept else [Line("", metric, {})], "load_of_max", (LOAD, scale))
    return figure


def _power_scale(data: FigureData) -> Scale:
    """Watts where they were measured; a modelled chip has a unit only: what spinning without traffic draws."""
    spun = [each for each in data.by_point("package_power_w") if each.levels.get("notification") == "spin"]
    if not data.modelled or not spun:
        return Scale("Power of all packages (W)")
    idle = min(spun, key=lambda each: float(each.levels.get("load_of_max", 0)))
    return Scale("Power / of spinning without traffic", idle.estimate.value)


H_F8 = PaperFigure(
    "H-F8",
    "hyperplane",
    "Peak throughput of six tasks on one core against the number of queues, by traffic shape and notification",
    draw_peaks,
    along=("queues",),
    beside=("workload", "frame", "shape", "notification"),
)
H_F9 = PaperFigure(
    "H-F9",
    "hyperplane",
    "Latency of six tasks under light load against the number of queues, by notification",
    draw_light_load,
    along=("queues",),
    beside=("workload", "frame", "notification"),
)
H_F10 = PaperFigure(
    "H-F10",
    "hyperplane",
    "99th percentile of the latency against load, for queues of a core's own and for shared ones",
    draw_multicore,
    along=("load_of_max",),
    beside=("cores", "queues", "organisation", "ready_set_sharing", "shape", "notification"),
)
H_F11A = PaperFigure(
    "H-F11a",
    "hyperplane",
    "IPC and cycles against offered load, by notification",
    draw_ipc,
    along=("load_of_max",),
    beside=("notification",),
)
H_F11B = PaperFigure(
    "H-F11b",
    "hyperplane",
    "Matrix multiplication against the load of the core beside it, by notification",
    draw_corunner,
    along=("load_of_max",),
    beside=("corunner_place", "notification"),
    leaves_out_interruptions=None,
)
H_F12 = PaperFigure(
    "H-F12",
    "hyperplane",
    "Power of the processor packages and tail of the latency against load, by notification and idle state",
    draw_power,
    along=("load_of_max",),
    beside=("notification", "idle"),
)
