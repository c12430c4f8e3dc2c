# SPDX-License-Identifier: BSD-3-Clause
"""Draw the figures of COREC: cores that share a receive queue beside cores with a queue each."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import PurePath
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
    draw_panel,
    having,
    lines_by,
)
from pollscope.analysis.figures.pooled import draw_cumulative, latency_axis, pooled_latencies
from pollscope.analysis.figures.style import (
    DASHES,
    LINES,
    absent_figure,
    absent_panel,
    floor_line,
    least_top,
    log_y_axis,
    mean_line,
    new_figure,
    stated_point,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import counted, human_number
from pollscope.spec.points import level_text

MEAN_LATENCY, COMPLETION = "latency_sent_mean_ns", "flow_completion_mean_ns"
CORES, SHARED = Along("cores", "Cores"), Along("cores", "Cores at one receive queue")
EACH_OR_SHARED = {"scale-out": "one queue per core", "corec": "one queue for all cores (corec)"}
PATHS = {
    "scale-out": "standard path, one core",
    "corec": "corec",
    "locked": "lock that is waited for",
    "trylock": "lock, skipped if taken",
}
# Placement -> what a line says of it, and the part of the paper's table that it stands for.
PLACES = {"separate": ("", "same_numa"), "remote-node": (", other NUMA node", "remote_numa")}
# Distance between the marks of two organisations or sizes, as a share of the axis.
APART = 0.015
# Shortest axis of a share, so that tiny shares look tiny.
LEAST_PERCENT = 1.0


def _own_ticks(axes: Axes, places: Sequence[float]) -> None:
    """Leave the ticks to matplotlib."""


def draw_time(data: FigureData) -> Figure:
    """Draw C-F3 and C-F4: a panel for each number of cores and each metric, a line for each organisation."""
    cores = sorted({int(each.levels["cores"]) for each in data.by_point(MEAN_LATENCY, "cores")})
    if not cores:
        return absent_figure(data.absence(MEAN_LATENCY), 1.4)
    loads = (
        Along("load_of_max", "Load (% of what the cores can do)", 0.01, _own_ticks),
        Along("load_pps", LOAD_MPPS.label, MPPS, _own_ticks),
    )
    figure = new_figure(2.3 * len(cores) + 0.5)
    metrics = {MEAN_LATENCY: "mean", "latency_sent_p99_ns": "99th percentile"}
    panels = figure.subplots(len(cores), len(metrics), squeeze=False).flat
    for axes, (number, (metric, name)) in zip(panels, product(cores, metrics.items()), strict=True):
        axes.set_title(f"{counted(number, 'core')}: {name}")
        every = data.by_point(metric)
        along = next((load for load in loads if any(load.factor in each.levels for each in every)), loads[0])
        lines = lines_by("organisation", EACH_OR_SHARED, having(every, cores=number), "scale-out")
        draw_panel(axes, lines, along, Up("Time in the system (µs)", MICROSECONDS, log=True), data.absence(metric))
    return figure


def draw_load(data: FigureData) -> Figure:
    """Draw C-F5: mean latency over what was offered, a panel for each number of cores."""
    found = data.by_point(MEAN_LATENCY, "cores", "organisation")
    if not found:
        return absent_figure(data.absence(MEAN_LATENCY), 1.2)
    offered = {_place(each): each.estimate.value / MPPS for each in data.by_point("offered_pps")}
    cores = CORES.places(found)
    figure = new_figure(3.0)
    for axes, count in zip(figure.subplots(1, len(cores), squeeze=False, sharey=True).flat, cores, strict=True):
        axes.set_title(counted(count, "core"))
        for rank, line in enumerate(lines_by("organisation", EACH_OR_SHARED, having(found, cores=count))):
            members = sorted(
                (each for each in line.found if _place(each) in offered), key=lambda each: offered[_place(each)]
            )
            if members:
                x = [offered[_place(each)] for each in members]
                mean_line(axes, x, members, 1 / MICROSECONDS, rank, line.name, DASHES[rank])
        axes.set_xlabel("Offered (Mpps)")
        axes.set_xlim(left=0)
        floor_line(axes, data.floor_ns)
    figure.axes[0].set_ylabel("Mean latency (µs)")
    log_y_axis(figure.axes[0])
    limit = stated("corec", "C-F5")["saturation_pps"] / MPPS
    _below(figure, f"with corec flat up to {human_number(limit, 6)} Mpps, on 4 and on 8 cores")
    return figure


def _place(sample: PointValues) -> frozenset[tuple[str, Any]]:
    return frozenset(sample.levels.items())


def _below(figure: Figure, words: str) -> None:
    """Write below a figure what the paper states."""
    figure.supxlabel(f"{short_name('corec')}: {words}", fontsize=8)


def draw_distribution(data: FigureData) -> Figure:
    """Draw C-F6: all packets of a point together; a row for each load, a panel for each number of cores."""
    found = pooled_latencies(data, ("cores", "organisation", "load_of_max"))
    if not found:
        return absent_figure(data.absence(MEAN_LATENCY), 1.2)
    cores, loads = (sorted({float(at[place]) for at in found}) for place in (0, 2))
    figure = new_figure(0.6 + 2.4 * len(loads))
    panels = figure.subplots(len(loads), len(cores), squeeze=False, sharey=True)
    for axes, (load, count) in zip(panels.flat, product(loads, cores), strict=True):
        axes.set_title(f"{counted(count, 'core')}, {human_number(100 * load, 6)} % of the maximum")
        here = {str(at[1]): each for at, each in found.items() if (at[0], at[2]) == (count, load)}
        if not here:
            absent_panel(axes, "this point has no valid trial", 30)
            continue
        for rank, (organisation, name) in enumerate(EACH_OR_SHARED.items()):
            if organisation in here:
                levels: dict[str, Any] = {"cores": count, "load_of_max": load, "organisation": organisation}
                look: Any = {"color": LINES[rank], "ls": DASHES[rank], "label": name}
                draw_cumulative(axes, data, here[organisation], levels, **look)
        latency_axis(axes, list(here.values()), data.floor_ns)
        floor_line(axes, data.floor_ns, along="x")
        axes.set_ylim(0, 101)
    for row in panels:
        row[0].set_ylabel("Packets with at most that (%)")
    rates = stated("corec", "C-F6")["load_pps"].items()
    paper = " and ".join(f"{human_number(pps / MPPS, 6)} Mpps on {count} cores" for count, pps in rates)
    _below(figure, f"{paper}, of 37 Mpps that its NIC receives")
    return figure


def draw_cores(data: FigureData, metric: str, label: str) -> Figure:
    """Draw C-T2 and C-T3: packets over cores, and what part of the claims was lost, by organisation."""
    figure = new_figure(3.1)
    paper = stated("corec", data.row)
    rate, lost = figure.subplots(1, 2)
    rate.set_title("Maximum throughput")
    _over_cores(rate, data, metric, Up(label, MPPS), range(1, len(paper["cores"]) + 1))
    for place in _places(data.by_point(metric)):
        words, numa = PLACES[place]
        _state(rate, paper[numa], words)
    lost.set_title("Lost claims")
    claims = data.by_point("claim_lost_fraction", "cores")
    if claims and SHARED.places(claims) == [1]:
        absent_panel(lost, "one core alone loses nothing to another")
    else:
        _over_cores(lost, data, "claim_lost_fraction", Up("Claims lost to another core (%)", 0.01), (1,))
    least_top(lost, LEAST_PERCENT)
    return figure


def _over_cores(axes: Axes, data: FigureData, metric: str, up: Up, also: Sequence[float]) -> None:
    found = data.by_point(metric, "cores")
    places = sorted({*SHARED.places(found), *also})
    lines = []
    for place in _places(found):
        near = [each for each in found if each.levels.get("placement", "separate") == place]
        names = {organisation: name + PLACES[place][0] for organisation, name in PATHS.items()}
        lines += lines_by("organisation", names, near, "corec")
    asides = [_aside(places, rank, len(lines)) for rank in range(len(lines))]
    beside = [replace(line, aside=aside) for line, aside in zip(lines, asides, strict=True)]
    draw_panel(axes, beside, SHARED, up, data.absence(metric), also=also)


def _places(found: Sequence[PointValues]) -> list[str]:
    """Return the placements that were measured; a run that does not sweep them has its cores near the NIC."""
    return [place for place in PLACES if any(each.levels.get("placement", "separate") == place for each in found)]


def _state(axes: Axes, paper: dict[str, Any], place: str) -> None:
    """Draw the paper's numbers as stars, all with the same words, so that they are one entry of the legend."""
    *rates, last = (human_number(pps / MPPS, 6) for pps in paper["corec_pps"])
    with_corec = f"{', '.join(rates)} and {last} Mpps with 1 to 4 cores"
    words = f"{short_name('corec')}: {human_number(paper['dpdk_pps'] / MPPS, 6)} Mpps with DPDK, {with_corec}{place}"
    # Compare one core with DPDK with the standard path, as the standard path with corec.
    levels = range(1, len(paper["corec_pps"]) + 1)
    stated_point(axes, 1 + _aside(levels, 0, len(PATHS)), paper["dpdk_pps"] / MPPS, words)
    for cores, pps in enumerate(paper["corec_pps"], 1):
        stated_point(axes, cores, pps / MPPS, words)


