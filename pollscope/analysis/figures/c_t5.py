# SPDX-License-Identifier: BSD-3-Clause
"""C-T5 and C-F8 to C-F10: completion of TCP flows through cores that share a queue (COREC table 5, figures 8 to 10)."""

from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, by_level, levels_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import (
    DASHES,
    absent_figure,
    absent_panel,
    interval_line,
    level_axis,
    mean_line,
    new_figure,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import human_number
from pollscope.spec.points import level_text
from pollscope.stats.estimates import Estimate

_COMPLETION = "flow_completion_mean_ns"
_BESIDE_COMPLETION = {
    "retransmissions_per_flow": ("Retransmissions", "Segments of a flow"),
    "reordering_events_per_flow": ("Reordering that TCP saw", "Events of a flow"),
}
STATISTICS = {_COMPLETION: "mean", "flow_completion_p90_ns": "90th percentile"}
NAMES = {"scale-out": "a queue for each core", "corec": "one queue for all cores (corec)"}
_MS_PER_NS = 1e-6
_KB = 1000


def draw_huge(data: FigureData) -> Figure:
    """C-T5: completion over that of one core, retransmissions and reordering over cores, a line for each size."""
    found = _by_size(data, _COMPLETION)
    if not found:
        return absent_figure(data.absence(_COMPLETION), 1.4)
    figure = new_figure(3.0)
    first, *others = figure.subplots(1, 1 + len(_BESIDE_COMPLETION))
    first.set_title("Completion over that of one core")
    _over_cores(first, found, _over_one_core)
    first.set_ylabel("Times as long")
    for axes, (metric, (title, label)) in zip(others, _BESIDE_COMPLETION.items(), strict=True):
        axes.set_title(title)
        _over_cores(axes, _by_size(data, metric), lambda members: [each.estimate for each in members])
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    figure.supxlabel(f"{short_name('corec')}: {_paper_ratios()}", fontsize=8)
    return figure


def _by_size(data: FigureData, metric: str) -> dict[str, list[PointValues]]:
    """Points over cores by size of the flow; the size is empty where all flows have the same."""
    every = data.by_point(metric, "cores")
    every.sort(key=lambda each: (float(each.levels.get("flow_size", 0)), float(each.levels["cores"])))
    sizes = dict.fromkeys(each.levels.get("flow_size") for each in every)
    return {
        "" if size is None else level_text("flow_size", size): [
            each for each in every if each.levels.get("flow_size") == size
        ]
        for size in sizes
    }


def _over_one_core(members: Sequence[PointValues]) -> list[Estimate]:
    one = next((each for each in members if each.levels["cores"] == 1), None)
    if one is None:
        return []
    return [each.relative_to(one) for each in members]


def _over_cores(
    axes: Axes,
    found: dict[str, list[PointValues]],
    values_of: Callable[[Sequence[PointValues]], list[Estimate]],
) -> None:
    for rank, (size, members) in enumerate(found.items()):
        values = values_of(members)
        if values:
            interval_line(axes, levels_of(members, "cores"), values, rank, size, DASHES[rank])
    if not axes.lines:
        absent_panel(axes, "no trial with one core is data", 25)
        return
    level_axis(axes, sorted({cores for members in found.values() for cores in levels_of(members, "cores")}))
    axes.set_xlabel("Cores at one receive queue")


def _paper_ratios() -> str:
    paper = stated("corec", "C-T5")
    cores = " and ".join(str(each) for each in paper["cores"][1:])
    sizes = [
        f"{size} {' and '.join(human_number(each / times[0], 4) for each in times[1:])}"
        for size, times in paper["completion_s"].items()
    ]
    return f"{cores} cores take {', '.join(sizes)} times as long as one"


def draw_many(size_bytes: int, data: FigureData) -> Figure:
    """Completion over cores, a row for each number of flows, a line for each organisation."""
    found = _of_size(data, _COMPLETION, size_bytes)
    if not found:
        of_size = f"no trial with flows of {level_text('flow_size', size_bytes)} is data"
        return absent_figure(of_size if data.by_point(_COMPLETION) else data.absence(_COMPLETION), 1.4)
    counts = sorted({int(each.levels["flows"]) for each in found})
    figure = new_figure(2.2 * len(counts) + 0.4)
    for row, flows in zip(figure.subplots(len(counts), len(STATISTICS), squeeze=False), counts, strict=True):
        for axes, (metric, name) in zip(row, STATISTICS.items(), strict=True):
            axes.set_title(f"{flows} flows: {name}")
            members = [each for each in _of_size(data, metric, size_bytes) if each.levels["flows"] == flows]
            _by_organisation(axes, members, data.absence(metric))
    return figure


def _of_size(data: FigureData, metric: str, size_bytes: int) -> list[PointValues]:
    every = data.by_point(metric, "cores", "organisation", "flows")
    return [each for each in every if each.levels.get("flow_size", size_bytes) == size_bytes]


def _by_organisation(axes: Axes, members: Sequence[PointValues], absence: str) -> None:
    if not members:
        absent_panel(axes, absence)
        return
    for rank, (organisation, name) in enumerate(NAMES.items()):
        own = by_level((each for each in members if each.levels["organisation"] == organisation), "cores")
        if own:
            mean_line(axes, levels_of(own, "cores"), own, _MS_PER_NS, rank, name, DASHES[rank])
    level_axis(axes, sorted({*levels_of(members, "cores")}))
    axes.set_xlabel("Cores")
    axes.set_ylabel("Completion (ms)")
    axes.set_ylim(bottom=0)


def _many(row: str, size_bytes: int) -> PaperFigure:
    return PaperFigure(
        row,
        "corec",
        f"Completion of TCP flows of {size_bytes // _KB} KB, a queue a core and one queue that all cores share",
        partial(draw_many, size_bytes),
        along=("cores",),
        beside=("queues", "organisation", "flows", "flow_size"),
    )


C_T5 = PaperFigure(
    "C-T5",
    "corec",
    "Completion and retransmissions of one huge TCP flow, cores that share one receive queue",
    draw_huge,
    along=("cores",),
    beside=("flow_size",),
)
C_F8, C_F9, C_F10 = _many("C-F8", 100 * _KB), _many("C-F9", 10 * _KB), _many("C-F10", _KB)
