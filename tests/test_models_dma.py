# SPDX-License-Identifier: BSD-3-Clause
"""PCIe, IOTLB and DDIO against published numbers."""

import pytest

from pollscope.models.dma_caches import Iotlb, ddio_hits, ring_footprint_bytes
from pollscope.models.pcie import Descriptors, PcieLink, forwarded_pps, received, sent


@pytest.mark.parametrize(
    ("payload", "lanes", "symbols"),
    [
        *[(128, 1, 237), (128, 8, 67), (128, 16, 48), (256, 1, 416), (256, 4, 118), (256, 8, 107), (256, 12, 90)],
        *[(256, 16, 72), (512, 1, 559), (512, 8, 86), (512, 12, 109), (512, 16, 86), (512, 32, 52)],
    ],
)
def test_limits_of_acknowledgement_are_those_of_the_specification(payload: int, lanes: int, symbols: int) -> None:
    """Table 3-7 of the base specification, 2.5 GT/s."""
    assert PcieLink(1, lanes, payload).acknowledgement_symbols == symbols


@pytest.mark.parametrize(
    ("generation", "lanes", "payload", "raw", "left"),
    [
        (3, 8, 256, 63.02, 57.88),
        (3, 16, 256, 126.0, 113.7),
        (4, 16, 256, 252.1, 227.4),
        (4, 16, 512, 252.1, 229.3),
        (5, 16, 512, 504.1, 458.5),
    ],
)
def test_the_usable_rate_of_a_link_is_that_of_pcie_bench(
    generation: int, lanes: int, payload: int, raw: float, left: float
) -> None:
    link = PcieLink(generation, lanes, payload)
    assert link.raw_bits_per_s / 1e9 == pytest.approx(raw, rel=5e-4)
    assert link.tlp_bits_per_s / 1e9 == pytest.approx(left, rel=5e-4)


def test_small_reads_and_writes_take_what_pcie_bench_says() -> None:
    link = PcieLink(3, 8)
    assert link.most_per_s(link.write(64)) == pytest.approx(82e6, rel=0.01)
    assert link.most_per_s(link.write(64)) * 512 / 1e9 == pytest.approx(42.1, rel=2e-3)
    assert link.most_per_s(link.read(64)) * 512 / 1e9 == pytest.approx(44.1, rel=2e-3)


def test_payloads_requests_and_boundaries_cut() -> None:
    link = PcieLink(3, 8, max_payload=256, max_read_request=512)
    assert link.write(257) == (2 * 24 + 257, 0)
    assert link.read(1024) == (2 * 24, 4 * 20 + 1024)
    assert PcieLink(3, 8, completion_boundary=64).read(1024) == (2 * 24, 16 * 20 + 1024)
    assert link.posted(4) == (0, 28)


def test_a_packet_and_its_descriptors_by_hand() -> None:
    link, alone = PcieLink(3, 8), Descriptors(16, 1, 1, 1, 1)
    assert received(link, 64, alone) == (88 + 24 + 40, 36 + 28)
    assert sent(link, 64, alone) == (24 + 24 + 40, 36 + 84 + 28)
    inlined = Descriptors(16, 1, 1, 1, 1, inlined=64)
    assert sent(link, 64, inlined) == (24 + 40, 100 + 28), "nothing is read but descriptors"
    assert sent(link, 65, inlined) == (24 + 24 + 40, 100 + 21 + 28)


def test_batches_wide_links_and_inlining_help() -> None:
    link = PcieLink(3, 8)
    one_by_one, many = (forwarded_pps(link, 64, Descriptors(16, each, each, each, each)) for each in (1, 32))
    assert many > 1.3 * one_by_one
    assert 30e6 < one_by_one < many < 60e6  # published models of NICs: about 40 Mpps on Gen3 x8
    assert forwarded_pps(PcieLink(4, 16), 64) == pytest.approx(227.4 / 57.88 * forwarded_pps(link, 64), rel=1e-3)
    inlining = link.most_per_s(sent(link, 64, Descriptors(inlined=64)))
    assert inlining > link.most_per_s(sent(link, 64))


def test_an_iotlb_reaches_as_far_as_published() -> None:
    """64 entries of 4 KiB: misses begin beyond 256 KiB; a miss takes 330 ns beside the 547 of a read."""
    small = Iotlb(64, 4096, 330.0)
    assert small.reach_bytes == 256 * 1024
    assert small.miss_share(256 * 1024) == 0
    assert small.latency_ns(547, 1e12) == pytest.approx(877, abs=0.1)
    assert Iotlb(64, 2 << 20, 330.0).miss_share(64 << 20) == 0
    # Longer reads alone lose 38 %; the published 70 % take walks that wait for each other.
    loss = 1 - small.most_per_s(47, 547, 1e12) / small.most_per_s(47, 547, 4096)
    assert loss == pytest.approx(1 - 547 / 877, abs=1e-3)
    few = Iotlb(64, 4096, 330.0, walks=8)
    assert 1 - few.most_per_s(47, 547, 1e12) / few.most_per_s(47, 547, 4096) == pytest.approx(0.72, abs=0.01)
    assert few.most_per_s(47, 547, 4096) == pytest.approx(47 / 547e-9)


# Farshin et al., Reexamining direct cache access (USENIX ATC 2020), Xeon Gold 6140: hits of DMA writes in percent.
FRAMES = {
    1500: {128: 97.9, 256: 97.8, 512: 96.7, 1024: 90.8, 2048: 80.1, 4096: 39.3},
    1024: {128: 100, 256: 98.9, 512: 98.3, 1024: 95.9, 2048: 89.0, 4096: 63.1},
    512: {128: 100, 2048: 98.5, 4096: 91.9},
}
WAYS = {2: 63.4, 3: 88.4, 4: 97.2, 5: 99.6, 6: 99.9}
WAY_BYTES = 2.25 * 2**20
# With 1500 bytes about 2 % miss even on a short ring.
SLACK = 0.025


@pytest.mark.parametrize(
    ("frame", "descriptors", "percent"), [(f, d, percent) for f, each in FRAMES.items() for d, percent in each.items()]
)
def test_published_hits_lie_between_the_bounds(frame: int, descriptors: int, percent: float) -> None:
    found = ddio_hits(ring_footprint_bytes(1, descriptors, frame), 2, WAY_BYTES)
    assert found.low - SLACK <= percent / 100 <= found.high


@pytest.mark.parametrize("ways", WAYS)
def test_more_ways_hit_as_published(ways: int) -> None:
    found = ddio_hits(ring_footprint_bytes(1, 4096, 1024), ways, WAY_BYTES)
    assert found.low - SLACK <= WAYS[ways] / 100 <= found.high


def test_many_queues_leave_the_ways() -> None:
    """1024 queues of 64 descriptors with 2 KiB: 128 MiB."""
    footprint = ring_footprint_bytes(1024, 64, 2048, descriptor_bytes=0)
    assert footprint == 128 << 20
    assert ddio_hits(footprint, 2, WAY_BYTES).high < 0.04
    assert ddio_hits(1, 2, WAY_BYTES).low == pytest.approx(1)
