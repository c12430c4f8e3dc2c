# SPDX-License-Identifier: BSD-3-Clause
"""Draw the figures of HyperPlane: a data plane by queues, load and notification."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, short_name
from pollscope.analysis.figures.panels import (
    LOAD_MPPS,
    MICROSECONDS,
    MPPS,
    Along,
    Line,
    Up,
    draw_lines,
    draw_panel,
    having,
    lines_by,
    set_axes,
)
from pollscope.analysis.figures.pooled import draw_cumulative, latency_axis, pooled_latencies
from pollscope.analysis.figures.predicted import draw_latency
from pollscope.analysis.figures.style import (
    DASHES,
    LINES,
    MUTED,
    absent_figure,
    absent_panel,
    floor_line,
    log_y_axis,
    mean_line,
    new_figure,
    ratio_bar,
    ring_generator_limits,
    spread_axis,
    stated_level,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import counted
from pollscope.stats.histogram import Histogram

SHAPES = {
    "FB": "FB (all queues)",
    "PC": "PC (a fifth always busy)",
    "NC": "NC (100 always busy)",
    "SQ": "SQ (one queue)",
}
TASKS = {
    "encap": "Encapsulation",
    "crypto": "Crypto forwarding",
    "steer": "Steering",
    "rs": "Erasure coding",
    "raid": "RAID protection",
    "dispatch": "Request dispatching",
}
LATENCIES = {"latency_sent_mean_ns": "Mean", "latency_sent_p99_ns": "99th percentile"}
# How cores share queues: spinning cores share them behind a lock, notified cores by a ready set.
SHARING = {
    ("scale-out", "own"): "queues of its own",
    ("locked", "own"): "shared queues",
    ("scale-out", "shared"): "shared queues",
}
PLACES = {"smt-sibling": "on the SMT sibling", "same-llc": "behind the same LLC", "other-core": "on another core"}
# Words and dashes that distinguish notifications, if a run has several.
NOTIFICATIONS: Mapping[str, tuple[str, Any]] = {"spin": ("spinning", "-"), "qwait": ("QWAIT", (0, (2, 1)))}
# Distance between two shapes at one number of queues, as a share of the axis.
SIDE_SHARE = 0.012

QUEUES = Along("queues", "RX queues polled by the core")
SPREAD_QUEUES = replace(QUEUES, ticks=spread_axis)
LOAD = Along("load_of_max", "Offered load (% of the maximum)", 0.01, spread_axis)
LATENCY = Up("Latency (µs)", MICROSECONDS)
Levels = Mapping[str, Any]
# How a core waits, and the levels of its points.
WAITS: Sequence[tuple[str, Levels]] = (
    ("spinning", {"notification": "spin"}),
    ("QWAIT, pauses", {"notification": "qwait", "idle": "pause"}),
    ("QWAIT, asleep", {"notification": "qwait", "idle": "sleep"}),
)


def draw_shapes(data: FigureData) -> Figure:
    """Draw H-F3a: throughput, and relative to the fewest queues; rings mark what the generator limited."""
    figure = new_figure(3.1)
    absolute, relative = figure.subplots(1, 2)
    absolute.set_title("Maximum throughput")
    relative.set_title("Relative to the fewest queues")
    found = data.by_point("tx_pps", "queues")
    most = max(QUEUES.places(found), default=0.0)
    # Shapes stand beside their number of queues, so that intervals do not hide each other.
    asides = [SIDE_SHARE * most * (rank - (len(SHAPES) - 1) / 2) for rank in range(len(SHAPES))]
    lines = [replace(line, aside=aside) for line, aside in zip(lines_by("shape", SHAPES, found), asides, strict=True)]
    also = QUEUES.places(found)
    draw_panel(absolute, lines, QUEUES, Up("Encapsulated (Mpps)", MPPS), data.absence("tx_pps"), also=also)
    limited = data.generator_limited("tx_pps", "queues", "shape")
    x = [QUEUES.place(each) + asides[list(SHAPES).index(str(each.levels["shape"]))] for each in limited]
    ring_generator_limits(absolute, x, [each.estimate.value / MPPS for each in limited])
    ratios = [replace(line, name="", base=line.found[0]) if line.found else line for line in lines]
    up = Up("Throughput / at the fewest queues")
    draw_panel(relative, ratios, QUEUES, up, data.absence("tx_pps"), also=also)
    return figure


def draw_growth(data: FigureData) -> Figure:
    """Draw H-F3b: mean and tail as the paper shows them; beside them the median, with the time of a sweep."""
    figure = new_figure(2.9)
    panels = {
        "Mean and 99th percentile": {"latency_sent_mean_ns": "mean latency", "latency_sent_p99_ns": "99th percentile"},
        "Median, beside the time of a sweep": {
            "latency_sent_p50_ns": "median latency",
            "sweep_time_ns": "sweep over all queues",
        },
    }
    for column, (axes, (title, metrics)) in enumerate(zip(figure.subplots(1, 2), panels.items(), strict=True)):
        axes.set_title(title)
        lines = [
            Line(name, data.by_point(metric, "queues"), 2 * column + rank)
            for rank, (metric, name) in enumerate(metrics.items())
        ]
        if not (queues := draw_lines(axes, lines, QUEUES, MICROSECONDS)):
            absent_panel(axes, data.absence(next(iter(metrics))))
            continue
        if "latency_sent_mean_ns" in metrics:
            draw_latency(axes, data, lines[0].found, "FB", 1 / MICROSECONDS)
        floor_line(axes, data.floor_ns)
        set_axes(axes, QUEUES, Up("Time (µs)"), queues)
    return figure


def draw_distribution(data: FigureData) -> Figure:
    """Draw H-F3c: cumulative distribution, all packets of all trials of a point together."""
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
    """Return number of queues -> histogram of all latencies (ns) of its data trials; omit points without."""
    return {int(queues): found for (queues,), found in pooled_latencies(data, ["queues"]).items()}


def _compared(data: FigureData, metric: str) -> dict[str, tuple[str, Any]]:
    """Return the notifications that the run compares, with the words and dashes of their lines."""
    swept = {str(each.levels.get("notification", "")) for each in data.by_point(metric)}
    return {level: how for level, how in NOTIFICATIONS.items() if level in swept}


def _lines(data: FigureData, wanted: Sequence[tuple[str, str, Levels]], first_rank: int = 0) -> list[Line]:
    """Return the points of each (name, metric, levels), a line for each notification unless the levels name one."""
    lines = [
        (Line(name, having(data.by_point(metric), **levels), rank, None), levels)
        for rank, (name, metric, levels) in enumerate(wanted, first_rank)
    ]
    compared = {} if any("notification" in levels for _, levels in lines) else _compared(data, wanted[0][1])
    named = [
        replace(line, name=f"{line.name}, {words}", found=having(line.found, notification=level), dashes=dashes)
        for level, (words, dashes) in compared.items()
        for line, _ in lines
    ]
    return named or [line for line, _ in lines]


def _panel(axes: Axes, data: FigureData, wanted: Sequence[tuple[str, str, Levels]], along: Along, up: Up) -> None:
    draw_panel(axes, _lines(data, wanted), along, up, data.absence(wanted[0][1]), 34)


def draw_peaks(data: FigureData) -> Figure:
    """Draw H-F8: a line per traffic shape for each task; spinning and QWAIT in panels of their own with one scale."""
    compared = _compared(data, "tx_pps")
    ways: list[tuple[Levels, str]] = [({"notification": level}, words) for level, (words, _) in compared.items()]
    ways = ways if len(ways) > 1 else [({}, "")]
    columns = 4 if len(ways) > 1 else 3
    figure = new_figure(6.4 if len(ways) > 1 else 4.6)
    places = iter(figure.subplots(-(-len(TASKS) * len(ways) // columns), columns).flat)
    for task, title in TASKS.items():
        first = None
        for levels, words in ways:
            axes = next(places)
            axes.set_title("\n".join(filter(None, (title, words))))
            if first is not None:
                axes.sharey(first)
            wanted = [(name, "tx_pps", {"workload": task, **levels, "shape": shape}) for shape, name in SHAPES.items()]
            up = Up("Throughput (Mpps)" if first is None else "", MPPS)
            _panel(axes, data, wanted, replace(SPREAD_QUEUES, label="RX queues"), up)
            first = first or axes
    return figure


def draw_light_load(data: FigureData) -> Figure:
    """Draw H-F9: mean and 99th percentile, a line for each task; panels per notification, tens of times apart."""
    compared = _compared(data, next(iter(LATENCIES)))
    ways: list[tuple[Levels, str]] = [({"notification": level}, f", {words}") for level, (words, _) in compared.items()]
    found = data.by_point(next(iter(LATENCIES)), "idle")
    asleep = [(levels, f", {name}") for name, levels in WAITS if having(found, **levels)]
    ways = asleep or ways or [({}, "")]
    figure = new_figure(2.9 if len(ways) == 1 else 2.3 * len(ways))
    panels = figure.subplots(len(ways), len(LATENCIES), squeeze=False).flat
    for axes, ((levels, words), (metric, title)) in zip(panels, product(ways, LATENCIES.items()), strict=True):
        axes.set_title(title + words)
        wanted = [(name, metric, {"workload": task, **levels}) for task, name in TASKS.items()]
        _panel(axes, data, wanted, SPREAD_QUEUES, replace(LATENCY, log=len(ways) > 1))
    return figure


def draw_multicore(data: FigureData) -> Figure:
    """Draw H-F10: a panel for each shape, a line for each number of cores and each way of sharing queues."""
    figure = new_figure(2.9)
    names = ("cores", "organisation", "ready_set_sharing")
    points = data.by_point("latency_p99_ns")
    found = {tuple((name, each.levels[name]) for name in names if name in each.levels) for each in points}
    for axes, shape in zip(figure.subplots(1, 2), ("FB", "PC"), strict=True):
        axes.set_title(f"99th percentile, {SHAPES[shape]}")
        wanted = []
        for key in sorted(found or {(("cores", 1), ("organisation", "scale-out"))}, key=str):
            levels: dict[str, Any] = dict(key)
            if words := SHARING.get((levels["organisation"], levels.get("ready_set_sharing", "own"))):
                name = f"{counted(int(levels['cores']), 'core')}, {words}"
                wanted.append((name, "latency_p99_ns", {**levels, "shape": shape}))
        # Near full load queues grow a hundred times longer than at a tenth of it.
        _panel(axes, data, wanted, LOAD, replace(LATENCY, log=True))
    return figure


def draw_ipc(data: FigureData) -> Figure:
    """Draw H-F11a: IPC, all and by what it was for; beside it shares of cycles, which need no counters."""
    figure = new_figure(2.7)
    counted_, shares = figure.subplots(1, 2)
    counted_.set_title("Instructions per cycle")
    ipc: list[tuple[str, str, Levels]] = [
        ("all", "ipc", {}),
        ("useful work", "ipc_useful", {}),
        ("polling", "ipc_polling", {}),
    ]
    _panel(counted_, data, ipc, LOAD, Up("IPC"))
    shares.set_title("Share of cycles")
    cycles: list[tuple[str, str, Levels]] = [
        ("useful work", "useful_share", {}),
        ("polling", "tax_share", {}),
        ("waiting", "waiting_share", {}),
    ]
    # Lines that both panels share look the same in both.
    lines = _lines(data, cycles, first_rank=1)
    draw_panel(shares, lines, LOAD, Up("Share of cycles (%)", 0.01), data.absence("useful_share"), 34)
    return figure


def draw_corunner(data: FigureData) -> Figure:
    """Draw H-F11b: IPC, and the rate, which needs no PMU."""
    figure = new_figure(2.7)
    panels = {
        "IPC": ("corunner_ipc", Up("IPC")),
        "Rate": ("corunner_rate_running_hz", Up("Multiplications a ms", 1e3)),
    }
    for axes, (title, (metric, up)) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        axes.set_title(title)
        _panel(axes, data, [(name, metric, {"corunner_place": place}) for place, name in PLACES.items()], LOAD, up)
    return figure


def draw_power(data: FigureData) -> Figure:
    """Draw H-F12: power of all packages, and the tail of the latency."""
    figure = new_figure(2.7)
    panels = {
        "Power": ("package_power_w", _power_axis(data)),
        "99th percentile": ("latency_sent_p99_ns", replace(LATENCY, log=True)),
    }
    for axes, (title, (metric, up)) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        axes.set_title(title)
        swept = bool(data.by_point(metric, "notification"))
        wanted = [(name, metric, levels) for name, levels in WAITS] if swept else [("", metric, {})]
        _panel(axes, data, wanted, LOAD, up)
    return figure


def _power_axis(data: FigureData) -> Up:
    """Return the power axis: watts if measured; a modelled chip's unit is its power when idly spinning."""
    spun = having(data.by_point("package_power_w"), notification="spin")
    if not data.modelled or not spun:
        return Up("Power of all packages (W)")
    idle = min(spun, key=lambda each: float(each.levels.get("load_of_max", 0)))
    return Up("Power / of spinning without traffic", idle.estimate.value)