def _aside(places: Sequence[float], rank: int, ranks: int) -> float:
    """Return how far aside a mark lies: one organisation's interval or size's line would hide those of the others."""
    return APART * (places[-1] - places[0] or 1.0) * (rank - (ranks - 1) / 2)


def draw_reordering(data: FigureData) -> Figure:
    """Draw C-F7: share of reordered packets over the load, a panel for each number of cores, a line for each size."""
    found = data.by_point("reordered_share", "cores", "frame", "load_pps")
    if not found:
        return absent_figure(data.absence("reordered_share"), 3.0)
    figure = new_figure(3.0)
    cores, sizes, loads = CORES.places(found), Along("frame").places(found), LOAD_MPPS.places(found)
    for axes, count in zip(figure.subplots(1, len(cores), squeeze=False, sharey=True).flat, cores, strict=True):
        axes.set_title(counted(count, "core"))
        lines = [
            Line(
                f"{human_number(size, 6)} B",
                having(found, cores=count, frame=size),
                aside=_aside(loads, rank, len(sizes)),
            )
            for rank, size in enumerate(sizes)
        ]
        up = Up("Reordered packets (%)" if count == cores[0] else "", 0.01)
        draw_panel(axes, lines, LOAD_MPPS, up, data.absence("reordered_share"), also=loads)
    return figure


