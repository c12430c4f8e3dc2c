# SPDX-License-Identifier: BSD-3-Clause
"""Draw figures of which data/figures.yaml alone does not say everything: COREC, HyperPlane, attached programs."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from matplotlib.figure import Figure

from pollscope.analysis.figures import pooled
from pollscope.analysis.figures.data import FigureData, short_name
from pollscope.analysis.figures.declared import draw as draw_declared
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.panels import MPPS, having
from pollscope.analysis.figures.style import (
    INK,
    MUTED,
    PAPER,
    PARTS,
    absent_figure,
    absent_panel,
    new_figure,
    ratio_bar,
    stated_level,
    stated_point,
    whisker,
)
from pollscope.analysis.papers import stated
from pollscope.base.units import human_number


def draw_load(data: FigureData, **options: Any) -> Figure:
    """Draw C-F5: mean latency over what was offered, and up to where the paper's is flat."""
    limit = stated("corec", "C-F5")["saturation_pps"] / MPPS
    words = f"with corec flat up to {human_number(limit, 6)} Mpps, on 4 and on 8 cores"
    return _below(draw_declared(data, **options), words)


def draw_traces(data: FigureData, **options: Any) -> Figure:
    """Draw C-T4: a line over cores for each trace at the lowest load, the paper's; its table's values stand below."""
    paper = stated("corec", "C-T4")
    shares, far = (
        [value for each in paper[key].values() for value in each] for key in ("reordered_share", "distance_max")
    )
    words = f"{100 * min(shares):.2f} to {100 * max(shares):.2f} % and {min(far)} to {max(far)} packets"
    return _below(draw_declared(data, **options), f"{words}, MAWI traces on 2, 4 and 8 cores")


def draw_huge(data: FigureData, **options: Any) -> Figure:
    """Draw C-T5: completion over that of one core, retransmissions and reordering over cores, a line for each size."""
    paper = stated("corec", "C-T5")
    cores = " and ".join(str(each) for each in paper["cores"][1:])
    sizes = [
        f"{size} {' and '.join(human_number(each / times[0], 4) for each in times[1:])}"
        for size, times in paper["completion_s"].items()
    ]
    return _below(draw_declared(data, **options), f"{cores} cores take {', '.join(sizes)} times as long as one")


def _below(figure: Figure, words: str) -> Figure:
    figure.supxlabel(f"{short_name('corec')}: {words}", fontsize=8)
    return figure


def draw_distribution(data: FigureData, **options: Any) -> Figure:
    """Draw C-F6: distributions of the latency near saturation, and the loads that the paper chose."""
    rates = stated("corec", "C-F6")["load_pps"].items()
    paper = " and ".join(f"{human_number(pps / MPPS, 6)} Mpps on {count} cores" for count, pps in rates)
    return _below(pooled.draw(data, **options), f"{paper}, of 37 Mpps that its NIC receives")


def draw_cores(data: FigureData, panels: Sequence[Mapping[str, Any]], **options: Any) -> Figure:
    """Draw C-T2 and C-T3: packets over cores with the paper's as stars, and what part of the claims was lost."""
    figure = draw_declared(data, panels=panels, **options)
    if {each.levels["cores"] for each in data.by_point("claim_lost_fraction", "cores")} == {1}:
        figure.axes[1].clear()
        figure.axes[1].set_title("Lost claims")
        absent_panel(figure.axes[1], "one core alone loses nothing to another")
    found = data.by_point(str(panels[0]["metric"]), "cores")
    for place, (words, numa) in PLACES.items():
        if any(each.levels.get("placement", "separate") == place for each in found):
            paper = stated("corec", data.row)[numa]
            *rates, last = (human_number(pps / MPPS, 6) for pps in paper["corec_pps"])
            dpdk = human_number(paper["dpdk_pps"] / MPPS, 6)
            said = f"{dpdk} Mpps with DPDK, {', '.join(rates)} and {last} Mpps with 1 to 4 cores{words}"
            # All stars have the same words, so that they are one entry of the legend.
            for cores, pps in [(_BESIDE_ONE, paper["dpdk_pps"]), *enumerate(paper["corec_pps"], 1)]:
                stated_point(figure.axes[0], cores, pps / MPPS, f"{short_name('corec')}: {said}")
    return figure


