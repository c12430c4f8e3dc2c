# SPDX-License-Identifier: BSD-3-Clause
"""Model the caches between a NIC and memory: translations in the IOTLB, written lines in the DDIO ways of the LLC."""

import math
from dataclasses import dataclass

from pollscope.models.checked import NS_PER_S, above_zero, at_least, whole

LINE_BYTES = 64


@dataclass(frozen=True)
class Iotlb:
    """A cache of translations, whose working set is used evenly.

    Source: Neugebauer et al. (SIGCOMM 2018), section 6.5: some 64 entries, a miss of some 330 ns.

    Attributes:
        entries: translations that it holds.
        page_bytes: of a page.
        walk_ns: of a miss.
        walks: misses at once at most; None: no limit.
    """

    entries: int
    page_bytes: int
    walk_ns: float
    walks: int | None = None

    def __post_init__(self) -> None:
        whole("Iotlb", 1, entries=self.entries, page_bytes=self.page_bytes)
        above_zero("Iotlb", walk_ns=self.walk_ns)
        if self.walks is not None:
            whole("Iotlb", 1, walks=self.walks)

    @property
    def reach_bytes(self) -> int:
        """Return the largest working set without misses."""
        return self.entries * self.page_bytes

    def miss_share(self, working_set_bytes: float) -> float:
        """Return the share of look-ups that miss."""
        above_zero("Iotlb", working_set_bytes=working_set_bytes)
        return max(0.0, 1 - self.reach_bytes / working_set_bytes)

    def latency_ns(self, hit_ns: float, working_set_bytes: float) -> float:
        """Return the mean latency of a DMA operation that takes hit_ns if its translation is cached."""
        at_least("Iotlb", 0, hit_ns=hit_ns)
        return hit_ns + self.miss_share(working_set_bytes) * self.walk_ns

    def most_per_s(self, outstanding: float, hit_ns: float, working_set_bytes: float) -> float:
        """Return the operations per second with so many under way, at most as many as the walkers allow."""
        above_zero("Iotlb", outstanding=outstanding)
        rate = outstanding * NS_PER_S / max(self.latency_ns(hit_ns, working_set_bytes), 1e-9)
        missed = self.miss_share(working_set_bytes)
        if self.walks is None or missed == 0:
            return rate
        return min(rate, self.walks * NS_PER_S / (missed * self.walk_ns))


def ring_footprint_bytes(queues: int, descriptors: int, frame_bytes: int, descriptor_bytes: int = 16) -> int:
    """Return the memory that a NIC writes in turn: whole lines of each packet, and the descriptors.

    Raises:
        UsageError: not a whole number above 0.
    """
    whole("ring_footprint_bytes", 1, queues=queues, descriptors=descriptors, frame_bytes=frame_bytes)
    whole("ring_footprint_bytes", 0, descriptor_bytes=descriptor_bytes)
    lines = math.ceil(frame_bytes / LINE_BYTES)
    return queues * descriptors * (lines * LINE_BYTES + descriptor_bytes)


@dataclass(frozen=True)
class DdioHits:
    """Bounds of the share of writes that find their line in the LLC; the others go to memory (leaky DMA).

    Attributes:
        low: lines fall into sets at random, and a set with more lines than ways evicts each line before its reuse.
            high: lines are spread evenly, and random lines are evicted.
    """

    low: float
    high: float


def ddio_hits(footprint_bytes: float, ways: int, way_bytes: float) -> DdioHits:
    """Return bounds of the share of DMA writes that hit, for buffers that are written in turn.

    Args:
        footprint_bytes: of ring_footprint_bytes().
        ways: that DMA writes allocate into (2 by default, register IIO_LLC_WAYS).
        way_bytes: of one way of the whole LLC.

    Raises:
        UsageError: a number is not above 0.
    """
    whole("ddio_hits", 1, ways=ways)
    above_zero("ddio_hits", footprint_bytes=footprint_bytes, way_bytes=way_bytes)
    lines_a_set = footprint_bytes / way_bytes
    # A line stays where fewer than `ways` others share its set: a Poisson number of them.
    term, low = math.exp(-lines_a_set), 0.0
    for others in range(ways):
        low += term
        term *= lines_a_set / (others + 1)
    return DdioHits(low, max(low, min(1.0, ways / lines_a_set)))
