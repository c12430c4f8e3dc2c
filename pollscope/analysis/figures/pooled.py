# SPDX-License-Identifier: BSD-3-Clause
"""Draw distributions of latencies over all packets of all trials of a point."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from pollscope.analysis.figures.data import US_PER_NS, FigureData
from pollscope.analysis.figures.style import DASHES, LINES, absent_figure, absent_panel, floor_line, new_figure
from pollscope.analysis.point_values import Level, levels_text, measured
from pollscope.base.units import counted, human_number
from pollscope.metrics.record import NotMeasured, TrialObservations
from pollscope.stats.estimates import Estimate
from pollscope.stats.histogram import Histogram, merged
from pollscope.store.results_table import last_attempts

# From the actual departure, because a paper's generator measures round trips of sent packets.
LATENCY = ("latency_ns", "from_sent")
# Levels of some factors, in the requested order.
Levels = tuple[Level, ...]


def pooled_latencies(data: FigureData, factors: Sequence[str]) -> dict[Levels, Histogram]:
    """Return levels of the factors -> histogram of all latencies (ns) of the data trials; omit points without."""
    counted = set(measured(data.table)["trial"])
    parts: dict[Levels, list[Histogram]] = {}
    for record in last_attempts(data.run.trials):
        levels: Any = record["factors"]
        if record["trial"] in counted and set(factors) <= set(levels):
            with suppress(NotMeasured):
                histogram = TrialObservations(record).gen_histogram(*LATENCY)
                parts.setdefault(tuple(levels[name] for name in factors), []).append(histogram)
    return {at: merged(parts[at], ", ".join(f"{level} {name}" for name, level in zip(factors, at, strict=True)))
            for at in sorted(parts)}  # fmt: skip


def draw(
    data: FigureData,
    *,
    height: tuple[float, float],
    by: str,
    names: Mapping[Level, str] | None = None,
    word: str = "",
    panels: tuple[str, ...] = (),
) -> Figure:
    """Draw the share of packets up to each latency, all packets of all trials of a point together.

    The levels of the first of `panels` are rows, those of the second stand side by side; those of `by` are lines.
    """
    found = pooled_latencies(data, (*panels, by))
    if not found:
        return absent_figure(data.absence("latency_sent_mean_ns"), 1.2)
    levels = [sorted({at[place] for at in found}) for place in range(len(panels))] or [[]]
    places = list(product(*levels)) if panels else [()]
    figure = new_figure(height[0] + height[1] * (len(levels[0]) or 1))
    grid = figure.subplots(len(levels[0]) or 1, len(levels[-1]) or 1, squeeze=False, sharey=True)
    for axes, place in zip(grid.flat, places, strict=True):
        here = {at[-1]: each for at, each in found.items() if at[:-1] == place}
        known = dict(zip(panels, place, strict=True))
        axes.set_title(levels_text(known))
        if not here:
            absent_panel(axes, "this point has no valid trial", 30)
            continue
        shown = names or {level: counted(float(level), word) for level in here}
        for rank, level in enumerate(shown):
            if level in here:
                look: Any = {"color": LINES[rank], "ls": DASHES[rank], "label": shown[level], "where": "post"}
                curve = here[level].cumulative()
                for value, share in curve:
                    exact = Estimate(value, value, value, 1, "histogram")
                    at = {**known, by: level, "share_of_packets_at_most": share}
                    data.note("latency_sent", "ns", at, exact)
                axes.step([value * US_PER_NS for value, _ in curve], [100 * share for _, share in curve], **look)
        _latency_axis(axes, list(here.values()), data.floor_ns)
        floor_line(axes, data.floor_ns, along="x")
        axes.set_ylim(0, 101)
    for row in grid:
        row[0].set_ylabel("Packets with at most that (%)")
    return figure


def _latency_axis(axes: Axes, histograms: Sequence[Histogram], floor_ns: float | None) -> None:
    """Limit the axis to the path's latency and the slowest packet but one in a thousand; beyond, cores were away."""
    axes.set_xscale("log")
    low = min([*(histogram.smallest for histogram in histograms), *([] if floor_ns is None else [floor_ns])])
    high = max(histogram.percentile(99.9) for histogram in histograms)
    axes.set_xlim(0.9 * low * US_PER_NS, 1.1 * high * US_PER_NS)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: human_number(value, 6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("Latency from the departure (µs)")