def draw_ready_sets(data: FigureData) -> Figure:
    """Draw H-F13: the searched ready set over the one that finds the next queue at once, a bar for each shape."""
    found = {
        tuple(str(each.levels[name]) for name in ("workload", "shape", "ready_set")): each
        for each in data.by_point("tx_pps", "workload", "shape", "ready_set")
    }
    ratios = {
        (task, shape): found[task, shape, "linear"].over(found[task, shape, "hierarchical"])
        for task, shape in product(TASKS, SHAPES)
        if {(task, shape, "linear"), (task, shape, "hierarchical")} <= found.keys()
    }
    if not ratios:
        reason = "the run has no pair of points with both ready sets"
        return absent_figure(reason if data.by_point("tx_pps") else data.absence("tx_pps"), 2.6)
    figure = new_figure(2.6)
    axes, width = figure.subplots(), 0.36
    tasks = [task for task in TASKS if any(task == each for each, _ in ratios)]
    shapes = [shape for shape in SHAPES if any(shape == each for _, each in ratios)]
    for (task, shape), ratio in ratios.items():
        at = tasks.index(task) + (shapes.index(shape) - (len(shapes) - 1) / 2) * width
        ratio_bar(axes, at, ratio, width, list(SHAPES).index(shape), SHAPES[shape])
    axes.axhline(1, color=MUTED, lw=0.9, label="hierarchical ready set")
    axes.set_xticks(range(len(tasks)), [TASKS[task].replace(" ", "\n") for task in tasks])
    axes.set_xlim(-0.6, len(tasks) - 0.4)
    axes.set_ylabel("Throughput, relative")
    axes.set_ylim(bottom=0)
    lowest = float(stated("hyperplane", "H-F13")["software_over_hardware_lowest"])
    words = f"{short_name('hyperplane')}: lowest with FB, over a ready set in hardware"
    stated_level(axes, axes.get_xlim(), lowest, words)
    return figure


