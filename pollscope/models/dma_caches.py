# SPDX-License-Identifier: BSD-3-Clause
"""Model the caches between a NIC and memory: translations in the IOTLB, written lines in the DDIO ways of the LLC."""

import math
from dataclasses import dataclass

from pollscope.models.checked import NS_PER_S, Count, NotNegative, Positive, Whole, checked, model

LINE_BYTES = 64


@model
class Iotlb:
    """A cache of translations, whose working set is used evenly.

    Source: Neugebauer et al. (SIGCOMM 2018), section 6.5: some 64 entries, a miss of some 330 ns.

    Attributes:
        entries: translations that it holds.
        page_bytes: of a page.
        walk_ns: of a miss.
        walks: misses at once at most; None: no limit.
    """

    entries: Count
    page_bytes: Count
    walk_ns: Positive
    walks: Count | None = None

    @property
    def reach_bytes(self) -> int:
        """Return the largest working set without misses."""
        return self.entries * self.page_bytes

    @checked
    def miss_share(self, working_set_bytes: Positive) -> float:
        """Return the share of look-ups that miss."""
        return max(0.0, 1 - self.reach_bytes / working_set_bytes)

    @checked
    def latency_ns(self, hit_ns: NotNegative, working_set_bytes: float) -> float:
        """Return the mean latency of a DMA operation that takes hit_ns if its translation is cached."""
        return hit_ns + self.miss_share(working_set_bytes) * self.walk_ns

    @checked
    def most_per_s(self, outstanding: Positive, hit_ns: float, working_set_bytes: float) -> float:
        """Return the operations per second with so many under way, at most as many as the walkers allow."""
        rate = outstanding * NS_PER_S / max(self.latency_ns(hit_ns, working_set_bytes), 1e-9)
        missed = self.miss_share(working_set_bytes)
        if self.walks is None or missed == 0:
            return rate
        return min(rate, self.walks * NS_PER_S / (missed * self.walk_ns))


@checked
def ring_footprint_bytes(queues: Count, descriptors: Count, frame_bytes: Count, descriptor_bytes: Whole = 16) -> int:
    """Return the memory that a NIC writes in turn: whole lines of each packet, and the descriptors.

    Raises:
        UsageError: not a whole number above 0.
    """
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


@checked
def ddio_hits(footprint_bytes: Positive, ways: Count, way_bytes: Positive) -> DdioHits:
    """Return bounds of the share of DMA writes that hit, for buffers that are written in turn.

    Args:
        footprint_bytes: of ring_footprint_bytes().
        ways: that DMA writes allocate into (2 by default, register IIO_LLC_WAYS).
        way_bytes: of one way of the whole LLC.
    """
    lines_a_set = footprint_bytes / way_bytes
    # A line stays where fewer than `ways` others share its set: a Poisson number of them.
    term, low = math.exp(-lines_a_set), 0.0
    for others in range(ways):
        low += term
        term *= lines_a_set / (others + 1)
    return DdioHits(low, max(low, min(1.0, ways / lines_a_set)))