def draw_traces(data: FigureData) -> Figure:
    """Draw C-T4: a line over cores for each trace at the lowest load, the paper's; its table's values stand below."""
    figure = new_figure(3.2)
    panels = {
        "reordered_share": ("Reordered", Up("Packets (%)", 0.01)),
        "displaced_share": ("Displaced, early or late", Up("Packets (%)", 0.01)),
        "reordering_distance_max": ("Largest distance", Up("Packets of the flow")),
    }
    for axes, (metric, (title, up)) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        axes.set_title(title)
        found = data.by_point(metric, "cores", "trace")
        lowest = min((each.levels.get("load_of_max", 0) for each in found), default=0)
        found = [each for each in found if each.levels.get("load_of_max", 0) == lowest]
        traces = {trace: PurePath(trace).stem for trace in sorted({str(each.levels["trace"]) for each in found})}
        draw_panel(axes, lines_by("trace", traces, found), SHARED, up, data.absence(metric), 30)
    paper = stated("corec", "C-T4")
    shares, far = (
        [value for each in paper[key].values() for value in each] for key in ("reordered_share", "distance_max")
    )
    words = f"{100 * min(shares):.2f} to {100 * max(shares):.2f} % and {min(far)} to {max(far)} packets"
    _below(figure, f"{words}, MAWI traces on 2, 4 and 8 cores")
    return figure


def draw_huge(data: FigureData) -> Figure:
    """Draw C-T5: completion over that of one core, retransmissions and reordering over cores, a line for each size."""
    if not data.by_point(COMPLETION, "cores"):
        return absent_figure(data.absence(COMPLETION), 1.4)
    figure = new_figure(3.0)
    first, *others = figure.subplots(1, 3)
    first.set_title("Completion over that of one core")
    lines = [replace(line, base=next(iter(having(line.found, cores=1)), None)) for line in _by_size(data, COMPLETION)]
    draw_panel(
        first,
        [line if line.base else replace(line, found=()) for line in lines],
        SHARED,
        Up("Times as long", zero=False),
        "no valid trial with one core",
        25,
    )
    beside = {
        "retransmissions_per_flow": ("Retransmissions", "Segments of a flow"),
        "reordering_events_per_flow": ("Reordering that TCP saw", "Events of a flow"),
    }
    for axes, (metric, (title, label)) in zip(others, beside.items(), strict=True):
        axes.set_title(title)
        draw_panel(axes, _by_size(data, metric), SHARED, Up(label), "no trial with one core is data", 25)
    paper = stated("corec", "C-T5")
    cores = " and ".join(str(each) for each in paper["cores"][1:])
    sizes = [
        f"{size} {' and '.join(human_number(each / times[0], 4) for each in times[1:])}"
        for size, times in paper["completion_s"].items()
    ]
    _below(figure, f"{cores} cores take {', '.join(sizes)} times as long as one")
    return figure


