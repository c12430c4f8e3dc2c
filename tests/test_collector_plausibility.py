# SPDX-License-Identifier: BSD-3-Clause
"""Test rules across collectors: each gives its verdict with the numbers, and none if its inputs are absent."""

from collections.abc import Sequence
from typing import Any

import pytest

from pollscope.collectors.interface import CollectorOutcome, Status
from pollscope.collectors.plausibility import judge
from pollscope.collectors.sample import Kind, SourceSample
from pollscope.collectors.window import LcoreCounts, Plausibility, PlausibilityFinding, WindowSeries

SECOND = 10**9
OK, SUSPICIOUS, IMPOSSIBLE = Plausibility


def samples(
    source: str, path: str, metric: str, values: Sequence[Any], kind: Kind = Kind.RATE, reason: str = ""
) -> list[SourceSample]:
    """Return one sample per second."""
    return [SourceSample(t * SECOND, source, path, metric, v, "1", kind, reason) for t, v in enumerate(values)]


def nic(metric: str, per_second: float) -> list[SourceSample]:
    return samples("ethtool", "port:eth0", f"nic.{metric}", [round(t * per_second) for t in range(4)], Kind.COUNTER)


def iio(metric: str, value: float, source: str = "pcm-iio") -> list[SourceSample]:
    return samples(source, "socket0/stack1:PCIe1", metric, [value] * 4)


def dram(metric: str, value: float, unit: str = "") -> list[SourceSample]:
    return samples("pcm-memory", f"socket0{unit}", metric, [value] * 4)


def counts(source: str, path: str, **values: float) -> list[SourceSample]:
    return [each for name, value in values.items() for each in samples(source, path, name, [value] * 4, Kind.INTERVAL)]


NIC = nic("rx_bytes", 1e9)
DDIO_OFF = samples("pcie", "device:0000:16:00.0", "ddio", [0], Kind.STATE)
LOOKUPS = iio("iotlb_lookups", 1000)
HALF = dram("dram_read", 100.0) + dram("dram_read", 50.0, "/channel0")


@pytest.mark.parametrize(
    ("rule", "verdict", "given"),
    [
        ("nic_iio", SUSPICIOUS, NIC + iio("dma_write", 0.6e9) + iio("dma_write", 0.6e9, "perf-uncore")),  # not added
        ("nic_iio", None, nic("rx_bytes", 100) + iio("dma_write", 0)),  # an idle NIC proves nothing
        ("iotlb", None, LOOKUPS + iio("iotlb_misses", 100)),
        ("iotlb", SUSPICIOUS, LOOKUPS + iio("iotlb_misses", 1100)),
        ("iotlb", IMPOSSIBLE, LOOKUPS + iio("iotlb_misses", 2100)),
        ("llc_sum", OK, counts("pcm-pcie", "socket0", itom=1000, itom_hit=600, itom_miss=400)),
        ("llc_sum", SUSPICIOUS, counts("pcm-pcie", "socket0", itom=1000, itom_hit=900, itom_miss=400)),
        ("llc_sum", IMPOSSIBLE, counts("pcm-pcie", "socket0", itom=1000, itom_hit=1700, itom_miss=400)),
        ("partial_writes", IMPOSSIBLE, dram("partial_writes", 2e9) + dram("dram_write", 1e6)),  # wrapped, at idle
        ("partial_writes", None, dram("partial_writes", 1000) + dram("dram_write", 5e9)),
        ("channel_sum", SUSPICIOUS, HALF),
        ("channel_sum", None, HALF + dram("dram_read", 50.0, "/channel1")),
        (
            "wrapped",
            IMPOSSIBLE,
            samples("pcm-pcie", "socket0", "itom", [None], Kind.INTERVAL, "counter wrapped: 2 is not below 2^47"),
        ),
        ("zeros", IMPOSSIBLE, NIC + counts("pcm-pcie", "socket0", itom=0)),
        ("backwards", SUSPICIOUS, samples("ethtool", "port", "rx", [5, 9, 2], Kind.COUNTER)),
        ("multiplexed", SUSPICIOUS, samples("perf", "socket0", "iio.running_share", [0.5], Kind.GAUGE)),
        ("ddio_dram", SUSPICIOUS, NIC + DDIO_OFF + dram("dram_write", 0.1e9)),
        ("ddio_dram", OK, NIC + DDIO_OFF + dram("dram_write", 2e9)),
        ("ddio_dram", None, NIC + dram("dram_write", 0.1e9)),
        ("ipc", IMPOSSIBLE, counts("perf", "cpu0", instructions=9000, cycles=1000)),
    ],
)
def test_a_rule_gives_its_verdict(rule: str, verdict: Plausibility | None, given: list[SourceSample]) -> None:
    found = {finding.rule: finding.verdict for finding in judge(WindowSeries(given))}
    assert found.get(rule) is verdict


