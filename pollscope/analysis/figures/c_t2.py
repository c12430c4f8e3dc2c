# SPDX-License-Identifier: BSD-3-Clause
"""C-T2, C-T3, C-F7: what cores at one receive queue do together, and in what order (COREC tables 2 and 3, figure 7)."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import MILLION, FigureData, by_level, levels_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import (
    absent_figure,
    absent_panel,
    least_top,
    level_axis,
    mean_line,
    new_figure,
    stated_point,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import counted, human_number

NAMES = {
    "scale-out": "standard path, one core",
    "corec": "corec",
    "locked": "lock that is waited for",
    "trylock": "lock that is passed by",
}
# Placement -> what a line says of it, and the part of the paper's table that it stands for.
PLACES = {"separate": "", "remote-node": ", other NUMA node"}
_NUMA = {"separate": "same_numa", "remote-node": "remote_numa"}
# Row -> its packets, those that were encrypted or dropped among them.
PACKETS = {"C-T2": ("tx_pps", "Forwarded (Mpps)"), "C-T3": ("moved_pps", "Processed (Mpps)")}
LOST = "claim_lost_fraction"
# Between the marks of two organisations or sizes, as a share of the axis.
APART = 0.015
# The axis of lost claims is no shorter, so that none lost looks like none.
_LEAST_LOST_PERCENT = 1.0


def draw_cores(data: FigureData) -> Figure:
    """C-T2, C-T3: packets over cores, and what part of the claims was lost, by organisation."""
    figure = new_figure(3.1)
    (metric, label), paper = PACKETS[data.row], stated("corec", data.row)
    for axes, (title, shown, scale, name, also) in zip(
        figure.subplots(1, 2),
        (
            ("Maximum throughput", metric, 1 / MILLION, label, len(paper["cores"])),
            ("Lost claims", LOST, 100.0, "Claims lost to another core (%)", 1),
        ),
        strict=True,
    ):
        axes.set_title(title)
        _over_cores(axes, data, shown, scale, name, also)
    for place in _places(data.by_point(metric)):
        _state(figure.axes[0], paper[_NUMA[place]], PLACES[place])
    least_top(figure.axes[1], _LEAST_LOST_PERCENT)
    return figure


def _places(found: Sequence[PointValues]) -> list[str]:
    """The placements that were measured; a run that does not sweep them has its cores near the NIC."""
    return [place for place in PLACES if any(each.levels.get("placement", "separate") == place for each in found)]


def _state(axes: Axes, paper: dict[str, Any], place: str) -> None:
    """The paper's numbers as stars, all with the same words, so that they are one entry of the legend."""
    *rates, last = (human_number(pps / MILLION, 6) for pps in paper["corec_pps"])
    with_corec = f"{', '.join(rates)} and {last} Mpps with 1 to 4 cores"
    words = f"{short_name('corec')}: {human_number(paper['dpdk_pps'] / MILLION, 6)} Mpps with DPDK, {with_corec}{place}"
    # One core with DPDK stands beside the standard path, as that does beside corec.
    levels = range(1, len(paper["corec_pps"]) + 1)
    stated_point(axes, 1 + _aside(levels, 0, len(NAMES)), paper["dpdk_pps"] / MILLION, words)
    for cores, pps in enumerate(paper["corec_pps"], 1):
        stated_point(axes, cores, pps / MILLION, words)


def _over_cores(axes: Axes, data: FigureData, metric: str, scale: float, label: str, at_least: int) -> None:
    """The axis has the cores that were measured, and those from 1 to `at_least`."""
    found = data.by_point(metric, "cores")
    if not found or (metric == LOST and all(each.levels["cores"] == 1 for each in found)):
        absent_panel(axes, data.absence(metric) if not found else "one core alone loses nothing to another")
        return
    levels = sorted({*levels_of(found, "cores"), *map(float, range(1, at_least + 1))})
    lines = [(place, organisation) for place in _places(found) for organisation in NAMES]
    for rank, line in enumerate(lines):
        levels_there = (
            (each.levels.get("placement", "separate"), each.levels.get("organisation", "corec")) for each in found
        )
        own = [each for each, there in zip(found, levels_there, strict=True) if there == line]
        if members := by_level(own, "cores"):
            aside, name = _aside(levels, rank, len(lines)), NAMES[line[1]] + PLACES[line[0]]
            mean_line(axes, [cores + aside for cores in levels_of(members, "cores")], members, scale, rank, name)
    level_axis(axes, levels)
    axes.set_xlabel("Cores at one receive queue")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)


def _aside(levels: Sequence[float], rank: int, ranks: int) -> float:
    """How far aside a mark lies: one organisation's interval or size's line would hide those of the others."""
    return APART * (levels[-1] - levels[0] or 1.0) * (rank - (ranks - 1) / 2)


def draw_reordering(data: FigureData) -> Figure:
    """C-F7: share of reordered packets over the offered load, a panel for each number of cores, a line for a size."""
    found = data.by_point("reordered_share", "cores", "frame", "load_pps")
    if not found:
        return absent_figure(data.absence("reordered_share"), 3.0)
    figure = new_figure(3.0)
    cores, sizes = (sorted({*levels_of(found, factor)}) for factor in ("cores", "frame"))
    loads = sorted({*levels_of(found, "load_pps", 1 / MILLION)})
    for axes, count in zip(figure.subplots(1, len(cores), squeeze=False, sharey=True).flat, cores, strict=True):
        axes.set_title(counted(count, "core"))
        for rank, size in enumerate(sizes):
            members = [each for each in found if (each.levels["cores"], each.levels["frame"]) == (count, size)]
            _over_load(axes, members, _aside(loads, rank, len(sizes)), rank, f"{human_number(size, 6)} B")
        level_axis(axes, loads)
        axes.set_xlabel("Offered load (Mpps)")
        axes.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("Reordered packets (%)")
    return figure


def _over_load(axes: Axes, members: Sequence[PointValues], aside: float, rank: int, name: str) -> None:
    if members := by_level(members, "load_pps"):
        x = [load + aside for load in levels_of(members, "load_pps", 1 / MILLION)]
        mean_line(axes, x, members, 100.0, rank, name)


C_T2 = PaperFigure("C-T2", "corec", "Maximum throughput of cores that share one receive queue", draw_cores)
C_T3 = PaperFigure("C-T3", "corec", "Maximum throughput of cores at one receive queue, with IPsec", draw_cores)
C_F7 = PaperFigure("C-F7", "corec", "Reordered packets of cores that share one receive queue", draw_reordering)
