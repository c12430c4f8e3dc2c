# SPDX-License-Identifier: BSD-3-Clause
"""Draw the figures of the SoCC'19 paper over packet sizes and cores: S-F12, S-F13, S-F16, S-F17 and S-F18."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pollscope.analysis.figures.data import FEEDS, FigureData, by_feed, short_name
from pollscope.analysis.figures.panels import (
    LOAD_MPPS,
    MICROSECONDS,
    MPPS,
    Along,
    Line,
    Up,
    draw_lines,
    draw_panel,
    having,
    set_axes,
)
from pollscope.analysis.figures.style import (
    DASHES,
    GRID,
    HATCHES,
    INK,
    LINES,
    MARKERS,
    MUTED,
    PAPER,
    absent_figure,
    absent_panel,
    log2_axis,
    new_figure,
    ring_generator_limits,
    stated_at,
    stated_level,
    whisker,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import counted, human_number

# Workload and feed of a line. The sender to the receiving core is the generator, on its own core.
_RATES = {
    "a core that only sends, without a receiver": ("tx", "wire", "tx_pps", "tx_line_bps"),
    "a core that only receives, rings always full": ("rx", "infinite", "rx_pps", "rx_line_bps"),
    "a core that only receives, from one sending core": ("rx", "wire", "rx_pps", "rx_line_bps"),
    "what that sending core sent": ("rx", "wire", "offered_pps", ""),
}
_MOST_UPRIGHT = 5  # sizes whose labels fit side by side below a third of a figure
SIZES = Along("frame", "Packet size (B)", ticks=log2_axis)
PAIRS = Along("cores", "Cores with one queue each")
FORWARDING = Along("cores", "Forwarding cores, with as many dispatchers")
ORGANISATIONS = {
    "scale-out": "scale-out (one queue per core)",
    "scale-up": "scale-up (one shared queue)",
    "locked": "locked",
    "scale-up rts": "scale-up, ring rts",
    "scale-up hts": "scale-up, ring hts",
}
PLACEMENTS = {"separate": "separate physical cores", "smt-pairs": "SMT pairs"}


def draw_sizes(data: FigureData) -> Figure:
    """Draw S-F12: packet rates, bit rates with the paper's line rate, and drops of the receiving port."""
    figure = new_figure(3.1)
    packets, line, drops = figure.subplots(1, 3)
    packets.set_title("Packets")
    _sizes(packets, data, [each[2] for each in _RATES.values()], Up("Rate (Mpps)", MPPS))
    line.set_title("Bits on the line")
    if _sizes(line, data, [each[3] for each in _RATES.values()], Up("Rate with gaps (Gb/s)", 1e9)):
        rate = stated("socc19", "S-F12")["line_rate_bps"] / 1e9
        stated_level(line, line.get_xlim(), rate, f"{short_name('socc19')}: below {human_number(rate, 6)} Gb/s")
    drops.set_title("Dropped at the RX port")
    _sizes(drops, data, ["", "", "imissed_share", ""], Up("Share of what arrived (%)", 0.01))
    return figure


def _sizes(axes: Axes, data: FigureData, metrics: Sequence[str], up: Up) -> bool:
    """Draw a metric for each of _RATES, or none where it is empty; runs without feeds had `wire`."""
    lines = []
    for (name, (workload, feed, *_)), metric in zip(_RATES.items(), metrics, strict=True):
        found = having(data.by_point(metric, "frame"), workload=workload) if metric else []
        lines.append(Line(name, [each for each in found if each.levels.get("feed", "wire") == feed]))
    drawn = draw_panel(axes, lines, SIZES, up, data.absence(next(filter(None, metrics))), 24)
    if drawn and len(SIZES.places(each for line in lines for each in line.found)) > _MOST_UPRIGHT:
        axes.tick_params(axis="x", labelrotation=45)
    return drawn


