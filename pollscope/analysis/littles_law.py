# SPDX-License-Identifier: BSD-3-Clause
"""Little's law for DMA reads of a NIC, on a table of measured rates and latencies.

Their number is bounded by the tags of the PCIe function, one per outstanding read, so the share of tags in use tells
whether the NIC could ask for more (intra-host text, section 4.1; PCI Express Base Specification 4.0, section 2.2.6.2:
8-bit extended tags).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pollscope.analysis.papers import stated
from pollscope.stats.littles_law import outstanding_requests


@dataclass(frozen=True)
class TxPoint:
    """One column of a TX scaling table: what a NIC did with so many sending cores.

    Attributes:
        tx_cores: cores that send.
        tx_rate_pps: packets a second.
        rate_bits_per_s: data that the NIC reads over PCIe, bits a second.
        latency_ns: mean latency of those reads.
    """

    tx_cores: int
    tx_rate_pps: float
    rate_bits_per_s: float
    latency_ns: float


@dataclass(frozen=True)
class Outstanding:
    """Little's law at one point, and how the point compares with the first one of its table.

    Attributes:
        point: what was measured.
        reads: outstanding reads.
        tag_share: reads over the limit of tags; 1 when no further read can be asked for.
        rate_ratio: packet rate over that of the first point.
        latency_growth: latency over that of the first point, minus 1.
    """

    point: TxPoint
    reads: float
    tag_share: float
    rate_ratio: float
    latency_growth: float


def scaling(points: Sequence[TxPoint], request_bytes: float, tag_limit: int) -> list[Outstanding]:
    """Little's law for every point of a measured table, in its order; the first point is the one compared with.

    Args:
        points: at least one.
        request_bytes: size of a read.
        tag_limit: reads that can be under way at most.

    Raises:
        ValueError: no point, a limit below 1, a first rate or latency of zero, or a value that is no quantity.
    """
    if not points:
        raise ValueError("the table has no point")
    if tag_limit < 1:
        raise ValueError(f"tag_limit is {tag_limit}; it has to be at least 1")
    first = points[0]
    if not (first.tx_rate_pps > 0 and first.latency_ns > 0):
        raise ValueError("rate and latency of the first point have to be above 0 to compare others with them")
    return [_at(point, first, request_bytes, tag_limit) for point in points]


def _at(point: TxPoint, first: TxPoint, request_bytes: float, tag_limit: int) -> Outstanding:
    reads = outstanding_requests(point.rate_bits_per_s, point.latency_ns, request_bytes)
    return Outstanding(
        point,
        reads,
        reads / tag_limit,
        point.tx_rate_pps / first.tx_rate_pps,
        point.latency_ns / first.latency_ns - 1,
    )


def paper_points() -> list[TxPoint]:
    """The columns of the intra-host text's table 1 (data/papers/intrahost.yaml)."""
    table = stated("intrahost", "I-T1")
    columns = ("tx_cores", "tx_rate_pps", "pcie_inbound_bits_per_s", "pcie_latency_mean_ns")
    return [TxPoint(*values) for values in zip(*(table[name] for name in columns), strict=True)]


def paper_scaling() -> list[Outstanding]:
    """Little's law on the intra-host text's table, with the request size and tag limit that it states (section 4.1)."""
    given = stated("intrahost", "I-LL")
    return scaling(paper_points(), given["request_bytes"], given["tag_limit"])
