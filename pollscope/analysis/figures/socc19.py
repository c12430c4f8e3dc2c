# SPDX-License-Identifier: BSD-3-Clause
"""Draw the figures of SoCC'19 that are bars or a table: cycles by class, a router and a co-runner, SMT pairs.

S-F5 and TAX; S-F7a, S-F7b and S-T4.2; S-F18.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, by_feed, short_name
from pollscope.analysis.figures.panels import having
from pollscope.analysis.figures.style import (
    GRID,
    HATCHES,
    INK,
    LINES,
    MUTED,
    PAPER,
    PARTS,
    USEFUL_PARTS,
    USEFUL_WHOLE,
    absent_figure,
    absent_panel,
    least_top,
    log2_axis,
    mean_line,
    new_figure,
    ratio_bar,
    whisker,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues, groups
from pollscope.base.units import counted, human_number
from pollscope.stats.estimates import Estimate

LOAD = "load_of_max"
# Other tools' definitions of the same tax, drawn on the bars: metric -> (name, marker, place beside the middle).
OTHER_DEFINITIONS = {
    "tax_share_ovs": ("tax as Open vSwitch counts", "D", -0.22),
    "tax_share_testpmd": ("tax as testpmd counts", "v", 0.22),
}
BAR_WIDTH = 0.78
LEAST_PERCENT = 0.5  # lower than this, a part of a bar is thinner than its edge
# Shortest axis of the tax, so that a tiny tax looks tiny.
_LEAST_TAX_AXIS_PERCENT = 5.0


def draw_tax(data: FigureData, with_paper: bool = True) -> Figure:
    """Draw stacked bars, one panel per number of queues, and the tax by work per packet at full load."""
    tax = data.by_point("tax_share_running")
    if not tax:
        return absent_figure(data.absence("tax_share_running"), 2.2)
    queues = sorted({int(sample.levels.get("queues", 1)) for sample in tax})
    heavier = any(_lookups(sample) > 1 for sample in tax)
    columns = min(5 if heavier else 4, len(queues) + heavier)
    lines = math.ceil((len(queues) + heavier) / columns)
    figure = new_figure(0.65 + 1.75 * lines)
    panels = list(figure.subplots(lines, columns, squeeze=False).flat)
    divided = all(_is_divided(data, count) for count in queues)
    for axes, count in zip(panels, queues, strict=False):
        _tax_panel(axes, data, count, divided, with_paper)
    for axes in panels[len(queues) + heavier :]:
        axes.set_visible(False)
    for axes in (axes for index, axes in enumerate(panels[: len(queues)]) if index % columns):
        axes.tick_params(labelleft=False)
    if heavier:
        _work(panels[len(queues)], tax)
    figure.supxlabel("Offered load (% of the maximum with that many queues)", fontsize=8)
    figure.supylabel("Cycles (%)", fontsize=8)
    return figure


def _lookups(sample: PointValues) -> int:
    return int(sample.levels.get("lookups", 1))


def _work(axes: Axes, tax: Sequence[PointValues]) -> None:
    """Draw the tax at full load against the look-ups per packet, one line per number of queues."""
    full = [sample for sample in tax if math.isclose(float(sample.levels.get(LOAD, 1.0)), 1.0)]
    axes.set_title("Full load, by work")
    for rank, (_, found) in enumerate(groups(full, "lookups")):
        words = counted(int(found[0].levels.get("queues", 1)), "queue")
        mean_line(axes, [_lookups(sample) for sample in found], found, 100, rank, words)
    log2_axis(axes, sorted({_lookups(sample) for sample in full}))
    axes.set_xlabel("Look-ups of a packet")
    axes.set_ylabel("Tax (%)")
    least_top(axes, _LEAST_TAX_AXIS_PERCENT)
    axes.set_ylim(bottom=0)


def _of(found: Sequence[PointValues], queues: int) -> dict[float, PointValues]:
    router = [sample for sample in found if _lookups(sample) == 1 and LOAD in sample.levels]
    mine = [sample for sample in router if int(sample.levels.get("queues", 1)) == queues]
    return {float(sample.levels[LOAD]): sample for sample in mine}


def _is_divided(data: FigureData, queues: int) -> bool:
    """Return whether every trial separates the parts of its useful cycles; busy polls that overlap prevent it."""
    tax = _of(data.by_point("tax_share_running"), queues)
    parts = [_of(data.running(metric), queues) for metric in USEFUL_PARTS]
    return all(
        load in part and len(part[load].values) >= len(sample.values) for load, sample in tax.items() for part in parts
    )


def _tax_panel(axes: Axes, data: FigureData, queues: int, divided: bool, with_paper: bool) -> None:
    tax = _of(data.by_point("tax_share_running"), queues)
    places = {load: place for place, load in enumerate(sorted(tax))}
    floor = dict.fromkeys(places, 0.0)
    parts = {metric: _of(data.running(metric), queues) for metric in PARTS}
    useful = _of(data.running("useful_share"), queues)
    for load in places:
        for (name, colour), sample in _stack(parts, useful, divided, load):
            height = 100 * sample.estimate.value
            edge: Any = {"edgecolor": PAPER, "linewidth": 0.3}
            if height < LEAST_PERCENT:
                continue  # not visible, so not in the legend
            axes.bar(places[load], height, BAR_WIDTH, floor[load], color=colour, label=name, **edge)
            floor[load] += height
    for load, sample in tax.items():
        estimate = sample.estimate.scaled(100)
        if estimate.has_interval:
            whisker(axes, places[load], estimate, INK)
    for metric, (name, marker, beside) in OTHER_DEFINITIONS.items():
        for load, sample in _of(data.running(metric), queues).items():
            # The tax itself is absent there, or busy polls timed one at a time exceed the time in which the core ran.
            if load not in places or sample.estimate.value < 0:
                continue
            x, y = places[load] + beside, 100 * sample.estimate.value
            axes.plot(x, y, marker, ms=3.6, mfc=PAPER, mec=INK, mew=0.8, ls="", zorder=6, clip_on=False, label=name)
    if with_paper:
        _stated_range(axes, places)
    axes.set_title(counted(queues, "queue"))
    _load_ticks(axes, places)


def _stack(
    parts: dict[str, dict[float, PointValues]], useful: dict[float, PointValues], divided: bool, load: float
) -> Iterator[tuple[tuple[str, str], PointValues]]:
    """Return name with colour, and size, of the parts of a bar."""
    for name, known in PARTS.items():
        if name in USEFUL_PARTS and not divided:
            if name == USEFUL_PARTS[-1] and load in useful:
                yield USEFUL_WHOLE, useful[load]
        elif load in parts[name]:
            yield known, parts[name][load]


def _stated_range(axes: Axes, places: dict[float, int]) -> None:
    """Draw the range that the paper states for full load as a bracket right of that bar."""
    low, high = (100 * value for value in stated("socc19", "S-F5")["tax_share_at_full_load"])
    full = next((place for load, place in places.items() if math.isclose(load, 1.0)), None)
    if full is None:
        return
    x = full + 0.62
    label = f"bracket: {short_name('socc19')}, tax of {low:.0f} to {high:.0f} % at full load"
    bracket: Any = {"color": INK, "lw": 1.3, "solid_capstyle": "butt"}
    axes.plot([x - 0.12, x, x, x - 0.12], [low, low, high, high], zorder=7, label=label, **bracket)


def _load_ticks(axes: Axes, places: dict[float, int]) -> None:
    step = 1 if len(places) <= 6 else 2
    shown = list(places.items())[::step]
    axes.set_xticks([place for _, place in shown], [human_number(100 * load) for load, _ in shown])
    axes.set_xlim(-0.6, max(places.values(), default=0) + 0.85)
    axes.set_ylim(0, 100)


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
    ratios = {}
    for place in PLACES:
        above, below = (having(found, corunner_place=place, **each) for each in (levels, reference))
        if above and below:
            ratios[place] = above[0].over(below[0])
    return ratios


_LINE_INCH = 0.24
FREQUENCY_COLUMNS = (0.0, 0.2, 0.36, 0.52, 0.76)  # left ends of the columns
_REASON_CHARACTERS = 128


def draw_frequency(data: FigureData) -> Figure:
    """Draw S-T4.2 as a table: one line per number of spinning cores that the paper or the run has."""
    paper = stated("socc19", "S-T4.2")["frequency_hz"]
    frequency, rate = _by_cores(data, "corunner_frequency_hz"), _by_cores(data, "corunner_rate_running_hz")
    head = [
        "Spinning cores",
        f"{short_name('socc19')} (GHz)",
        "relative",
        "Here (GHz, relative)",
        "Rate here, relative",
    ]
    lines = [head]
    for cores in sorted({*paper, *frequency, *rate}):
        there = (f"{paper[cores] / 1e9:.2f}", f"{paper[cores] / paper[0]:.3f}") if cores in paper else ("-", "-")
        here = "left out" if frequency else "absent"
        if cores in frequency:
            here = f"{frequency[cores][0].estimate.value / 1e9:.2f}, {_relative(frequency, cores)}"
        lines.append([f"{cores}", *there, here, _relative(rate, cores) if cores in rate else "left out"])
    reason = "" if frequency else f"Frequency absent, because {data.absence('corunner_frequency_hz')}"
    notes = textwrap.wrap(reason, _REASON_CHARACTERS)
    figure = new_figure(_LINE_INCH * (len(lines) + 1 + 0.8 * len(notes)))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(len(lines) + 0.2 + 0.8 * len(notes), -0.6)
    axes.axhline(0.5, color=GRID, lw=0.8)
    for number, cells in enumerate(lines):
        for place, text in zip(FREQUENCY_COLUMNS, cells, strict=True):
            axes.text(place, number, text, va="center", fontsize=8, color=INK if number else MUTED)
    for number, text in enumerate(notes):
        axes.text(0, len(lines) + 0.8 * number, text, va="center", fontsize=7.5, color=MUTED)
    return figure


# Samples beside spinning cores, and those without them that they are compared with, if there are any.
Pair = tuple[PointValues, PointValues | None]


def _by_cores(data: FigureData, metric: str) -> dict[int, Pair]:
    """Return spinning cores -> the values measured beside them; DUT cores that are left idle count as none."""
    found = data.by_point(metric, "cores", "dut_core")
    if not found:  # the spinning cores are a co-runner instead of a DPDK program
        known = {int(each.levels["spinning_cores"]): each for each in data.by_point(metric, "spinning_cores")}
        return {cores: (each, known.get(0)) for cores, each in known.items()}
    by_core = {(each.levels["dut_core"], int(each.levels["cores"])): each for each in found}
    idle = {cores: each for (core, cores), each in by_core.items() if core == "idle"}
    spinning = {cores: (each, idle.get(cores)) for (core, cores), each in by_core.items() if core == "dut"}
    none = {0: (idle[min(idle)], idle[min(idle)])} if idle else {}
    return {**none, **spinning}


def _relative(found: dict[int, Pair], cores: int) -> str:
    """Return each level's mean divided by that without spinning cores, with its interval where there is one."""
    beside, alone = found[cores]
    if alone is None:
        return "-"
    ratio = beside.over(alone)
    return f"{ratio.value:.3f}" + (f" ({ratio.low:.3f} to {ratio.high:.3f})" if cores and ratio.has_interval else "")


