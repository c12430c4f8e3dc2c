# SPDX-License-Identifier: BSD-3-Clause
"""Draw the counters of a host, a panel per metric.

I-T1, I-F4, I-F5, I-F6, I-IOMMU: by the number of sending cores; I-F7: by DDIO and load; I-WAYS: by the LLC ways that
are open to DDIO.
"""

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import MUTED, absent_panel, amount_axis, level_axis, mean_line, new_figure
from pollscope.analysis.point_values import Level, PointValues, groups
from pollscope.metrics.dictionary import metric_dictionary

KEY = (
    "tx_pps",
    "iotlb_misses_per_s",
    "dram_read_bytes_per_s",
    "dma_read_llc_hit_share",
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
    "nic_pcie_no_completion_clocks",
    "iommu_memory_accesses_per_s",
    "package_power_w",
    "ipc",
)
WAYS = ("dma_write_llc_hit_share", "dram_write_bytes_per_s", "dram_read_bytes_per_s", "rx_pps")
# The three ways to the number of reads under way stand beside each other, with what they disagree by.
_SCALING = (
    "tx_pps",
    "pcie_dma_read_bytes_per_s",
    "nic_pcie_latency_ns",
    "iotlb_hits_per_s",
    "iotlb_misses_per_s",
    "iotlb_miss_share",
    "outstanding_reads_nic",
    "outstanding_reads_iotlb",
    "outstanding_reads_iio",
    "outstanding_reads_disagreement",
    "nic_mtt_l0_miss_share",
    "nic_pcie_no_completion_clocks",
)
DDIO = (
    "dram_read_bytes_per_packet",
    "dram_write_bytes_per_packet",
    "rx_pps",
    "generator_dram_read_bytes_per_packet",
    "generator_dram_write_bytes_per_packet",
    "pcie_dma_write_bytes_per_s",
)
IOMMU = (
    "tx_pps",
    "nic_pcie_latency_ns",
    "iotlb_lookups_per_s",
    "iotlb_miss_share",
    "iotlb_misses_per_sent_packet",
    "outstanding_reads_nic",
)
COLUMNS = 3
MOST_TICKS = 5


def draw_rate(data: FigureData) -> Figure:
    """I-F4: the rate, and what proportional growth would be."""
    figure = new_figure(2.9)
    axes = figure.subplots()
    _panel(axes, data, "tx_pps", "cores")
    found = _by_level(data.by_point("tx_pps"), "cores")
    if len(found) > 1 and found[0][0] == 1:
        levels = [level for level, _ in found]
        ideal = [found[0][1].estimate.value * level for level in levels]
        axes.plot(levels, ideal, color=MUTED, lw=0.8, ls=(0, (2, 2)), label="in proportion to one core")
        axes.set_ylim(top=1.05 * max(*ideal, axes.get_ylim()[1]))
    axes.set_xlabel("Sending cores")
    return figure


def _grid(
    data: FigureData,
    metrics: Sequence[str],
    factor: str = "cores",
    label: str = "Sending cores",
    scale: float = 1.0,
) -> Figure:
    """A panel for each metric along a factor, whose levels are drawn times `scale`."""
    rows = -(-len(metrics) // COLUMNS)
    figure = new_figure(1.9 * rows)
    panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, metric in zip(panels, metrics, strict=False):
        _panel(axes, data, metric, factor, scale)
        axes.set_xlabel(label)
    for axes in panels[len(metrics) :]:
        axes.set_visible(False)
    return figure


def _panel(axes: Axes, data: FigureData, metric: str, factor: str, scale: float = 1.0) -> None:
    """One metric by the levels of a factor, a line for each combination of the others; why it is absent."""
    known = metric_dictionary()[metric]
    axes.set_title(known.title)
    lines = {name: _by_level(found, factor) for name, found in groups(data.by_point(metric), factor)}
    if not lines:
        absent_panel(axes, data.absence(metric), 30)
        return
    for rank, (name, found) in enumerate(lines.items()):
        x, label = [scale * level for level, _ in found], name if len(lines) > 1 else ""
        mean_line(axes, x, [sample for _, sample in found], 1, rank, label)
    level_axis(axes, sorted({scale * level for found in lines.values() for level, _ in found}))
    axes.set_ylim(bottom=0)
    amount_axis(axes.yaxis, known, MOST_TICKS)


def _by_level(found: Sequence[PointValues], factor: str) -> list[tuple[float, PointValues]]:
    numbered = [(_number(sample.levels[factor]), sample) for sample in found if factor in sample.levels]
    return sorted(numbered, key=lambda each: each[0])


def _number(level: Level) -> float:
    """The number of a level: 4 of `4 ways`."""
    return float(str(level).partition(" ")[0])


I_F4 = PaperFigure("I-F4", "intrahost", "Sending rate against the number of sending cores", draw_rate, along=("cores",))
I_F5 = PaperFigure(
    "I-F5",
    "intrahost",
    "Rate, IOTLB misses, memory reads, LLC misses of PCIe reads, PCIe latency and MTT misses by sending cores",
    partial(_grid, metrics=KEY),
    along=("cores",),
)
I_F6 = PaperFigure(
    "I-F6",
    "intrahost",
    "All counters of the sending host against the number of sending cores",
    partial(_grid, metrics=ALL),
    along=("cores",),
)
I_WAYS = PaperFigure(
    "I-WAYS",
    "intrahost",
    "What the receiving host counts against the LLC ways that are open to DDIO",
    partial(_grid, metrics=WAYS, factor="knob.ddio_ways", label="LLC ways open to DDIO"),
    along=("knob.ddio_ways",),
)
I_T1 = PaperFigure(
    "I-T1",
    "intrahost",
    "Rate, PCIe, IOTLB and outstanding reads three ways by sending cores",
    partial(_grid, metrics=_SCALING),
    along=("cores",),
)
I_IOMMU = PaperFigure(
    "I-IOMMU",
    "intrahost",
    "Rate, latency and IOTLB look-ups by sending cores and mode of the IOMMU",
    partial(_grid, metrics=IOMMU),
    along=("cores",),
)
I_F7 = PaperFigure(
    "I-F7",
    "intrahost",
    "DRAM traffic of both hosts per packet with DDIO on and off",
    partial(_grid, metrics=DDIO, factor="load_pps", label="Offered load (Mpps)", scale=1e-6),
    along=("knob.ddio",),
)
