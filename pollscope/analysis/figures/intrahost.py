# SPDX-License-Identifier: BSD-3-Clause
"""Draw the figures of the intra-host paper: the counters of a host, and Little's law on the numbers of its table."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import MILLION, US_PER_NS
from pollscope.analysis.figures.style import INK, LINES, MUTED, new_figure
from pollscope.analysis.littles_law import Outstanding, paper_scaling
from pollscope.analysis.papers import load_paper, stated

_FROM_THE_TABLE = "From the paper's table; nothing here was measured by pollscope."
# Rows of table 1 in its order, without those that are zero at one core.
TABLE = {
    "tx_rate_pps": "TX rate",
    "ib_read_bytes_per_s": "inbound reads, bytes (pcm-iio)",
    "iotlb_hits_per_s": "IOTLB hits (pcm-iio)",
    "iotlb_misses_per_s": "IOTLB misses (pcm-iio)",
    "iotlb_miss_share": "IOTLB miss rate (pcm-iio)",
    "pcie_inbound_bits_per_s": "PCIe inbound bandwidth (NIC)",
    "pcie_latency_mean_ns": "PCIe latency, mean (NIC)",
    "mtt_l0_miss_share": "MTT L0 miss rate (NIC)",
}


def draw_table() -> Figure:
    """Draw I-T1: the ratio of the two columns, one bar per metric; a rate that scales perfectly has 2."""
    table = stated("intrahost", "I-T1")
    ratios = [table[name][1] / table[name][0] for name in TABLE]
    figure = new_figure(2.9)
    axes = figure.subplots()
    places = range(len(ratios) - 1, -1, -1)
    axes.barh(list(places), [ratio - 1 for ratio in ratios], left=1, height=0.62, color=LINES[0])
    for place, ratio in zip(places, ratios, strict=True):
        axes.annotate(f"{ratio:.3f}", (ratio, place), (4, 0), textcoords="offset points", va="center", fontsize=7.5)
    axes.set_yticks(list(places), list(TABLE.values()))
    axes.axvline(2, color=MUTED, lw=0.8, ls=(0, (3, 3)))
    axes.annotate("twice the rate", (2, 0), (-4, 0), textcoords="offset points", ha="right", fontsize=7.5, color=MUTED)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlim(1, 2.05)
    axes.set_xlabel("Value with 2 sending cores / value with 1")
    return figure


def draw_law(found: Sequence[Outstanding], tag_limit: int) -> Figure:
    """Draw I-LL: rate, latency, and the reads under way that both imply, beside the limit of tags.

    Args:
        found: Little's law by number of sending cores, at least one.
        tag_limit: reads that can be under way at most.
    """
    figure = new_figure(2.9)
    rate, latency, reads = figure.subplots(1, 3)
    rate.set_title("Packet rate")
    mpps = [each.point.tx_rate_pps / MILLION for each in found]
    ratios = [f"\n{each.rate_ratio:.3f} x" if each.rate_ratio != 1 else "" for each in found]
    _bars(rate, found, mpps, [f"{height:.2f}{text}" for height, text in zip(mpps, ratios, strict=True)])
    rate.set_ylabel("Sent (Mpps)")
    latency.set_title("Latency of a PCIe read")
    times_us = [each.point.latency_ns * US_PER_NS for each in found]
    growths = [f"\n{100 * each.latency_growth:+.0f} %" if each.latency_growth else "" for each in found]
    _bars(latency, found, times_us, [f"{height:.3f}{text}" for height, text in zip(times_us, growths, strict=True)])
    latency.set_ylabel("Latency (µs)")
    reads.set_title("Outstanding reads")
    words = [f"{each.reads:.0f}\n{100 * each.tag_share:.0f} % of the tags" for each in found]
    _bars(reads, found, [each.reads for each in found], words)
    reads.axhline(tag_limit, color=INK, lw=1.1, ls=(0, (3, 2)))
    reads.annotate(f"limit: {tag_limit} tags", (0.02, tag_limit), (0, -10), textcoords="offset points", fontsize=7.5)
    reads.set_ylim(0, 1.05 * tag_limit)
    reads.set_ylabel("Reads under way")
    return figure


def _bars(axes: Axes, found: Sequence[Outstanding], heights: Sequence[float], words: Sequence[str]) -> None:
    places = range(len(found))
    axes.bar(list(places), heights, width=0.55, color=LINES[0])
    for place, height, text in zip(places, heights, words, strict=True):
        axes.annotate(text, (place, height), (0, 3), textcoords="offset points", ha="center", va="bottom", fontsize=7.5)
    axes.set_xticks(list(places), [str(each.point.tx_cores) for each in found])
    axes.set_xlabel("Sending cores")
    axes.set_ylim(0, 1.3 * max(heights))
    axes.margins(x=0.2)


def caption() -> str:
    """Return the source of the numbers, and what the paper concludes from them."""
    given = stated("intrahost", "I-LL")
    one, two = given["outstanding_reads"]
    words = (
        f"{given['tx_rate_ratio']} x the rate, {100 * given['latency_growth']:+.0f} % latency, {one} and {two} reads"
    )
    source = f"'{load_paper('intrahost').title}', table 1 and section 4.1: 64 B packets, reads of 64 B"
    return f"{_FROM_THE_TABLE} {source}. The paper states {words}; ratios here are those of the printed values."


def draw_paper_law() -> Figure:
    """Draw I-LL from the numbers of the paper's table."""
    return draw_law(paper_scaling(), stated("intrahost", "I-LL")["tag_limit"])


def table_rows() -> list[dict[str, Any]]:
    """Return the numbers of the figure I-T1-table."""
    table = stated("intrahost", "I-T1")
    return [{"metric": name, "with_1_core": table[name][0], "with_2_cores": table[name][1]} for name in TABLE]


def law_rows() -> list[dict[str, Any]]:
    """Return the numbers of the figure I-LL."""
    names = ("reads", "tag_share", "rate_ratio", "latency_growth")
    return [
        {"tx_cores": each.point.tx_cores, "tx_rate_pps": each.point.tx_rate_pps, "latency_ns": each.point.latency_ns}
        | {name: getattr(each, name) for name in names}
        for each in paper_scaling()
    ]
