# SPDX-License-Identifier: BSD-3-Clause
"""Draw the figures of the SoCC'19 paper over the number of RX queues of one core: S-F6, S-F8, S-F9 and S-F10."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FEEDS, FigureData, by_feed, short_name
from pollscope.analysis.figures.panels import (
    MICROSECONDS,
    MPPS,
    QUEUES,
    Along,
    Line,
    Up,
    draw_lines,
    draw_panel,
    lines_by,
    set_axes,
)
from pollscope.analysis.figures.predicted import draw_latency, draw_poll_rate
from pollscope.analysis.figures.style import (
    DASHES,
    GRID,
    LINES,
    absent_figure,
    absent_panel,
    floor_line,
    new_figure,
    ring_generator_limits,
    stated_at,
    stated_level,
    stated_point,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues, groups
from pollscope.base.errors import UsageError
from pollscope.base.units import human_number
from pollscope.metrics.dictionary import metric_dictionary

IPC = {"ipc": "Whole window", "ipc_useful": "Useful part", "ipc_polling": "Polling part"}
RATE = "poll_rate_running_hz"
SHAPES = {"SQ": "all traffic in one queue (the paper's single flow)", "FB": "traffic in all queues (its multi flow)"}
# The paper shows the average; the median is beside it because short absences of a core do not move it.
# Both from the actual departure, as its generator stamps packets.
LATENCIES = ("latency_sent_mean_ns", "latency_sent_p50_ns")
LLC = {"llc_loads_per_s": "LLC loads", "llc_load_misses_per_s": "LLC load misses"}
# Colours and markers of the reference and of the panel of the LLC, after those of the feeds.
REFERENCE_RANKS, CACHE_RANKS = 2, 4


def _quarters(axes: Axes, places: Sequence[float]) -> None:
    """Put ticks at quarters of the maximum, independent of the data."""
    del places
    axes.set_xticks([0, 25, 50, 75, 100])


LOAD = Along("load_of_max", "Offered load (% of maximum)", 0.01, _quarters)


def draw_ipc(data: FigureData) -> Figure:
    """Draw S-F6: one panel for the window and one for each part of it, a line for each number of queues."""
    reasons = {data.absence(metric) for metric in IPC if not data.by_point(metric)}
    values = [sample.estimate.value for metric in IPC for sample in data.by_point(metric)]
    if not values and len(reasons) == 1:
        return absent_figure(reasons.pop(), 1.6)
    low, high = stated("socc19", "S-F6")["ipc_average"]
    figure = new_figure(2.6)
    for axes, (metric, title) in zip(figure.subplots(1, 3), IPC.items(), strict=True):
        axes.set_title(title)
        lines = [
            Line(f"{name} queue{'' if name == '1' else 's'}", found)
            for label, found in groups(data.by_point(metric), "load_of_max")
            for name in [label.removeprefix("queues ")]
        ]
        if draw_panel(axes, lines, LOAD, Up("Instructions per core cycle"), data.absence(metric), 28):
            if metric == "ipc":
                words = f"average in {short_name('socc19')}, {human_number(low, 6)} to {human_number(high, 6)}"
                axes.axhspan(low, high, color=GRID, alpha=0.6, zorder=0, lw=0, label=words)
            axes.set_ylim(0, 1.08 * max(*values, high))
            axes.set_xlim(-4, 104)
    return figure


def _by_rings(data: FigureData, metric: str) -> list[Line]:
    """Return a line for each size of the rings; a single one without a name if it is not swept."""
    found = data.by_point(metric, "queues")
    lines = sorted({_ring_size(sample) for sample in found})
    return [
        Line(f"{size} descriptors" if size else "", [each for each in found if _ring_size(each) == size])
        for size in lines
    ]


def _ring_size(sample: PointValues) -> int:
    level = sample.levels.get("rx_desc", 0)
    try:
        return int(level)
    except ValueError:
        raise UsageError(f"is {level!r}, not a number of descriptors", "trials.jsonl: factors.rx_desc") from None


def _over_one_queue(axes: Axes, data: FigureData, metric: str, lines: Sequence[Line], up: Up) -> None:
    """Draw lines relative to their points with one queue; those without such a point are left out."""
    first = [next((each for each in line.found if each.levels["queues"] == 1), None) for line in lines]
    ratios = [
        Line("", line.found if base else (), rank, base=base)
        for rank, (line, base) in enumerate(zip(lines, first, strict=True))
    ]
    reason = "the run has no point with one queue" if data.by_point(metric) else data.absence(metric)
    draw_panel(axes, ratios, QUEUES, up, reason)


def draw_polls(data: FigureData) -> Figure:
    """Draw S-F8: poll rate, the same relative to one queue, time of a sweep, LLC loads."""
    figure = new_figure(4.6)
    (rate, relative), (sweep, loads) = figure.subplots(2, 2)
    title, paper = metric_dictionary()[RATE].title, stated("socc19", "S-F8")
    rate.set_title(title)
    if queues := draw_lines(rate, _by_rings(data, RATE), QUEUES, 1e6):
        for line in _by_rings(data, RATE):
            draw_poll_rate(rate, data, sorted(line.found, key=QUEUES.place), 1e-6)
        set_axes(rate, QUEUES, Up("Poll rate (million polls/s)"), queues)
    else:
        absent_panel(rate, data.absence(RATE))
    relative.set_title(f"{title}, relative to one queue")
    _over_one_queue(relative, data, RATE, _by_rings(data, RATE), Up("Poll rate / rate at 1 queue"))
    if relative.lines:
        relative.set_ylim(0, max(1.15, relative.get_ylim()[1]))
        value = paper["poll_rate_ratio_512_to_1"]
        words = f"{short_name('socc19')}: {human_number(value)} of the poll rate at 512 queues"
        stated_point(relative, 512, value, words)
    sweep.set_title(metric_dictionary()["sweep_time_ns"].title)
    lines = [replace(line, name="") for line in _by_rings(data, "sweep_time_ns")]
    if queues := draw_lines(sweep, lines, QUEUES, MICROSECONDS):
        _calibrated(sweep, data)
        set_axes(sweep, QUEUES, Up("Time of a sweep (µs)", log=True), queues)
    else:
        absent_panel(sweep, data.absence("sweep_time_ns"))
    loads.set_title("LLC loads")
    lines = _by_rings(data, "llc_loads_per_s")
    if draw_panel(loads, lines, QUEUES, Up("LLC loads (million/s)", 1e6), data.absence("llc_loads_per_s")):
        rise, miss = paper["llc_loads_rise_above_queues"], paper["every_head_misses_above_queues"]
        stated_at(loads, rise, f"{short_name('socc19')}: LLC loads rise above {human_number(rise)} queues")
        stated_at(loads, miss, f"{short_name('socc19')}: every head misses above {human_number(miss)} queues", ":")
    return figure


def _calibrated(axes: Axes, data: FigureData) -> None:
    """Mark the sweep as calibrated before the trials: without the rest of the loop and without host gaps."""
    tsc_hz = (data.run.meta.get("node_hello") or {}).get("tsc_hz")
    if not tsc_hz:
        return
    for rank, line in enumerate(_by_rings(data, "sweep_cycles")):
        found = sorted(line.found, key=QUEUES.place)
        y = [sample.estimate.value / tsc_hz * 1e6 for sample in found]
        label = "a sweep as calibrated, polls alone" if rank == 0 else "_nolegend_"
        axes.plot(
            [QUEUES.place(each) for each in found], y, "_", ms=9, mec=LINES[rank], mew=1.4, ls="", zorder=5, label=label
        )


def draw_latency_by_queues(data: FigureData) -> Figure:
    """Draw S-F9: mean and median, each in microseconds and relative to one queue."""
    figure = new_figure(4.9)
    for (absolute, relative), metric in zip(figure.subplots(2, 2), LATENCIES, strict=True):
        title = metric_dictionary()[metric].title
        absolute.set_title(title)
        lines = lines_by("shape", SHAPES, data.by_point(metric, "queues"), "FB")
        lines = [line for line in lines if line.found]
        if queues := draw_lines(absolute, lines, QUEUES, MICROSECONDS):
            for line in lines if metric == LATENCIES[0] else ():
                shape = next(shape for shape, name in SHAPES.items() if name == line.name)
                draw_latency(absolute, data, line.found, shape, 1 / MICROSECONDS)
            floor_line(absolute, data.floor_ns)
            # A sweep over 512 queues takes hundreds of times as long as one poll.
            set_axes(absolute, QUEUES, Up("Latency (µs)", log=True), queues)
        else:
            absent_panel(absolute, data.absence(metric))
        relative.set_title(f"{title}, relative to one queue")
        every = lines_by("shape", SHAPES, data.by_point(metric, "queues"), "FB")
        _over_one_queue(relative, data, metric, every, Up("Latency / latency at 1 queue", log=True))
    if figure.axes[1].lines:
        least = stated("socc19", "S-F9")["latency_ratio_512_to_1_above"]
        words = f"{short_name('socc19')}: more than {human_number(least, 6)} times at 512 queues"
        stated_point(figure.axes[1], 512, least, words)
    return figure


def draw_single(data: FigureData) -> Figure:
    """Draw S-F10a, with traffic in all queues as the reference where it was measured."""
    figure = _throughput_and_llc(data, "SQ")
    throughput = figure.axes[0]
    if throughput.lines:
        for line in _by_feed(data, "tx_pps", "FB", "traffic in all queues", REFERENCE_RANKS, DASHES[1]):
            draw_lines(throughput, [line], QUEUES, MPPS)
            highest = max(each.estimate.value for each in line.found) / MPPS
            throughput.set_ylim(top=max(throughput.get_ylim()[1], 1.15 * highest))
        value = stated("socc19", "S-F10a")["tx_pps_at_512"] / MPPS
        stated_point(throughput, 512, value, f"{short_name('socc19')}: {human_number(value, 6)} Mpps at 512 queues")
    return figure


def draw_multi(data: FigureData) -> Figure:
    """Draw S-F10b."""
    figure = _throughput_and_llc(data, "FB")
    if figure.axes[0].lines:
        least = stated("socc19", "S-F10b")["tx_pps_from_64_above"] / MPPS
        words = f"{short_name('socc19')}: above {human_number(least, 6)} Mpps from 64 to 512 queues"
        stated_level(figure.axes[0], (64, 512), least, words)
    return figure


def _throughput_and_llc(data: FigureData, shape: str) -> Figure:
    figure = new_figure(2.9)
    throughput, cache = figure.subplots(1, 2)
    throughput.set_title("Maximum throughput")
    lines = _by_feed(data, "tx_pps", shape)
    if draw_panel(throughput, lines, QUEUES, Up("Forwarded (Mpps)", MPPS), data.absence("tx_pps")):
        limited = _of_shape(data.generator_limited("tx_pps"), shape)
        x = [QUEUES.place(each) for each in limited]
        ring_generator_limits(throughput, x, [each.estimate.value / MPPS for each in limited])
    cache.set_title("LLC loads and load misses")
    lines = [
        replace(line, rank=CACHE_RANKS + 2 * (line.rank or 0) + place, dashes=DASHES[2 * place])
        for place, (metric, name) in enumerate(LLC.items())
        for line in _by_feed(data, metric, shape, name, separator=", ")
    ]
    draw_panel(cache, lines, QUEUES, Up("Million/s", MPPS), data.absence("llc_loads_per_s"))
    return figure


def _by_feed(
    data: FigureData,
    metric: str,
    shape: str,
    name: str = "",
    first_rank: int = 0,
    dashes: object = "-",
    separator: str = ": ",
) -> list[Line]:
    """Return a line for each feed, whose colour is that of the feed."""
    lines = []
    for feed, found in by_feed(_of_shape(data.by_point(metric), shape)).items():
        rank = first_rank + max(0, list(FEEDS.values()).index(feed) - 1)
        lines.append(Line(separator.join(filter(None, (name, feed))), found, rank, dashes))
    return lines


def _of_shape(found: Sequence[PointValues], shape: str) -> list[PointValues]:
    return [each for each in found if "queues" in each.levels and each.levels.get("shape", shape) == shape]
