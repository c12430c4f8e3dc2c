# SPDX-License-Identifier: BSD-3-Clause
"""Little's law for DMA reads of a NIC, on a table of measured rates and latencies.

Their number is bounded by the tags of the PCIe function, one per outstanding read, so the share of tags in use tells
whether the NIC could ask for more (intra-host paper, section 4.1; PCI Express Base Specification 4.0, section 2.2.6.2:
8-bit extended tags).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import Level
from pollscope.analysis.scaling import rows_by_cores
from pollscope.base.units import counted, human_ns
from pollscope.stats.littles_law import BITS_PER_BYTE, outstanding_requests
from pollscope.store.run_folder import RunFolder


@dataclass(frozen=True)
class TxPoint:
    """Hold one measured point: sending cores, packets and bits read over PCIe per second, mean latency of a read."""

    tx_cores: int
    tx_rate_pps: float
    rate_bits_per_s: float
    latency_ns: float


@dataclass(frozen=True)
class Outstanding:
    """Hold Little's law at a point: reads, their share of the tags, rate and latency against the first point."""

    point: TxPoint
    reads: float
    tag_share: float
    rate_ratio: float
    latency_growth: float


def scaling(points: Sequence[TxPoint], request_bytes: float, tag_limit: int) -> list[Outstanding]:
    """Apply Little's law to each point of a measured table, in order; compare with the first point.

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
    found = []
    for point in points:
        reads = outstanding_requests(point.rate_bits_per_s, point.latency_ns, request_bytes)
        ratios = point.tx_rate_pps / first.tx_rate_pps, point.latency_ns / first.latency_ns - 1
        found.append(Outstanding(point, reads, reads / tag_limit, *ratios))
    return found


def paper_points() -> list[TxPoint]:
    """Return the columns of table 1 of the intra-host paper (data/papers/intrahost.yaml)."""
    table = stated("intrahost", "I-T1")
    columns = ("tx_cores", "tx_rate_pps", "pcie_inbound_bits_per_s", "pcie_latency_mean_ns")
    return [TxPoint(*values) for values in zip(*(table[name] for name in columns), strict=True)]


def points_of_run(run: RunFolder, where: Mapping[str, Level] | None = None) -> list[TxPoint]:
    """Return one point per number of sending cores of a run, with the means over its trials.

    Args:
        run: one of row I-T1 or I-F5, for instance.
        where: levels of the other factors, where the run swept others.

    Raises:
        UsageError: as `rows_by_cores`, for the rate, the bytes read over PCIe, or their latency.
    """
    metrics = ("tx_pps", "pcie_dma_read_bytes_per_s", "nic_pcie_latency_ns")
    means = [rows_by_cores(run, each, where).groupby("factor.cores")[f"metric.{each}"].mean() for each in metrics]
    together = pd.concat(means, axis=1, join="inner").sort_index()
    return [
        TxPoint(int(cores), pps, BITS_PER_BYTE * bytes_per_s, latency_ns)
        for cores, pps, bytes_per_s, latency_ns in together.itertuples()
    ]


def paper_scaling() -> list[Outstanding]:
    """Apply Little's law to table 1 of the intra-host paper, with its request size and tag limit (section 4.1)."""
    given = stated("intrahost", "I-LL")
    return scaling(paper_points(), given["request_bytes"], given["tag_limit"])


@dataclass(frozen=True)
class Recomputed:
    """Hold a number that the intra-host paper derives from its own table, as printed and as the table gives it."""

    what: str
    printed: float
    computed: float

    @property
    def off(self) -> float:
        return self.printed / self.computed - 1


def paper_arithmetic() -> list[Recomputed]:
    """Recompute what the intra-host paper derives from its table 1 by division and by Little's law (section 4.1)."""
    given = stated("intrahost", "I-LL")
    one, two = paper_scaling()
    return [
        Recomputed("rate, 2 cores over 1", given["tx_rate_ratio"], two.rate_ratio),
        Recomputed("growth of latency, 2 cores over 1", given["latency_growth"], two.latency_growth),
        *(
            Recomputed(f"reads under way, {counted(at.point.tx_cores, 'core')}", printed, at.reads)
            for printed, at in zip(given["outstanding_reads"], (one, two), strict=True)
        ),
    ]