# (notification, what a core does while no queue is ready) -> words.
WAYS: Mapping[tuple[str, str], str] = {
    ("spin", "pause"): "spinning",
    ("pause", "pause"): "pauses of 1 µs",
    ("sleep-ramp", "pause"): "ever longer sleeps",
    ("adaptive", "pause"): "spinning, then interrupt",
    ("interrupt", "pause"): "interrupt",
    ("monitor", "pause"): "halted on a line",
    ("monitor-multi", "pause"): "halted on all queues' lines",
    ("qwait", "pause"): "QWAIT, pauses",
    ("qwait", "sleep"): "QWAIT, asleep",
}
PRICES = {
    "latency_sent_p99_ns": ("99th percentile (µs)", 1e3),
    "tx_pps": ("Throughput (kpps)", 1e3),
    "package_power_w": ("Power of all packages (W)", 1.0),
}


def draw_frontier(data: FigureData) -> Figure:
    """Draw H-FRONTIER: a column for each number of queues, a line over the loads for each notification."""
    freed = {_key(each): each for each in data.by_point("waiting_share", "load_pps")}
    if not freed:
        return absent_figure(data.absence("waiting_share"), 7.2)
    queues = sorted({int(each.levels.get("queues", 1)) for each in freed.values()})
    figure = new_figure(7.2)
    panels = figure.subplots(len(PRICES), len(queues), squeeze=False).flat
    for axes, ((metric, (words, unit)), number) in zip(panels, product(PRICES.items(), queues), strict=True):
        found = [each for each in data.by_point(metric) if _key(each) in freed]
        if not found:
            axes.set_title(words.partition(" (")[0])
            absent_panel(axes, data.absence(metric))
            continue
        axes.set_title(counted(number, "queue"))
        here = [each for each in found if int(each.levels.get("queues", 1)) == number]
        for rank, ((notification, idle), name) in enumerate(WAYS.items()):
            own = [each for each in here if each.levels.get("notification", "spin") == notification]
            own = [each for each in own if each.levels.get("idle", "pause") == idle]
            if own := sorted(own, key=LOAD_MPPS.place):
                x = [100 * freed[_key(each)].estimate.value for each in own]
                mean_line(axes, x, own, 1 / unit, rank, name, DASHES[rank])
        axes.set_xlim(-5, 105)
        axes.set_xlabel("Cycles freed (%)")
        log_y_axis(axes)
        axes.set_ylabel(words if number == queues[0] else "")
    return figure


def _key(sample: PointValues) -> frozenset[tuple[str, Any]]:
    return frozenset(sample.levels.items())
