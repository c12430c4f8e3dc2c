# SPDX-License-Identifier: BSD-3-Clause
"""Draw S-F12: maximum send and receive rates of one core by packet size (SoCC'19 figure 12)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import MILLION, FigureData, levels_of, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import absent_panel, log2_axis, mean_line, new_figure, stated_level
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import human_number

GIGA, PERCENT = 1e9, 100
_MOST_UPRIGHT = 5  # sizes whose labels fit side by side below a third of a figure

# Metric, workload, feed and name of a line. The sender to the receiving core is the generator, on its own core.
_RateLine = tuple[str, str, str, str]
SENDS, FULL, FED, BROUGHT = (
    "a core that only sends, to nobody",
    "a core that only receives, rings always full",
    "a core that only receives, from one sending core",
    "what that sending core sent",
)
# Names in the order of their colours.
NAMES = (SENDS, FULL, FED, BROUGHT)
RATES: tuple[_RateLine, ...] = (
    ("tx_pps", "tx", "wire", SENDS),
    ("rx_pps", "rx", "infinite", FULL),
    ("rx_pps", "rx", "wire", FED),
    ("offered_pps", "rx", "wire", BROUGHT),
)
_LINE_RATES: tuple[_RateLine, ...] = (
    ("tx_line_bps", "tx", "wire", SENDS),
    ("rx_line_bps", "rx", "infinite", FULL),
    ("rx_line_bps", "rx", "wire", FED),
)
_DROPS: tuple[_RateLine, ...] = (("imissed_share", "rx", "wire", FED),)


def draw(data: FigureData) -> Figure:
    """Draw packet rates, bit rates with the paper's line rate, and drops of the receiving port."""
    figure = new_figure(3.1)
    packets, line, drops = figure.subplots(1, 3)
    packets.set_title("Packets")
    _lines(packets, data, RATES, 1 / MILLION, "Rate (Mpps)")
    line.set_title("Bits on the line")
    _lines(line, data, _LINE_RATES, 1 / GIGA, "Rate with gaps (Gb/s)")
    _line_rate(line)
    drops.set_title("Dropped at the RX port")
    _lines(drops, data, _DROPS, PERCENT, "Share of what arrived (%)")
    return figure


def _lines(axes: Axes, data: FigureData, lines: Sequence[_RateLine], scale: float, label: str) -> None:
    sizes: set[float] = set()
    for metric, workload, feed, name in lines:
        found = _of(data, metric, workload, feed)
        if found:
            mean_line(axes, levels_of(found, "frame"), found, scale, NAMES.index(name), name)
        sizes |= set(levels_of(found, "frame"))
    if not sizes:
        absent_panel(axes, data.absence(lines[0][0]), 24)
        return
    log2_axis(axes, sorted(sizes))
    if len(sizes) > _MOST_UPRIGHT:
        axes.tick_params(axis="x", labelrotation=45)
    axes.set_xlabel("Packet size (B)")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)


def _of(data: FigureData, metric: str, workload: str, feed: str) -> list[PointValues]:
    """Return the samples of a workload and feed; runs without this factor had feed `wire`."""
    found = [each for each in data.by_point(metric, "frame") if each.levels.get("workload") == workload]
    return [each for each in found if each.levels.get("feed", "wire") == feed]


def _line_rate(axes: Axes) -> None:
    if not axes.lines:
        return
    rate = stated("socc19", "S-F12")["line_rate_bps"] / GIGA
    stated_level(axes, axes.get_xlim(), rate, f"{short_name('socc19')}: below {human_number(rate, 6)} Gb/s")


FIGURE = PaperFigure(
    "S-F12",
    "socc19",
    "Maximum rate of a core that only sends and of a core that only receives, against the packet size",
    draw,
    along=("frame",),
    beside=("workload", "feed"),
)