def three_ways() -> pd.DataFrame:
    """Return the outstanding reads of table 1 of the intra-host paper from three rates of reads, side by side.

    The NIC's bandwidth and the bytes of pcm-iio are divided by the size of a read; an IOTLB look-up is a read. Look-ups
    agree with the NIC and bytes do not: pcm-iio counts about 47 bytes a look-up. Why is open: the text does not say
    which transactions the tool leaves out.
    """
    table, given = stated("intrahost", "I-T1"), stated("intrahost", "I-LL")
    size = given["request_bytes"]
    counted = zip(table["iotlb_hits_per_s"], table["iotlb_misses_per_s"], strict=True)
    ways = {
        "NIC bandwidth / read size": [rate / BITS_PER_BYTE / size for rate in table["pcie_inbound_bits_per_s"]],
        "IOTLB look-ups": [hits + misses for hits, misses in counted],
        "pcm-iio bytes / read size": [rate / size for rate in table["ib_read_bytes_per_s"]],
    }
    limits = {"tags": given["tag_limit"], "wqes": table["log_max_outstanding_wqe"]}
    lines = []
    for way, rates in ways.items():
        for cores, rate, latency_ns in zip(table["tx_cores"], rates, table["pcie_latency_mean_ns"], strict=True):
            reads = in_flight(rate, latency_ns)
            shares = {f"{name}_share": reads / limit for name, limit in limits.items()}
            known = {"way": way, "tx_cores": cores, "reads_per_s": rate, "latency_ns": latency_ns}
            lines.append({**known, "outstanding_reads": reads, **shares})
    return pd.DataFrame(lines)


def in_flight(rate_per_s: float, time_ns: float) -> float:
    """Return events in flight by Little's law: walks in flight = misses per second x time of a walk.

    Raises:
        ValueError: a value is negative or no number.
    """
    return outstanding_requests(rate_per_s * BITS_PER_BYTE, time_ns, 1)


@dataclass(frozen=True)
class WalkShare:
    """Hold what page walks of a given length add to the mean read at two points.

    `growth_share` is the share of the growth of latency that they explain, `walk_ns_needed` the length at the second
    point that would explain all of it.
    """

    in_flight: tuple[float, float]
    latency_ns: tuple[float, float]
    growth_share: float
    walk_ns_needed: float


def walk_share(
    misses_per_s: tuple[float, float],
    reads_per_s: tuple[float, float],
    latency_ns: tuple[float, float],
    walk_ns: float,
) -> WalkShare:
    """Return the share of a latency increase that page walks explain: more reads miss, each walk as long as before.

    Args:
        misses_per_s: walks begun at both points.
        reads_per_s: reads at both points, of which those walks delay one each.
        latency_ns: mean latency of a read at both points; the second is the higher one.
        walk_ns: time of a walk.

    Raises:
        ValueError: a value is no quantity, no read or no miss, or latency that did not grow.
    """
    if not all(math.isfinite(rate) and rate > 0 for rate in (*misses_per_s, *reads_per_s)):
        raise ValueError("misses and reads a second have to be numbers above 0")
    flying = in_flight(misses_per_s[0], walk_ns), in_flight(misses_per_s[1], walk_ns)
    added = walk_ns * misses_per_s[0] / reads_per_s[0], walk_ns * misses_per_s[1] / reads_per_s[1]
    growth = latency_ns[1] - latency_ns[0]
    if not growth > 0:
        raise ValueError(f"latency did not grow: {human_ns(latency_ns[0])} and {human_ns(latency_ns[1])}")
    needed = (growth + added[0]) * reads_per_s[1] / misses_per_s[1]
    return WalkShare(flying, added, (added[1] - added[0]) / growth, needed)


def paper_walk_share(walk_ns: float) -> WalkShare:
    """Return walk_share() of table 1 of the intra-host paper, in which look-ups are the reads."""
    table = stated("intrahost", "I-T1")
    (one, two), hits = table["iotlb_misses_per_s"], table["iotlb_hits_per_s"]
    first, second = table["pcie_latency_mean_ns"]
    return walk_share((one, two), (one + hits[0], two + hits[1]), (first, second), walk_ns)