# Where the star of DPDK lies, so that it does not hide that of one core with COREC.
_BESIDE_ONE = 0.93
# Placement -> words, and the part of the paper's table that it stands for.
PLACES = {"separate": ("", "same_numa"), "remote-node": (", other NUMA node", "remote_numa")}


def draw_power(data: FigureData, panels: Sequence[Mapping[str, Any]], **options: Any) -> Figure:
    """Draw H-F12; the power of a modelled chip has the unit of its power when it spins idly."""
    spun = having(data.by_point("package_power_w"), notification="spin")
    if data.modelled and spun:
        idle = min(spun, key=lambda each: float(each.levels.get("load_of_max", 0)))
        up = {"label": "Power / of spinning without traffic", "unit": idle.estimate.value}
        panels = [{**panels[0], "up": up}, *panels[1:]]
    return draw_declared(data, panels=panels, **options)


def draw_ready_sets(data: FigureData, tasks: Mapping[str, str], shapes: Mapping[str, str]) -> Figure:
    """Draw H-F13: the searched ready set over the one that finds the next queue at once, a bar for each shape."""
    found = {
        tuple(str(each.levels[name]) for name in ("workload", "shape", "ready_set")): each
        for each in data.by_point("tx_pps", "workload", "shape", "ready_set")
    }
    ratios = {
        (task, shape): found[task, shape, "linear"].over(found[task, shape, "hierarchical"])
        for task, shape in product(tasks, shapes)
        if {(task, shape, "linear"), (task, shape, "hierarchical")} <= found.keys()
    }
    if not ratios:
        reason = "the run has no pair of points with both ready sets"
        return absent_figure(reason if data.by_point("tx_pps") else data.absence("tx_pps"), 2.6)
    figure = new_figure(2.6)
    axes, width = figure.subplots(), 0.36
    rows = [task for task in tasks if any(task == each for each, _ in ratios)]
    bars = [shape for shape in shapes if any(shape == each for _, each in ratios)]
    for (task, shape), ratio in ratios.items():
        at = rows.index(task) + (bars.index(shape) - (len(bars) - 1) / 2) * width
        ratio_bar(axes, at, ratio, width, list(shapes).index(shape), shapes[shape])
    axes.axhline(1, color=MUTED, lw=0.9, label="hierarchical ready set")
    axes.set_xticks(range(len(rows)), [tasks[task].replace(" ", "\n") for task in rows])
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylabel("Throughput, relative")
    axes.set_ylim(bottom=0)
    lowest = float(stated("hyperplane", "H-F13")["software_over_hardware_lowest"])
    words = f"{short_name('hyperplane')}: lowest with FB, over a ready set in hardware"
    stated_level(axes, axes.get_xlim(), lowest, words)
    return figure


_BAR_WIDTH = 0.6
# From below; the tax is what lies on the lowest part.
_STACK = {
    "useful_share": ("Useful", PARTS["process_share"][1]),
    "empty_poll_share": PARTS["empty_poll_share"],
    "interrupted_share": ("Something else ran", PARTS["loop_share"][1]),
    "instrumentation_share": PARTS["instrumentation_share"],
}


def draw_threads(data: FigureData) -> Figure:
    """Draw a stacked bar per polling thread, with the interval of its useful cycles."""
    useful = data.by_point("useful_share")
    if not useful:
        return absent_figure(data.absence("useful_share"), 2.2)
    figure = new_figure(2.8)
    axes = figure.subplots()
    names = [str(sample.levels.get("lcore", "all")) for sample in useful]
    floor = dict.fromkeys(names, 0.0)
    for metric, (label, colour) in _STACK.items():
        for sample in data.by_point(metric):
            name = str(sample.levels.get("lcore", "all"))
            height = 100 * max(0.0, sample.estimate.value)
            edge: Any = {"edgecolor": PAPER, "linewidth": 0.3}
            axes.bar(names.index(name), height, _BAR_WIDTH, floor[name], color=colour, label=label, **edge)
            floor[name] += height
    for place, sample in enumerate(useful):
        if sample.estimate.has_interval:
            whisker(axes, place, sample.estimate.scaled(100), INK)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(0, 100)
    axes.set_xlabel("Lcore")
    axes.set_ylabel("Cycles (%)")
    return figure


THREADS = PaperFigure("ATTACH", None, "Cycles of a running program's polling threads by class", draw_threads)