def _by_size(data: FigureData, metric: str) -> list[Line]:
    """Return a line over cores for each size of the flow; its name is empty where all flows have the same."""
    every = data.by_point(metric, "cores")
    sizes = sorted({each.levels.get("flow_size") for each in every}, key=lambda size: float(size or 0))
    names = {size: "" if size is None else level_text("flow_size", size) for size in sizes}
    return lines_by("flow_size", names, every, dashes=None)


def draw_flows(data: FigureData, size_bytes: int) -> Figure:
    """Draw C-F8 to C-F10: completion over cores, a row for each number of flows, a line for each organisation."""
    every = data.by_point(COMPLETION, "cores", "organisation", "flows")
    found = [each for each in every if each.levels.get("flow_size", size_bytes) == size_bytes]
    if not found:
        of_size = f"no trial with flows of {level_text('flow_size', size_bytes)} is data"
        return absent_figure(of_size if data.by_point(COMPLETION) else data.absence(COMPLETION), 1.4)
    counts, metrics = Along("flows").places(found), {COMPLETION: "mean", "flow_completion_p90_ns": "90th percentile"}
    figure = new_figure(2.2 * len(counts) + 0.4)
    panels = figure.subplots(len(counts), len(metrics), squeeze=False).flat
    for axes, (flows, (metric, name)) in zip(panels, product(counts, metrics.items()), strict=True):
        axes.set_title(f"{flows:.0f} flows: {name}")
        members = having(data.by_point(metric, "cores", "organisation", "flows"), flows=flows)
        members = [each for each in members if each.levels.get("flow_size", size_bytes) == size_bytes]
        lines = lines_by("organisation", EACH_OR_SHARED, members, dashes=None)
        draw_panel(axes, lines, CORES, Up("Completion (ms)", 1e6), data.absence(metric))
    return figure


# (organisation, where empty buffers lie) -> words.
RIVALS = {
    ("scale-out", "posted"): "one queue per core (RSS)",
    ("rebalanced", "posted"): "one queue per core, rebalanced (RSS++)",
    ("scale-out", "shared"): "one queue per core, shared buffers (ShRing)",
    ("scale-out", "split"): "one queue per core, buffers lent (rxBisect)",
    ("corec", "posted"): "one queue, corec",
    ("locked", "posted"): "one queue, lock that is waited for",
    ("trylock", "posted"): "one queue, lock, skipped if taken",
}
# (shape, flows are one) -> words.
TRAFFIC = {("FB", False): "balanced", ("SQ", False): "many flows,\none queue", ("SQ", True): "one flow"}
# Distance between the marks of two organisations; kinds of traffic are 1 apart.
RIVALS_APART = 0.09
RIVALS_SHOWN = {
    "tx_pps": Up("Forwarded (Mpps)", MPPS),
    "core_imbalance": Up("Imbalance of the cores (%)", 0.01),
    "posted_bytes": Up("Posted buffers (MiB)", 2**20),
    "claim_lost_fraction": Up("Claims lost to another core (%)", 0.01),
    "reordered_share": Up("Reordered packets (%)", 0.01),
    "reta_moves_per_s": Up("RETA entries moved (1/s)"),
}


def draw_rivals(data: FigureData) -> Figure:
    """Draw C-RIVALS: a panel for each metric, in it a place for each traffic and a mark for each organisation."""
    figure = new_figure(5.0)
    for axes, (metric, up) in zip(figure.subplots(2, 3).flat, RIVALS_SHOWN.items(), strict=True):
        axes.set_ylabel(up.label)
        found = [each for each in data.by_point(metric, "organisation") if _traffic(each) in TRAFFIC]
        if not found:
            absent_panel(axes, data.absence(metric), 30)
            continue
        for rank, ((organisation, buffers), words) in enumerate(RIVALS.items()):
            own = having(found, organisation=organisation)
            members = [each for each in own if each.levels.get("rx_buffers", "posted") == buffers]
            aside = RIVALS_APART * (rank - (len(RIVALS) - 1) / 2)
            places = [list(TRAFFIC).index(_traffic(each)) + aside for each in members]
            if members:
                mean_line(axes, places, members, 1 / up.unit, rank, words, "")
        axes.set_xticks(range(len(TRAFFIC)), list(TRAFFIC.values()))
        axes.set_xlim(-0.5, len(TRAFFIC) - 0.5)
        axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], LEAST_PERCENT))
    return figure


def _traffic(sample: PointValues) -> tuple[str, bool]:
    return str(sample.levels.get("shape", "FB")), sample.levels.get("flows") == 1
