# SPDX-License-Identifier: BSD-3-Clause
"""Draw distributions of latencies over all packets of all trials of a point."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from pollscope.analysis.figures.data import US_PER_NS, FigureData
from pollscope.analysis.point_values import Level, measured
from pollscope.base.units import human_number
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
        histogram = _latencies(record) if record["trial"] in counted else None
        levels: Any = record["factors"]
        if histogram is not None and set(factors) <= set(levels):
            parts.setdefault(tuple(levels[name] for name in factors), []).append(histogram)
    return {at: merged(parts[at], ", ".join(f"{level} {name}" for name, level in zip(factors, at, strict=True)))
            for at in sorted(parts)}  # fmt: skip


def _latencies(record: dict[str, object]) -> Histogram | None:
    try:
        return TrialObservations(record).gen_histogram(*LATENCY)
    except NotMeasured:
        return None


def draw_cumulative(axes: Axes, data: FigureData, histogram: Histogram, levels: dict[str, Level], **look: Any) -> None:
    """Draw the share of packets up to each latency (us) as steps; `look` goes to matplotlib."""
    curve = histogram.cumulative()
    for value, share in curve:
        known = Estimate(value, value, value, 1, "histogram")
        data.note("latency_sent", "ns", {**levels, "share_of_packets_at_most": share}, known)
    axes.step([value * US_PER_NS for value, _ in curve], [100 * share for _, share in curve], where="post", **look)


def latency_axis(axes: Axes, histograms: Sequence[Histogram], floor_ns: float | None) -> None:
    """Limit the axis to the path's latency and the slowest packet but one in a thousand; beyond, cores were away."""
    axes.set_xscale("log")
    low = min([*(histogram.smallest for histogram in histograms), *([] if floor_ns is None else [floor_ns])])
    high = max(histogram.percentile(99.9) for histogram in histograms)
    axes.set_xlim(0.9 * low * US_PER_NS, 1.1 * high * US_PER_NS)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: human_number(value, 6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("Latency from the departure (µs)")
