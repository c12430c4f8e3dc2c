# SPDX-License-Identifier: BSD-3-Clause
"""I-F4, I-F5, I-F6: what grows with the number of sending cores; I-WAYS: with the LLC ways that are open to DDIO."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData
from pollscope.analysis.figures.style import LINES, MUTED, absent_panel, interval_line, level_axis, new_figure
from pollscope.analysis.samples import Level, Sample
from pollscope.metrics import metric_dictionary

TITLE_RATE = "Sending rate against the number of sending cores"
TITLE_KEY = "Rate, IOTLB misses, memory reads, LLC misses of PCIe reads, PCIe latency and MTT misses by sending cores"
TITLE_ALL = "All counters of the sending host against the number of sending cores"
TITLE_WAYS = "What the receiving host counts against the LLC ways that are open to DDIO"
RATE = ("tx_pps",)
KEY = (
    "tx_pps",
    "iotlb_misses_per_s",
    "dram_read_bytes_per_s",
    "ddio_read_hit_share",
    "nic_pcie_latency_ns",
    "nic_mtt_l0_miss_share",
)
ALL = (
    *KEY,
    "pcie_dma_read_bytes_per_s",
    "pcie_dma_write_bytes_per_s",
    "iotlb_lookups_per_s",
    "iotlb_miss_share",
    "dram_write_bytes_per_s",
    "nic_pcie_read_stalled_share",
    "iommu_memory_accesses_per_s",
    "package_power_w",
    "ipc",
)
WAYS = ("ddio_write_hit_share", "dram_write_bytes_per_s", "dram_read_bytes_per_s", "rx_pps")
COLUMNS = 3


def draw_rate(data: FigureData) -> Figure:
    """I-F4: the rate, and what proportional growth would be."""
    figure = new_figure(2.9)
    axes = figure.subplots()
    _panel(axes, data, "tx_pps", "cores")
    found = _by_level(data.samples("tx_pps"), "cores")
    if len(found) > 1 and found[0][0] == 1:
        levels = [level for level, _ in found]
        ideal = [found[0][1].estimate.value * level for level in levels]
        axes.plot(levels, ideal, color=MUTED, lw=0.8, ls=(0, (2, 2)), label="in proportion to one core")
        axes.legend()
    axes.set_xlabel("Sending cores")
    return figure


def draw_key(data: FigureData) -> Figure:
    """I-F5."""
    return _grid(data, KEY, "cores", "Sending cores")


def draw_all(data: FigureData) -> Figure:
    """I-F6."""
    return _grid(data, ALL, "cores", "Sending cores")


def draw_ways(data: FigureData) -> Figure:
    """I-WAYS."""
    return _grid(data, WAYS, "knob.ddio_ways", "LLC ways open to DDIO")


def _grid(data: FigureData, metrics: Sequence[str], factor: str, label: str) -> Figure:
    rows = -(-len(metrics) // COLUMNS)
    figure = new_figure(1.9 * rows)
    panels = figure.subplots(rows, COLUMNS, squeeze=False).flat
    for axes, metric in zip(panels, metrics, strict=False):
        _panel(axes, data, metric, factor)
        axes.set_xlabel(label)
    for axes in list(panels)[len(metrics) :]:
        axes.set_visible(False)
    return figure


def _panel(axes: Axes, data: FigureData, metric: str, factor: str) -> None:
    """One metric by the levels of a factor; why it is absent, where it is."""
    known = metric_dictionary()[metric]
    axes.set_title(known.title)
    found = _by_level(data.samples(metric), factor)
    if not found:
        absent_panel(axes, data.absence(metric), 30)
        return
    levels = [level for level, _ in found]
    interval_line(axes, levels, [sample.estimate for _, sample in found], LINES[0])
    level_axis(axes, levels)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(known.short_unit or known.unit)


def _by_level(found: Sequence[Sample], factor: str) -> list[tuple[float, Sample]]:
    numbered = [(_number(sample.levels[factor]), sample) for sample in found if factor in sample.levels]
    return sorted(numbered, key=lambda each: each[0])


def _number(level: Level) -> float:
    """The number of a level: 4 of `4 ways`."""
    return float(str(level).partition(" ")[0])