PLACEMENTS = {"separate": "separate physical cores", "smt-pairs": "SMT pairs"}


def draw_smt(data: FigureData) -> Figure:
    """Draw S-F18: bars by organisation and placement at the largest number of cores that was measured."""
    feeds = by_feed(data.by_point("tx_pps", "placement", "organisation"))
    if not feeds:
        return absent_figure(data.absence("tx_pps"), 3.1)
    figure = new_figure(3.1)
    for axes, (feed, found) in zip(figure.subplots(1, len(feeds), squeeze=False).flat, feeds.items(), strict=True):
        axes.set_title(feed)
        cores = max(float(each.levels.get("cores", 1)) for each in found)
        largest = [each for each in found if each.levels.get("cores", 1) == cores]
        names = list(dict.fromkeys(map(_organisation, largest)))
        for sample, (rank, placement) in product(largest, enumerate(PLACEMENTS)):
            if sample.levels["placement"] == placement:
                x, estimate = names.index(_organisation(sample)) + 0.3 * (rank - 0.5), sample.estimate.scaled(1e-6)
                look: Any = {"color": LINES[rank], "hatch": HATCHES[rank], "edgecolor": PAPER, "linewidth": 0}
                axes.bar(x, estimate.value, width=0.26, label=PLACEMENTS[placement], **look)
                if estimate.has_interval:
                    whisker(axes, x, estimate, INK)
        axes.set_xticks(range(len(names)), names)
        axes.set_ylabel(f"Forwarded by {human_number(cores, 6)} logical cores (Mpps)")
    ratio = stated("socc19", "S-F18")["scale_up_smt_ratio"]
    words = f"{short_name('socc19')}: SMT pairs {100 * (ratio - 1):+.0f} % with scale-up, slightly less with scale-out"
    figure.supxlabel(words, fontsize=8)
    return figure


def _organisation(sample: PointValues) -> str:
    sync = sample.levels.get("ring_sync", "default")
    return f"{sample.levels['organisation']}{'' if sync == 'default' else f', ring {sync}'}"
