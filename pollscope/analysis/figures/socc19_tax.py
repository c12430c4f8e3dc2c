# SPDX-License-Identifier: BSD-3-Clause
"""Draw S-F5 and TAX: where the cycles of one polling core go, by offered load and by work per packet."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, short_name
from pollscope.analysis.figures.style import (
    INK,
    PAPER,
    PARTS,
    USEFUL_PARTS,
    USEFUL_WHOLE,
    absent_figure,
    least_top,
    log2_axis,
    mean_line,
    new_figure,
    whisker,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues, groups
from pollscope.base.units import counted, human_number

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


def draw(data: FigureData) -> Figure:
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
    for axes, count in zip(panels, queues, strict=False):
        _panel(axes, data, count)
    for axes in panels[len(queues) + heavier :]:
        axes.set_visible(False)
    for axes in (axes for index, axes in enumerate(panels[: len(queues)]) if index % columns):
        axes.tick_params(labelleft=False)
    if heavier:
        _work(panels[len(queues)], tax)
    _labels(figure)
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


def _panel(axes: Axes, data: FigureData, queues: int, with_paper: bool = True) -> None:
    tax = _of(data.by_point("tax_share_running"), queues)
    places = {load: place for place, load in enumerate(sorted(tax))}
    floor = dict.fromkeys(places, 0.0)
    parts = {metric: _of(data.running(metric), queues) for metric in PARTS}
    useful = _of(data.running("useful_share"), queues)
    for load in places:
        for (name, colour), sample in _stack(parts, useful, tax, load):
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
    parts: dict[str, dict[float, PointValues]],
    useful: dict[float, PointValues],
    tax: dict[float, PointValues],
    load: float,
) -> Iterator[tuple[tuple[str, str], PointValues]]:
    """Return name with colour, and size, of the parts of a bar; useful cycles are one part if a trial cannot separate
    them.
    """
    trials = len(tax[load].values)
    whole = any(load not in parts[name] or len(parts[name][load].values) < trials for name in USEFUL_PARTS)
    for name, known in PARTS.items():
        if name in USEFUL_PARTS and whole:
            if name == USEFUL_PARTS[-1] and load in useful:
                yield USEFUL_WHOLE, useful[load]
        elif load in parts[name]:
            yield known, parts[name][load]


def draw_own(data: FigureData) -> Figure:
    """Draw the same bars without the values of the paper."""
    tax = data.by_point("tax_share_running")
    if not tax:
        return absent_figure(data.absence("tax_share_running"), 2.2)
    queues = sorted({int(sample.levels.get("queues", 1)) for sample in tax})
    figure = new_figure(2.6)
    panels = list(figure.subplots(1, len(queues), squeeze=False, sharey=True).flat)
    for axes, count in zip(panels, queues, strict=True):
        _panel(axes, data, count, with_paper=False)
    _labels(figure)
    return figure


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


def _labels(figure: Figure) -> None:
    figure.supxlabel("Offered load (% of the maximum with that many queues)", fontsize=8)
    figure.supylabel("Cycles (%)", fontsize=8)
