# SPDX-License-Identifier: BSD-3-Clause
"""Draw S-F7a, S-F7b and S-T4.2: what a router and a matrix multiplication cost each other (SoCC'19)."""

import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, short_name
from pollscope.analysis.figures.panels import having
from pollscope.analysis.figures.style import GRID, INK, MUTED, PAPER, absent_panel, new_figure, ratio_bar
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.stats.estimates import Estimate

PLACES = {"smt-sibling": "the SMT sibling", "same-llc": "a core behind the same LLC", "other-core": "another core"}
_PLACE_WIDTH = 0.34
_CORUNNER_METRICS = {"corunner_ipc": "IPC", "corunner_rate_running_hz": "Rate"}
# Feed of a router at full load -> its name below a bar; None: the run has no such factor.
FULL = {None: "with matmul", "infinite": "with matmul,\nfull rings", "wire": "with matmul,\ngenerator"}

Levels = Mapping[str, object]


def draw_corunner(data: FigureData) -> Figure:
    """Draw S-F7a: IPC, and the rate, which needs no PMU."""
    given = stated("socc19", "S-F7a")
    empty, full = given["ipc_ratio_beside_empty_queues"], given["ipc_ratio_beside_full_queues"]
    feeds = {sample.levels.get("feed") for metric in _CORUNNER_METRICS for sample in data.by_point(metric)}
    by_generator = {"router,\ngenerator": ("dut", "wire", full)} if "wire" in feeds else {}
    # name -> (what has the DUT's core, feed of both points, stated ratio)
    neighbours = {
        "router,\nempty queues": ("dut", "none", empty),
        "router,\nfull queues": ("dut", "infinite", full),
        **by_generator,
        "stress-ng": ("stress-ng", "none", empty / given["ipc_ratio_to_general_benchmark"]),
    }
    figure = new_figure(2.8)
    for axes, (metric, title) in zip(figure.subplots(1, 2), _CORUNNER_METRICS.items(), strict=True):
        axes.set_title(title)
        wanted = [
            (metric, name, {"dut_core": core, "feed": feed}, {"dut_core": "idle", "feed": feed}, value)
            for name, (core, feed, value) in neighbours.items()
        ]
        _bars(axes, data, wanted, 40)
        if axes.lines:
            axes.set_xlabel("Beside the multiplication")
    return figure


def draw_router(data: FigureData) -> Figure:
    """Draw S-F7b: throughput, IPC, and the IPC of both."""
    given = stated("socc19", "S-F7b")
    panels = {
        "Throughput": ("tx_pps", given["throughput_ratio"]),
        "IPC of the router": ("ipc", given["ipc_ratio"]),
        "IPC of both": ("ipc_with_corunner", given["ipc_together_ratio"]),
    }
    figure = new_figure(2.6)
    for axes, (title, (metric, value)) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axes.set_title(title)
        found = {sample.levels.get("feed") for sample in data.by_point(metric) if sample.levels["corunner"] == "matmul"}
        _bars(axes, data, [_beside(metric, feed, value) for feed in FULL if feed in found or len(found) == 0], 26)
    return figure


def _beside(metric: str, feed: str | None, value: float) -> tuple[str, str, Levels, Levels, float]:
    fed = {} if feed is None else {"feed": feed}
    return metric, FULL[feed], {"corunner": "matmul", **fed}, {"corunner": "none", **fed}, value


def _bars(axes: Axes, data: FigureData, wanted: Sequence[tuple[str, str, Levels, Levels, float]], width: int) -> None:
    """Draw one group of bars per (metric, name, levels, reference levels, stated ratio), one bar per place.

    `width`: characters per line of the reason if there is no data.
    """
    groups = [_ratios(data.by_point(metric), *levels) for metric, _, *levels, _ in wanted]
    if not any(groups):
        metric = wanted[0][0]
        compared = "the run has no pair of points to compare"
        absent_panel(axes, compared if data.by_point(metric) else data.absence(metric), width)
        return
    for x, (group, each) in enumerate(zip(groups, wanted, strict=True)):
        for index, (place, ratio) in enumerate(group.items()):
            at = x + (index - (len(group) - 1) / 2) * _PLACE_WIDTH
            ratio_bar(axes, at, ratio, _PLACE_WIDTH, list(PLACES).index(place), f"on {PLACES[place]}")
        label = f"{short_name('socc19')}, on the SMT sibling"
        axes.plot(x, each[-1], "*", ms=9, mfc=PAPER, mec=INK, mew=0.9, ls="", zorder=6, label=label)
    axes.set_xticks(range(len(wanted)), [name for _, name, *_ in wanted])
    axes.axhline(1, color=MUTED, lw=0.9, label="nothing lost")
    axes.set_xlim(-0.6, len(wanted) - 0.4)
    highest = max(1.0, *(ratio.value for group in groups for ratio in group.values()), *(each[-1] for each in wanted))
    axes.set_ylim(0, 1.25 * highest)
    axes.set_ylabel("Relative")


