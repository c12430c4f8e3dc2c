# SPDX-License-Identifier: BSD-3-Clause
"""Test rules across collectors: each gives its verdict with the numbers, and none if its inputs are absent."""

from collections.abc import Sequence

import pytest

from pollscope.collectors.interface import CollectorOutcome, Status
from pollscope.collectors.plausibility import judge
from pollscope.collectors.sample import Kind, SourceSample
from pollscope.collectors.window import LcoreCounts, Plausibility, PlausibilityFinding, WindowSeries

SECOND = 10**9


def counter(
    source: str, path: str, metric: str, per_second: float, unit: str = "1", seconds: int = 4
) -> list[SourceSample]:
    return [
        SourceSample(t * SECOND, source, path, metric, round(t * per_second), unit, Kind.COUNTER, "")
        for t in range(seconds)
    ]


def rate(source: str, path: str, metric: str, value: float, unit: str = "1/s") -> list[SourceSample]:
    return [SourceSample(t * SECOND, source, path, metric, value, unit, Kind.RATE, "") for t in range(4)]


def interval(source: str, path: str, metric: str, value: float) -> list[SourceSample]:
    return [SourceSample(t * SECOND, source, path, metric, value, "1", Kind.INTERVAL, "") for t in range(4)]


def verdicts(samples: Sequence[SourceSample], outcomes: Sequence[CollectorOutcome] = ()) -> dict[str, Plausibility]:
    return {finding.rule: finding.verdict for finding in judge(WindowSeries(samples, outcomes))}


NIC = counter("ethtool", "port:eth0", "nic.rx_bytes", 1e9, "B")


@pytest.mark.parametrize(
    ("write", "dropped", "verdict"),
    [
        (1.1e9, 0, Plausibility.OK),
        (0.7e9, 0, Plausibility.SUSPICIOUS),
        (0.2e9, 0, Plausibility.IMPOSSIBLE),
        (0.2e9, 1e6, Plausibility.SUSPICIOUS),
        (0, 0, Plausibility.IMPOSSIBLE),
    ],
)
def test_nic_bytes_are_compared_with_iio_bytes(write: float, dropped: float, verdict: Plausibility) -> None:
    samples = [*NIC, *rate("pcm-iio", "socket0/stack1:PCIe1/part0", "dma_write", write, "B/s")]
    samples += counter("ethtool", "port:eth0", "nic.rx_port_discards", dropped)
    finding = next(f for f in judge(WindowSeries(samples)) if f.rule == "nic_iio")
    assert finding.verdict is verdict
    assert finding.numbers["nic_rx_bytes_per_s"] == pytest.approx(1e9)
    assert "1000.0 MB/s" in finding.text


def test_an_idle_nic_proves_nothing() -> None:
    samples = counter("ethtool", "port:eth0", "nic.rx_bytes", 100, "B") + rate("pcm-iio", "s", "dma_write", 0, "B/s")
    assert verdicts(samples) == {}


def test_two_sources_of_the_same_bytes_are_not_added() -> None:
    samples = [
        *NIC,
        *rate("pcm-iio", "socket0/stack1", "dma_write", 0.6e9),
        *rate("perf-uncore", "socket0/stack1", "dma_write", 0.6e9),
    ]
    assert verdicts(samples)["nic_iio"] is Plausibility.SUSPICIOUS


@pytest.mark.parametrize(
    ("misses", "verdict"), [(100, None), (1100, Plausibility.SUSPICIOUS), (2100, Plausibility.IMPOSSIBLE)]
)
def test_misses_are_compared_with_lookups(misses: float, verdict: Plausibility | None) -> None:
    samples = rate("pcm-iio", "socket0/stack1", "iotlb_lookups", 1000) + rate(
        "pcm-iio", "socket0/stack1", "iotlb_misses", misses
    )
    assert verdicts(samples).get("iotlb") is verdict


@pytest.mark.parametrize(
    ("hits", "verdict"), [(600, Plausibility.OK), (900, Plausibility.SUSPICIOUS), (1700, Plausibility.IMPOSSIBLE)]
)
def test_hits_and_misses_add_up_to_all_llc_requests(hits: float, verdict: Plausibility) -> None:
    counts = (("itom", 1000), ("itom_hit", hits), ("itom_miss", 400))
    samples = [sample for name, value in counts for sample in interval("pcm-pcie", "socket0", name, value)]
    assert verdicts(samples)["llc_sum"] is verdict


def test_partial_writes_at_idle_are_a_wrapped_counter() -> None:
    idle = rate("pcm-memory", "socket0", "partial_writes", 2.0e9) + rate(
        "pcm-memory", "socket0", "dram_write", 1e6, "B/s"
    )
    assert verdicts(idle)["partial_writes"] is Plausibility.IMPOSSIBLE
    busy = rate("pcm-memory", "socket0", "partial_writes", 1000) + rate(
        "pcm-memory", "socket0", "dram_write", 5e9, "B/s"
    )
    assert "partial_writes" not in verdicts(busy)