def draw_pairs(data: FigureData) -> Figure:
    """Draw S-F13: received and sent packets, with what proportional growth would be, and the paper's plateau."""
    figure = new_figure(3.1)
    panels = {"rx_pps": "Received", "tx_pps": "Sent"}
    for axes, (metric, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        axes.set_title(title)
        lines = _by_size(data.by_point(metric))
        cores: set[float] = set()
        for line in lines:
            cores |= set(draw_lines(axes, [line], PAIRS, MPPS))
            _proportional(axes, line)
        if not cores:
            absent_panel(axes, data.absence(metric))
            continue
        limited = data.generator_limited(metric, "cores")
        x = [PAIRS.place(each) for each in limited]
        ring_generator_limits(axes, x, [each.estimate.value / MPPS for each in limited])
        set_axes(axes, PAIRS, Up(f"{title} (Mpps)"), sorted(cores))
        axes.yaxis.set_major_locator(MaxNLocator(6))
        _plateau(axes)
    return figure


def _by_size(found: Sequence[PointValues]) -> list[Line]:
    """Return a line for each packet size and feed; other colours and dashes mark rings that are kept full."""
    sizes: dict[str, list[PointValues]] = {}
    for sample in sorted(found, key=lambda each: str(each.levels.get("frame")).zfill(6)):
        frame = sample.levels.get("frame", "one size")
        sizes.setdefault(f"{frame} B" if isinstance(frame, int | float) else str(frame), []).append(sample)
    lines = []
    for rank, (name, members) in enumerate(sizes.items()):
        for feed, own in by_feed(members).items():
            full = feed == FEEDS["infinite"]
            words = f"{name}, {feed}" if feed else name
            lines.append(Line(words, own, rank + 4 * full, DASHES[full], marker=MARKERS[rank]))
    return lines


def _proportional(axes: Axes, line: Line) -> None:
    """Draw what a line would be if it grew in proportion to one core, where one core was measured."""
    cores = PAIRS.places(line.found)
    if len(cores) > 1 and cores[0] == 1:
        one = next(iter(having(line.found, cores=1))).estimate.scaled(1 / MPPS)
        ideal = [one.value * count for count in cores]
        axes.plot(cores, ideal, color=MUTED, lw=0.8, ls=(0, (2, 2)), label="in proportion to one core")


def _plateau(axes: Axes) -> None:
    first, last = stated("socc19", "S-F13")["plateau_queues"]
    low, high = axes.get_xlim()
    if high >= last:
        words = f"{short_name('socc19')}: plateau from {first} to {last} cores"
        axes.axvspan(first, last, color=GRID, alpha=0.6, zorder=0, label=words)
        axes.set_xlim(low, high)


def draw_cores(data: FigureData) -> Figure:
    """Draw S-F16: what cores forward, and the share of it that a full ring dropped."""
    feeds = by_feed(data.by_point("tx_pps", "cores"))
    if not feeds:
        return absent_figure(data.absence("tx_pps"), 1.2)
    limits = by_feed(data.generator_limited("tx_pps", "cores"))
    drops = by_feed(data.by_point("ring_full_share", "cores"))
    figure = new_figure(0.6 + 2.5 * len(feeds))
    panels = figure.subplots(len(feeds), 2, squeeze=False)
    for (rate, full), (feed, sent) in zip(panels, feeds.items(), strict=True):
        rate.set_title(f"Maximum: {feed}" if feed else "Maximum throughput")
        draw_panel(rate, _by_organisation(sent), FORWARDING, Up("Forwarded (Mpps)", MPPS), data.absence("tx_pps"))
        limited = limits.get(feed, [])
        x = [FORWARDING.place(each) for each in limited]
        ring_generator_limits(rate, x, [each.estimate.value / MPPS for each in limited])
        peak = stated("socc19", "S-F16")["scale_up_peak_cores"]
        stated_at(rate, peak, f"{short_name('socc19')}: scale-up peaks at {peak} cores")
        full.set_title("Dropped before a full ring")
        up = Up("Of what dispatchers received (%)", 0.01)
        draw_panel(full, _by_organisation(drops.get(feed, [])), FORWARDING, up, data.absence("ring_full_share"))
    return figure


def draw_latency(data: FigureData) -> Figure:
    """Draw S-F17a and S-F17b: mean and 99th percentile at the largest number of cores that was measured, by burst."""
    metrics = {"latency_sent_mean_ns": "Mean", "latency_sent_p99_ns": "99th percentile"}
    if not data.by_point("latency_sent_mean_ns", "load_pps"):
        return absent_figure(data.absence("latency_sent_mean_ns"), 1.2)
    taken = {int(each.levels["burst"]) for each in data.by_point("latency_sent_mean_ns", "burst")}
    bursts: list[int | None] = [*sorted(taken)] or [None]  # None if the run swept none
    figure = new_figure(0.5 + 2.6 * len(bursts))
    panels = figure.subplots(len(bursts), 2, squeeze=False)
    for axes, (burst, (metric, title)) in zip(panels.flat, product(bursts, metrics.items()), strict=True):
        every = [each for each in data.by_point(metric, "load_pps") if each.levels.get("burst") == burst]
        # Points with hiccups, where a run has the same points without.
        found = _greatest(_greatest(every, "hiccup_probability", 0.0), "cores", 1)
        words = {None: "", 1: ", one packet at a time"}.get(burst, f", up to {burst} packets at once")
        cores = f", {counted(float(found[0].levels.get('cores', 1)), 'core')}{words}" if found else ""
        axes.set_title(f"{title}{cores}")
        up = Up("Latency (µs)", MICROSECONDS, log=True)
        draw_panel(axes, _by_organisation(found), LOAD_MPPS, up, data.absence(metric))
    for row in panels:
        if row[0].lines and data.row == "S-F17a":
            limit = stated("socc19", "S-F17a")["scale_up_higher_above_pps"] / MPPS
            stated_at(row[0], limit, f"{short_name('socc19')}: scale-up higher above {human_number(limit, 6)} Mpps")
    return figure


def _greatest(found: Sequence[PointValues], factor: str, default: float) -> list[PointValues]:
    """Return the samples with the greatest level of a factor."""
    most = max((float(each.levels.get(factor, default)) for each in found), default=default)
    return [each for each in found if float(each.levels.get(factor, default)) == most]


def draw_smt(data: FigureData) -> Figure:
    """Draw S-F18: bars by organisation and placement at the largest number of cores that was measured."""
    found = data.by_point("tx_pps", "placement", "organisation")
    if not found:
        return absent_figure(data.absence("tx_pps"), 3.1)
    figure = new_figure(3.1)
    feeds = by_feed(found)
    for axes, (feed, fed) in zip(figure.subplots(1, len(feeds), squeeze=False).flat, feeds.items(), strict=True):
        axes.set_title(feed)
        largest = _greatest(fed, "cores", 1)
        lines = {name: line for name, line in zip(ORGANISATIONS, _by_organisation(largest), strict=True) if line.found}
        for (place, line), placement in product(enumerate(lines.values()), PLACEMENTS):
            for sample in having(line.found, placement=placement):
                _bar(axes, place, list(PLACEMENTS).index(placement), sample)
        axes.set_xticks(range(len(lines)), [ORGANISATIONS[name].partition(" (")[0] for name in lines])
        cores = human_number(float(largest[0].levels.get("cores", 1)), 6)
        axes.set_ylabel(f"Forwarded by {cores} logical cores (Mpps)")
    ratio = stated("socc19", "S-F18")["scale_up_smt_ratio"]
    words = f"{short_name('socc19')}: SMT pairs {100 * (ratio - 1):+.0f} % with scale-up, slightly less with scale-out"
    figure.supxlabel(words, fontsize=8)
    return figure


def _bar(axes: Axes, place: int, rank: int, sample: PointValues) -> None:
    x, estimate = place + 0.3 * (rank - 0.5), sample.estimate.scaled(1 / MPPS)
    look: Any = {"color": LINES[rank], "hatch": HATCHES[rank], "edgecolor": PAPER, "linewidth": 0}
    axes.bar(x, estimate.value, width=0.26, label=list(PLACEMENTS.values())[rank], **look)
    if estimate.has_interval:
        whisker(axes, x, estimate, INK)


def _by_organisation(found: Sequence[PointValues]) -> list[Line]:
    """Return a line for each organisation, and for the synchronisation of a shared ring where it is no default."""
    lines: dict[str, list[PointValues]] = {name: [] for name in ORGANISATIONS}
    for sample in found:
        sync = str(sample.levels.get("ring_sync", "default"))
        name = f"{sample.levels.get('organisation', 'scale-out')}{'' if sync == 'default' else f' {sync}'}"
        lines.setdefault(name, []).append(sample)
    return [Line(words, lines[name]) for name, words in ORGANISATIONS.items()]