def _ratios(found: Sequence[PointValues], levels: Levels, reference: Levels) -> dict[str, Estimate]:
    """Return place -> ratio to the reference, for measured places."""
    ratios = {}
    for place in PLACES:
        above, below = (having(found, corunner_place=place, **each) for each in (levels, reference))
        if above and below:
            ratios[place] = above[0].over(below[0])
    return ratios


_GHZ = 1e-9
_LINE_INCH = 0.24
COLUMNS = (0.0, 0.2, 0.36, 0.52, 0.76)  # left ends of the columns
_REASON_CHARACTERS = 128


def draw_frequency(data: FigureData) -> Figure:
    """Draw one line per number of spinning cores that the paper or the run has."""
    paper = stated("socc19", "S-T4.2")["frequency_hz"]
    frequency, rate = _by_cores(data, "corunner_frequency_hz"), _by_cores(data, "corunner_rate_running_hz")
    lines = [
        [f"{cores}", *_paper(paper, cores), _frequency(frequency, cores), _rate(rate, cores)]
        for cores in sorted({*paper, *frequency, *rate})
    ]
    reason = "" if frequency else f"Frequency absent, because {data.absence('corunner_frequency_hz')}"
    notes = textwrap.wrap(reason, _REASON_CHARACTERS)
    figure = new_figure(_LINE_INCH * (len(lines) + 2 + 0.8 * len(notes)))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(len(lines) + 1.2 + 0.8 * len(notes), -0.6)
    _head(axes)
    for number, line in enumerate(lines, 1):
        _line(axes, number, line, INK)
    for number, text in enumerate(notes):
        axes.text(0, len(lines) + 1 + 0.8 * number, text, va="center", fontsize=7.5, color=MUTED)
    return figure


def _head(axes: Axes) -> None:
    paper = f"{short_name('socc19')} (GHz)"
    _line(axes, 0, ["Spinning cores", paper, "relative", "Here (GHz, relative)", "Rate here, relative"], MUTED)
    axes.axhline(0.5, color=GRID, lw=0.8)


def _line(axes: Axes, number: int, cells: list[str], colour: str) -> None:
    for place, text in zip(COLUMNS, cells, strict=True):
        axes.text(place, number, text, va="center", fontsize=8, color=colour)


# Samples beside spinning cores, and those without them that they are compared with, if there are any.
Pair = tuple[PointValues, PointValues | None]


def _by_cores(data: FigureData, metric: str) -> dict[int, Pair]:
    """Return spinning cores -> the values measured beside them; DUT cores that are left idle count as none."""
    found = data.by_point(metric, "cores", "dut_core")
    if not found:
        return _of_corunners(data, metric)
    by_core = {(each.levels["dut_core"], int(each.levels["cores"])): each for each in found}
    idle = {cores: each for (core, cores), each in by_core.items() if core == "idle"}
    spinning = {cores: (each, idle.get(cores)) for (core, cores), each in by_core.items() if core == "dut"}
    none = {0: (idle[min(idle)], idle[min(idle)])} if idle else {}
    return {**none, **spinning}


def _of_corunners(data: FigureData, metric: str) -> dict[int, Pair]:
    """Return the pairs of a run whose spinning cores are a co-runner instead of a DPDK program."""
    found = {int(each.levels["spinning_cores"]): each for each in data.by_point(metric, "spinning_cores")}
    return {cores: (each, found.get(0)) for cores, each in found.items()}


def _paper(paper: dict[int, float], cores: int) -> tuple[str, str]:
    """Return the value that the paper states, and its ratio to the value without spinning cores."""
    return (f"{paper[cores] * _GHZ:.2f}", f"{paper[cores] / paper[0]:.3f}") if cores in paper else ("-", "-")


def _relative(found: dict[int, Pair], cores: int) -> str:
    """Return each level's mean divided by that without spinning cores, with its interval where there is one."""
    beside, alone = found[cores]
    if alone is None:
        return "-"
    ratio = beside.over(alone)
    return f"{ratio.value:.3f}" + (f" ({ratio.low:.3f} to {ratio.high:.3f})" if cores and ratio.has_interval else "")


def _frequency(found: dict[int, Pair], cores: int) -> str:
    if not found:
        return "absent"
    return f"{found[cores][0].estimate.value * _GHZ:.2f}, {_relative(found, cores)}" if cores in found else "left out"


def _rate(found: dict[int, Pair], cores: int) -> str:
    return _relative(found, cores) if cores in found else "left out"
