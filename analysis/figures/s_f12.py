# SPDX-License-Identifier: BSD-3-Clause
"""S-F12: what one core sends and receives at most, by packet size (SoCC'19 figure 12)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, short_name
from pollscope.analysis.figures.style import INK, LINES, MARKERS, absent_panel, interval_line, log2_axis, new_figure
from pollscope.analysis.papers import stated
from pollscope.analysis.samples import Sample

TITLE = "Maximum rate of a core that only sends and of a core that only receives, against the packet size"
MILLION, GIGA, PERCENT = 1e6, 1e9, 100
# Metric, workload at which it is drawn, name. The sender of the receiving core is the generator, on a core of its own.
RATES = (
    ("tx_pps", "tx", "a core that only sends, to nobody"),
    ("offered_pps", "rx", "sent to the receiving core"),
    ("rx_pps", "rx", "a core that only receives"),
)
LINE_RATES = (
    ("tx_line_bps", "tx", "a core that only sends, to nobody"),
    ("rx_line_bps", "rx", "a core that only receives"),
)
DROPS = (("imissed_share", "rx", "a core that only receives"),)


def draw(data: FigureData) -> Figure:
    """Packet rates, rates on the line with the paper's line rate, and what the receiving port had to drop."""
    figure = new_figure(3.1)
    packets, line, drops = figure.subplots(1, 3)
    packets.set_title("Packets")
    _lines(packets, data, RATES, 1 / MILLION, "Rate (Mpps)")
    line.set_title("Bits on the line")
    _lines(line, data, LINE_RATES, 1 / GIGA, "Rate with gaps (Gb/s)", [0, 2])
    _line_rate(line)
    drops.set_title("Dropped at the RX port")
    _lines(
        drops, data, (("imissed_share", "rx", "a core that only receives"),), PERCENT, "Share of what arrived (%)", [2]
    )
    handles, labels = packets.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper left", ncols=3)
    return figure


def _lines(
    axes: Axes,
    data: FigureData,
    lines: Sequence[tuple[str, str, str]],
    scale: float,
    label: str,
    ranks: Sequence[int] = (0, 1, 2),
) -> None:
    sizes: set[float] = set()
    for rank, (metric, workload, name) in zip(ranks, lines, strict=True):
        found = _of(data, metric, workload)
        estimates = [sample.estimate.scaled(scale) for sample in found]
        if found:
            interval_line(axes, _sizes(found), estimates, LINES[rank], MARKERS[rank], name)
        sizes |= set(_sizes(found))
    if not sizes:
        absent_panel(axes, data.absence(lines[0][0]), 24)
        return
    log2_axis(axes, sorted(sizes))
    axes.tick_params(axis="x", labelrotation=45)
    axes.set_xlabel("Packet size (B)")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)


def _of(data: FigureData, metric: str, workload: str) -> list[Sample]:
    return [each for each in data.samples(metric) if each.levels.get("workload") == workload and "frame" in each.levels]


def _sizes(found: Sequence[Sample]) -> list[float]:
    return [float(sample.levels["frame"]) for sample in found]


def _line_rate(axes: Axes) -> None:
    if not axes.lines:
        return
    rate = stated("socc19", "S-F12")["line_rate_bps"] / GIGA
    name = f"{short_name('socc19')}: below {rate:g}"
    reference = axes.axhline(rate, color=INK, lw=1.1, ls=(0, (3, 2)), label=name)
    axes.set_ylim(top=max(axes.get_ylim()[1], 1.15 * rate))
    axes.legend(handles=[reference], loc="upper left")
