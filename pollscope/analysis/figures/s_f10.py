# SPDX-License-Identifier: BSD-3-Clause
"""S-F10a and S-F10b: maximum throughput and LLC traffic by number of queues (SoCC'19 figure 10)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FEEDS, MILLION, FigureData, by_feed, queues_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import (
    DASHES,
    absent_panel,
    mean_line,
    new_figure,
    queue_axis,
    ring_generator_limits,
    stated_level,
    stated_point,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import human_number

# Colours and markers of the reference and of the other panel, behind those of the feeds.
REFERENCE_RANKS, CACHE_RANKS = 2, 4


def draw_single(data: FigureData) -> Figure:
    """S-F10a, with traffic in all queues as the reference where it was measured."""
    figure, throughput = _panels(data, "SQ")
    if throughput.lines:
        _reference(throughput, data, "FB", "traffic in all queues")
        value = stated("socc19", "S-F10a")["tx_pps_at_512"] / MILLION
        stated_point(throughput, 512, value, f"{short_name('socc19')}: {human_number(value, 6)} Mpps at 512 queues")
    return figure


def draw_multi(data: FigureData) -> Figure:
    """S-F10b."""
    figure, throughput = _panels(data, "FB")
    if throughput.lines:
        least = stated("socc19", "S-F10b")["tx_pps_from_64_above"] / MILLION
        words = f"{short_name('socc19')}: above {human_number(least, 6)} Mpps from 64 to 512 queues"
        stated_level(throughput, (64, 512), least, words)
    return figure


def _panels(data: FigureData, shape: str) -> tuple[Figure, Axes]:
    figure = new_figure(2.9)
    throughput, cache = figure.subplots(1, 2)
    throughput.set_title("Maximum throughput")
    _throughput(throughput, data, shape)
    cache.set_title("LLC loads and load misses")
    _cache(cache, data, shape)
    return figure, throughput


def _of(found: Sequence[PointValues], shape: str) -> list[PointValues]:
    return [each for each in found if "queues" in each.levels and each.levels.get("shape", shape) == shape]


def _rank(feed: str) -> int:
    """Of the colour of a feed."""
    return max(0, list(FEEDS.values()).index(feed) - 1)


def _throughput(axes: Axes, data: FigureData, shape: str) -> None:
    found = _of(data.by_point("tx_pps"), shape)
    if not found:
        absent_panel(axes, data.absence("tx_pps"))
        return
    for name, fed in by_feed(found).items():
        mean_line(axes, queues_of(fed), fed, 1 / MILLION, _rank(name), name)
    queue_axis(axes, sorted(set(queues_of(found))))
    axes.set_ylabel("Forwarded (Mpps)")
    limited = _of(data.generator_limited("tx_pps"), shape)
    ring_generator_limits(axes, queues_of(limited), [each.estimate.value / MILLION for each in limited])
    axes.set_ylim(bottom=0)


def _reference(axes: Axes, data: FigureData, shape: str, name: str) -> None:
    for feed, found in by_feed(_of(data.by_point("tx_pps"), shape)).items():
        label, rank = f"{name}: {feed}" if feed else name, _rank(feed) + REFERENCE_RANKS
        mean_line(axes, queues_of(found), found, 1 / MILLION, rank, label, DASHES[1])
        highest = max(each.estimate.value for each in found) / MILLION
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.15 * highest))


def _cache(axes: Axes, data: FigureData, shape: str) -> None:
    lines = {"llc_loads_per_s": "loads", "llc_load_misses_per_s": "load misses"}
    drawn = False
    for metric, name in lines.items():
        for feed, found in by_feed(_of(data.by_point(metric), shape)).items():
            misses = metric == "llc_load_misses_per_s"
            label, rank = f"LLC {name}, {feed}" if feed else f"LLC {name}", CACHE_RANKS + 2 * _rank(feed) + misses
            mean_line(axes, queues_of(found), found, 1 / MILLION, rank, label, DASHES[2 * misses])
            queue_axis(axes, queues_of(found))
            drawn = True
    if not drawn:
        absent_panel(axes, data.absence("llc_loads_per_s"))
        return
    axes.set_ylabel("Million/s")
    axes.set_ylim(bottom=0)


S_F10A = PaperFigure(
    "S-F10a",
    "socc19",
    "Maximum throughput of one core with all traffic in one queue against the number of RX queues",
    draw_single,
    along=("queues",),
    beside=("shape", "feed"),
)
S_F10B = PaperFigure(
    "S-F10b",
    "socc19",
    "Maximum throughput of one core with traffic in all queues against the number of RX queues",
    draw_multi,
    along=("queues",),
    beside=("shape", "feed"),
)