@pytest.mark.parametrize(
    ("write", "dropped", "verdict"),
    [(1.1e9, 0, OK), (0.7e9, 0, SUSPICIOUS), (0.2e9, 0, IMPOSSIBLE), (0.2e9, 1e6, SUSPICIOUS), (0, 0, IMPOSSIBLE)],
)
def test_nic_bytes_are_compared_with_iio_bytes(write: float, dropped: float, verdict: Plausibility) -> None:
    window = WindowSeries([*NIC, *iio("dma_write", write), *nic("rx_port_discards", dropped)])
    finding = next(f for f in judge(window) if f.rule == "nic_iio")
    assert finding.verdict is verdict
    assert finding.numbers["nic_rx_bytes_per_s"] == pytest.approx(1e9)
    assert "1000.0 MB/s" in finding.text


def test_two_owners_of_a_pmu() -> None:
    both = [
        CollectorOutcome("pcm-iio", Status.OK),
        CollectorOutcome("pcm-memory", Status.OK),
        CollectorOutcome("pcm-pcie", Status.ABSENT),
    ]
    assert [(each.rule, each.verdict) for each in judge(WindowSeries([], both))] == [("pmu_in_use", SUSPICIOUS)]
    assert judge(WindowSeries([], both[1:])) == []


def node_ipc(given: list[SourceSample], own_cycles: float = 1e9) -> list[PlausibilityFinding]:
    """Return the finding about lcore 2 on CPU 5, whose thread had 1.5e9 instructions per second."""
    lcores = [LcoreCounts(2, 5, 3e9, own_cycles * 2, 2.0)]
    return [finding for finding in judge(WindowSeries(given, (), lcores)) if finding.rule == "node_ipc"]


@pytest.mark.parametrize(
    ("instructions", "cycles", "verdict"),
    [
        (1.52e9, 1.01e9, OK),
        (1.52e9, 1.9e9, SUSPICIOUS),  # another thread stalls on the same CPU
        (0.9e9, 0.6e9, IMPOSSIBLE),  # the ratio fits, but a CPU cannot do less than its thread
    ],
)
def test_the_nodes_ipc_is_compared_with_that_of_its_cpu(
    instructions: float, cycles: float, verdict: Plausibility
) -> None:
    beside = counts("perf", "cpu6", instructions=1)
    (finding,) = node_ipc(counts("perf", "cpu5", instructions=instructions, cycles=cycles) + beside)
    assert finding.verdict is verdict
    assert finding.numbers["node_ipc"] == pytest.approx(1.5)
    assert finding.numbers["perf_ipc"] == pytest.approx(instructions / cycles)
    assert "lcore 2 (CPU 5)" in finding.text


def test_without_counts_of_the_same_cpu_there_is_no_finding_on_ipc() -> None:
    assert node_ipc(counts("perf", "cpu7", instructions=1e9, cycles=1e9)) == []
    assert node_ipc(counts("perf", "cpu5", instructions=1e9, cycles=0)) == []
    assert node_ipc(counts("perf", "cpu5", instructions=1e9, cycles=1e9), own_cycles=0) == []
    # the CPU's row of one collector is not compared with a core of another socket's numbering
    assert node_ipc(counts("pcm", "socket0/core50", instructions=1e9, cycles=1e9)) == []


def test_a_gauge_of_turbostat_is_enough_for_the_ipc() -> None:
    gauge = samples("turbostat", "cpu5", "instructions_per_cycle", [0.5, 0.5], Kind.GAUGE)
    assert [finding.verdict for finding in node_ipc(gauge)] == [SUSPICIOUS]
