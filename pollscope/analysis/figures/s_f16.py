# SPDX-License-Identifier: BSD-3-Clause
"""S-F16, S-F17a, S-F17b, S-F18: a queue a core against one shared queue (SoCC'19 figures 16 to 18)."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import MILLION, US_PER_NS, FigureData, by_feed, by_level, levels_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import (
    HATCHES,
    INK,
    LINES,
    PAPER,
    absent_figure,
    absent_panel,
    level_axis,
    log_y_axis,
    mean_line,
    new_figure,
    ring_generator_limits,
    stated_at,
    whisker,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import counted, human_number

NAMES = {
    "scale-out": "scale-out (a queue a core)",
    "scale-up": "scale-up (one shared queue)",
    "locked": "locked",
    "scale-up rts": "scale-up, ring rts",
    "scale-up hts": "scale-up, ring hts",
}
PLACES = {"separate": "separate physical cores", "smt-pairs": "SMT pairs"}
_LATENCIES = {"latency_sent_mean_ns": "Mean", "latency_sent_p99_ns": "99th percentile"}


def draw_cores(data: FigureData) -> Figure:
    """S-F16: what cores forward, and what of it was lost before a full ring."""
    feeds = by_feed(data.by_point("tx_pps", "cores"))
    if not feeds:
        return absent_figure(data.absence("tx_pps"), 1.2)
    limits = by_feed(data.generator_limited("tx_pps", "cores"))
    drops = by_feed(data.by_point("ring_full_share", "cores"))
    figure = new_figure(0.6 + 2.5 * len(feeds))
    panels = figure.subplots(len(feeds), 2, squeeze=False)
    for (rate, full), (feed, sent) in zip(panels, feeds.items(), strict=True):
        rate.set_title(f"Maximum: {feed}" if feed else "Maximum throughput")
        _over_cores(rate, sent, 1 / MILLION, "Forwarded (Mpps)")
        limited = limits.get(feed, [])
        x = levels_of(limited, "cores")
        ring_generator_limits(rate, x, [each.estimate.value / MILLION for each in limited])
        peak = stated("socc19", "S-F16")["scale_up_peak_cores"]
        stated_at(rate, peak, f"{short_name('socc19')}: scale-up peaks at {peak} cores")
        full.set_title("Dropped before a full ring")
        if dropped := drops.get(feed):
            _over_cores(full, dropped, 100.0, "Of what dispatchers received (%)")
        else:
            absent_panel(full, data.absence("ring_full_share"))
    return figure


def _over_cores(axes: Axes, found: Sequence[PointValues], scale: float, label: str) -> None:
    lines = _by_organisation(found)
    _draw_lines(axes, lines, "cores", scale, 1.0)
    level_axis(axes, sorted({cores for found in lines.values() for cores in levels_of(found, "cores")}))
    axes.set_xlabel("Forwarding cores, with as many dispatchers")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)


def draw_latency(data: FigureData) -> Figure:
    """S-F17a and S-F17b: mean and 99th percentile at the largest number of cores that was measured, by burst."""
    if not data.by_point("latency_sent_mean_ns", "load_pps"):
        return absent_figure(data.absence("latency_sent_mean_ns"), 1.2)
    taken = {int(each.levels["burst"]) for each in data.by_point("latency_sent_mean_ns", "burst")}
    bursts: list[int | None] = [*sorted(taken)] or [None]
    figure = new_figure(0.5 + 2.6 * len(bursts))
    for row, burst in zip(figure.subplots(len(bursts), 2, squeeze=False), bursts, strict=True):
        for axes, (metric, title) in zip(row, _LATENCIES.items(), strict=True):
            _over_load(axes, data, metric, title, burst)
        if row[0].lines and data.row == "S-F17a":
            limit = stated("socc19", "S-F17a")["scale_up_higher_above_pps"] / MILLION
            stated_at(row[0], limit, f"{short_name('socc19')}: scale-up higher above {human_number(limit, 6)} Mpps")
    return figure


def _over_load(axes: Axes, data: FigureData, metric: str, title: str, burst: int | None) -> None:
    """Points with that burst; None where the run has swept none."""
    found = _held_up([each for each in data.by_point(metric, "load_pps") if each.levels.get("burst") == burst])
    if not found:
        axes.set_title(title)
        absent_panel(axes, data.absence(metric))
        return
    most = max(float(each.levels.get("cores", 1)) for each in found)
    lines = _by_organisation([each for each in found if float(each.levels.get("cores", 1)) == most])
    taken = {None: "", 1: ", one packet at a time"}.get(burst, f", up to {burst} packets at once")
    axes.set_title(f"{title}, {counted(most, 'core')}{taken}")
    _draw_lines(axes, lines, "load_pps", US_PER_NS, 1 / MILLION)
    level_axis(axes, sorted({load for found in lines.values() for load in levels_of(found, "load_pps", 1 / MILLION)}))
    axes.set_xlabel("Offered load (Mpps)")
    axes.set_ylabel("Latency (µs)")
    log_y_axis(axes)


def _held_up(found: Sequence[PointValues]) -> list[PointValues]:
    """Those with hiccups, where a run has the same points without."""
    most = max((float(each.levels.get("hiccup_probability", 0.0)) for each in found), default=0.0)
    return [each for each in found if float(each.levels.get("hiccup_probability", 0.0)) == most]


def draw_smt(data: FigureData) -> Figure:
    """S-F18: bars by organisation and placement at the largest number of cores that was measured."""
    found = data.by_point("tx_pps", "placement", "organisation")
    if not found:
        return absent_figure(data.absence("tx_pps"), 3.1)
    figure = new_figure(3.1)
    feeds = by_feed(found)
    for axes, (feed, fed) in zip(figure.subplots(1, len(feeds), squeeze=False).flat, feeds.items(), strict=True):
        axes.set_title(feed)
        _places(axes, fed)
    ratio = stated("socc19", "S-F18")["scale_up_smt_ratio"]
    words = f"{short_name('socc19')}: SMT pairs {100 * (ratio - 1):+.0f} % with scale-up, slightly less with scale-out"
    figure.supxlabel(words, fontsize=8)
    return figure


def _places(axes: Axes, found: Sequence[PointValues]) -> None:
    """A bar for each organisation and placement."""
    most = max(float(each.levels.get("cores", 1)) for each in found)
    lines = _by_organisation([each for each in found if float(each.levels.get("cores", 1)) == most])
    for place, members in enumerate(lines.values()):
        for each in members:
            _bar(axes, place, each)
    axes.set_xticks(range(len(lines)), [NAMES[name].partition(" (")[0] for name in lines])
    axes.set_ylabel(f"Forwarded by {human_number(most, 6)} logical cores (Mpps)")


def _bar(axes: Axes, place: int, sample: PointValues) -> None:
    rank = list(PLACES).index(str(sample.levels["placement"])) if sample.levels["placement"] in PLACES else len(PLACES)
    x, estimate = place + 0.3 * (rank - 0.5), sample.estimate.scaled(1 / MILLION)
    label = PLACES.get(str(sample.levels["placement"]), str(sample.levels["placement"]))
    look: Any = {"color": LINES[rank], "hatch": HATCHES[rank], "edgecolor": PAPER, "linewidth": 0}
    axes.bar(x, estimate.value, width=0.26, label=label, **look)
    if estimate.has_interval:
        whisker(axes, x, estimate, INK)


def _by_organisation(found: Sequence[PointValues]) -> dict[str, list[PointValues]]:
    lines = {name: [each for each in found if _line_of(each) == name] for name in NAMES}
    return {name: members for name, members in lines.items() if members}


def _line_of(sample: PointValues) -> str:
    """Its organisation, and the synchronisation of a shared ring where that is not the default."""
    sync = str(sample.levels.get("ring_sync", "default"))
    return f"{sample.levels.get('organisation', 'scale-out')}{'' if sync == 'default' else f' {sync}'}"


def _draw_lines(axes: Axes, lines: dict[str, list[PointValues]], factor: str, scale: float, x_scale: float) -> None:
    for name, members in lines.items():
        own = by_level(members, factor)
        mean_line(axes, levels_of(own, factor, x_scale), own, scale, list(NAMES).index(name), NAMES[name])


S_F16 = PaperFigure(
    "S-F16",
    "socc19",
    "Maximum throughput with a queue a core and with one shared queue against the number of cores",
    draw_cores,
    along=("cores",),
    beside=("dispatchers", "queues", "organisation", "ring_sync", "feed"),
)
S_F17A = PaperFigure(
    "S-F17a",
    "socc19",
    "Average round-trip latency against load, a queue a core and one shared queue, no hiccups",
    draw_latency,
    along=("load_pps", "load_of_max", "load_of_line"),
    beside=("cores", "dispatchers", "queues", "organisation", "ring_sync", "burst", "hiccup_probability"),
)
S_F17B = PaperFigure(
    "S-F17b",
    "socc19",
    "Average round-trip latency against load, a queue a core and one shared queue, with hiccups",
    draw_latency,
    along=("load_pps", "load_of_max", "load_of_line"),
    beside=("cores", "dispatchers", "queues", "organisation", "ring_sync", "burst", "hiccup_probability"),
)
S_F18 = PaperFigure(
    "S-F18",
    "socc19",
    "Maximum throughput of separate physical cores and of SMT pairs, a queue a core and one shared queue",
    draw_smt,
    along=("placement",),
    beside=("cores", "dispatchers", "queues", "organisation", "ring_sync", "feed"),
)
