# SPDX-License-Identifier: BSD-3-Clause
"""C-RIVALS: cores at one queue beside cores with a queue each: rate, imbalance, footprint, lost claims, order."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import absent_panel, mean_line, new_figure
from pollscope.analysis.point_values import PointValues

# (organisation, where empty buffers lie) -> words.
NAMES = {
    ("scale-out", "posted"): "a queue a core (RSS)",
    ("rebalanced", "posted"): "a queue a core, rebalanced (RSS++)",
    ("scale-out", "shared"): "a queue a core, shared buffers (ShRing)",
    ("scale-out", "split"): "a queue a core, buffers lent (rxBisect)",
    ("corec", "posted"): "one queue, corec",
    ("locked", "posted"): "one queue, lock that is waited for",
    ("trylock", "posted"): "one queue, lock that is passed by",
}
# (shape, flows are one) -> words.
TRAFFIC = {("FB", False): "balanced", ("SQ", False): "many flows,\none queue", ("SQ", True): "one flow"}
HEIGHT_INCH = 5.0
# Between the marks of two organisations; kinds of traffic are 1 apart.
APART = 0.09
# Axes of shares and of moves are no shorter, so that none looks like none.
LEAST_PERCENT = 1.0


class _Shown(NamedTuple):
    metric: str
    scale: float
    label: str


SHOWN = (
    _Shown("tx_pps", 1e-6, "Forwarded (Mpps)"),
    _Shown("core_imbalance", 100.0, "Imbalance of the cores (%)"),
    _Shown("posted_bytes", 1 / 2**20, "Posted buffers (MiB)"),
    _Shown("claim_lost_fraction", 100.0, "Claims lost to another core (%)"),
    _Shown("reordered_share", 100.0, "Reordered packets (%)"),
    _Shown("reta_moves_per_s", 1.0, "RETA entries moved (1/s)"),
)


def draw(data: FigureData) -> Figure:
    """A panel for each metric, in it a place for each kind of traffic and a mark for each organisation."""
    figure = new_figure(HEIGHT_INCH)
    for axes, panel in zip(figure.subplots(2, 3).flat, SHOWN, strict=True):
        _draw_panel(axes, data, panel)
    return figure


def _draw_panel(axes: Axes, data: FigureData, panel: _Shown) -> None:
    found = data.by_point(panel.metric, "organisation")
    axes.set_ylabel(panel.label)
    if not found:
        absent_panel(axes, data.absence(panel.metric), 30)
        return
    for rank, (way, words) in enumerate(NAMES.items()):
        members = [each for each in found if _way(each) == way and _traffic(each) in TRAFFIC]
        if members:
            _marks(axes, members, rank, panel.scale, words)
    axes.set_xticks(range(len(TRAFFIC)), list(TRAFFIC.values()))
    axes.set_xlim(-0.5, len(TRAFFIC) - 0.5)
    axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], LEAST_PERCENT))


def _marks(axes: Axes, members: Sequence[PointValues], rank: int, scale: float, words: str) -> None:
    places = [list(TRAFFIC).index(_traffic(each)) + APART * (rank - (len(NAMES) - 1) / 2) for each in members]
    mean_line(axes, places, members, scale, rank, words, "")


def _way(sample: PointValues) -> tuple[str, str]:
    return str(sample.levels["organisation"]), str(sample.levels.get("rx_buffers", "posted"))


def _traffic(sample: PointValues) -> tuple[str, bool]:
    return str(sample.levels.get("shape", "FB")), sample.levels.get("flows") == 1


FIGURE = PaperFigure(
    "C-RIVALS",
    "corec",
    "Cores that share a queue beside cores with a queue each, under balanced and skewed traffic",
    draw,
    along=("organisation",),
    beside=("rx_buffers", "rx_buffer_pool", "queues", "shape", "flows"),
)