def test_channels_add_up_to_the_socket() -> None:
    samples = rate("pcm-memory", "socket0", "dram_read", 100.0, "B/s")
    samples += rate("pcm-memory", "socket0/channel0", "dram_read", 50.0, "B/s")
    assert verdicts(samples)["channel_sum"] is Plausibility.SUSPICIOUS
    samples += rate("pcm-memory", "socket0/channel1", "dram_read", 50.0, "B/s")
    assert "channel_sum" not in verdicts(samples)


def test_wrapped_zero_backwards_and_multiplexed() -> None:
    wrapped = [
        SourceSample(0, "pcm-pcie", "socket0", "itom", None, "1", Kind.INTERVAL, "counter wrapped: 2 is not below 2^47")
    ]
    assert verdicts(wrapped)["wrapped"] is Plausibility.IMPOSSIBLE
    assert verdicts([*NIC, *interval("pcm-pcie", "socket0", "itom", 0)])["zeros"] is Plausibility.IMPOSSIBLE
    back = [
        SourceSample(t * SECOND, "ethtool", "port", "rx", v, "1", Kind.COUNTER, "") for t, v in enumerate((5, 9, 2))
    ]
    assert verdicts(back)["backwards"] is Plausibility.SUSPICIOUS
    share = [SourceSample(0, "perf", "socket0", "iio.running_share", 0.5, "1", Kind.GAUGE, "")]
    assert verdicts(share)["multiplexed"] is Plausibility.SUSPICIOUS


def test_ddio_off_sends_everything_to_dram() -> None:
    off = [SourceSample(0, "pcie", "device:0000:16:00.0", "ddio", 0, "1", Kind.STATE, "")]
    small = rate("pcm-memory", "socket0", "dram_write", 0.1e9, "B/s")
    assert verdicts([*NIC, *off, *small])["ddio_dram"] is Plausibility.SUSPICIOUS
    assert "ddio_dram" not in verdicts([*NIC, *small])
    assert (
        verdicts([*NIC, *off, *rate("pcm-memory", "socket0", "dram_write", 2e9, "B/s")])["ddio_dram"] is Plausibility.OK
    )


def test_too_many_instructions_and_two_owners_of_a_pmu() -> None:
    samples = interval("perf", "cpu0", "instructions", 9000) + interval("perf", "cpu0", "cycles", 1000)
    assert verdicts(samples)["ipc"] is Plausibility.IMPOSSIBLE
    both = [
        CollectorOutcome("pcm-iio", Status.OK),
        CollectorOutcome("pcm-memory", Status.OK),
        CollectorOutcome("pcm-pcie", Status.ABSENT),
    ]
    assert verdicts([], both)["pmu_in_use"] is Plausibility.SUSPICIOUS
    assert verdicts([], both[1:]) == {}


def node_ipc(
    source: str, path: str, instructions: float, cycles: float, own_instructions: float = 1.5e9, own_cycles: float = 1e9
) -> list[PlausibilityFinding]:
    """Return the finding about lcore 2 on CPU 5; the other counts are per second."""
    samples = [
        *interval(source, path, "instructions", instructions),
        *interval(source, path, "cycles", cycles),
        *interval(source, "cpu6", "instructions", 1),
    ]
    lcores = [LcoreCounts(2, 5, own_instructions * 2, own_cycles * 2, 2.0)]
    return [finding for finding in judge(WindowSeries(samples, (), lcores)) if finding.rule == "node_ipc"]


@pytest.mark.parametrize(
    ("instructions", "cycles", "verdict"),
    [
        (1.52e9, 1.01e9, Plausibility.OK),
        (1.52e9, 1.9e9, Plausibility.SUSPICIOUS),  # another thread stalls on the same CPU
        (0.9e9, 0.6e9, Plausibility.IMPOSSIBLE),  # the ratio fits, but a CPU cannot do less than its thread
    ],
)
def test_the_nodes_ipc_is_compared_with_that_of_its_cpu(
    instructions: float, cycles: float, verdict: Plausibility | None
) -> None:
    (finding,) = node_ipc("perf", "cpu5", instructions, cycles)
    assert finding.verdict is verdict
    assert finding.numbers["node_ipc"] == pytest.approx(1.5)
    assert finding.numbers["perf_ipc"] == pytest.approx(instructions / cycles)
    assert "lcore 2 (CPU 5)" in finding.text


def test_without_counts_of_the_same_cpu_there_is_no_finding_on_ipc() -> None:
    assert node_ipc("perf", "cpu7", 1e9, 1e9) == []
    assert node_ipc("perf", "cpu5", 1e9, 0) == []
    assert node_ipc("perf", "cpu5", 1e9, 1e9, own_cycles=0) == []
    # the CPU's row of one collector is not compared with a core of another socket's numbering
    assert node_ipc("pcm", "socket0/core50", 1e9, 1e9) == []


def test_a_gauge_of_turbostat_is_enough_for_the_ipc() -> None:
    gauge = [
        SourceSample(t * SECOND, "turbostat", "cpu5", "instructions_per_cycle", 0.5, "1", Kind.GAUGE, "")
        for t in (1, 2)
    ]
    findings = judge(WindowSeries(gauge, (), [LcoreCounts(2, 5, 3e9, 2e9, 2.0)]))
    assert [finding.verdict for finding in findings if finding.rule == "node_ipc"] == [Plausibility.SUSPICIOUS]
