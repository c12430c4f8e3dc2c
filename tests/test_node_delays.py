# SPDX-License-Identifier: BSD-3-Clause
"""Check service times and hiccups of a real node's DUT: number and length as requested, and booked as work."""

import math
from typing import Any

import pytest
import scipy
from accounted import check_cycles
from dut_node import DUT_LCORE, SECOND_DUT_LCORE, Node, configuration

pytestmark = pytest.mark.measure

FIXED = {"kind": "fixed", "ns": 20_000}


def measured(node: Node, pps: int = 20_000, window_s: float = 0.25, **dut: Any) -> list[dict[str, Any]]:
    node.get("configure", **configuration(queues=2, rx_desc=4096, **dut))
    lcores: list[dict[str, Any]] = node.trial(window_s=window_s, rate={"pps": pps})["dut"]["lcores"]
    return lcores


@pytest.mark.one_in(2)
@pytest.mark.parametrize("burst", [1, 32])
def test_hiccups_are_as_frequent_as_requested(node: Node, burst: int) -> None:
    hiccup = {"probability": 0.05, "delay": FIXED, "seed": 1}
    (lcore,) = measured(node, hiccup=hiccup, burst=burst)
    hiccups = lcore["hiccups"]
    assert scipy.stats.binomtest(hiccups["count"], lcore["rx_packets"], 0.05).pvalue > 1e-6
    each = FIXED["ns"] * node.hello["tsc_hz"] / 1e9
    assert hiccups["cycles"] == pytest.approx(hiccups["count"] * each, abs=hiccups["count"])
    assert "service" not in lcore
    check_work(lcore, hiccups["cycles"])


def check_work(lcore: dict[str, Any], drawn_cycles: int) -> None:
    """Check that drawn delays are waited for, and measured completely instead of sampled."""
    check_cycles(lcore, "sampled")
    assert lcore["waited_cycles"] > 0.98 * drawn_cycles


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("delay", "mean_ns", "deviation_ns"),
    [
        ({"kind": "exponential", "mean_ns": 10_000}, 10_000, 10_000),
        ({"kind": "list", "ns": [5_000, 5_000, 20_000, 30_000]}, 15_000, math.sqrt(112.5e6)),
    ],
)
def test_hiccups_have_their_distribution(
    node: Node, delay: dict[str, Any], mean_ns: float, deviation_ns: float
) -> None:
    (lcore,) = measured(node, hiccup={"probability": 0.2, "delay": delay, "seed": 3})
    count, cycles = lcore["hiccups"]["count"], lcore["hiccups"]["cycles"]
    assert count > 100
    assert abs(cycles / node.hello["tsc_hz"] * 1e9 / count - mean_ns) < 5 * deviation_ns / math.sqrt(count)


SERVICES = [
    ({"kind": "fixed", "cycles": 5000}, 5000, 0),
    ({"kind": "exponential", "mean_cycles": 5000, "seed": 2}, 5000, 5000),
    (
        {"kind": "bimodal", "short_cycles": 1000, "long_cycles": 50_000, "long_probability": 0.1, "seed": 2},
        5900,
        49_000 * 0.3,
    ),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("service", "mean", "deviation"), SERVICES)
def test_service_times_have_their_distribution(
    node: Node, service: dict[str, Any], mean: float, deviation: float
) -> None:
    (lcore,) = measured(node, service=service)
    served = lcore["service"]
    assert served["count"] == lcore["rx_packets"] > 500
    assert abs(served["cycles"] / served["count"] - mean) <= 5 * deviation / math.sqrt(served["count"])
    assert (served["seed"] is None) == (service["kind"] == "fixed")
    assert "hiccups" not in lcore
    check_work(lcore, served["cycles"])


def test_extra_cycles_are_a_fixed_service(node: Node) -> None:
    (lcore,) = measured(node, extra_cycles=3000)
    assert lcore["service"] == {"count": lcore["rx_packets"], "cycles": 3000 * lcore["rx_packets"], "seed": None}
    (lcore,) = measured(node)
    assert "service" not in lcore
    assert "hiccups" not in lcore


def test_both_at_once(node: Node) -> None:
    hiccup = {"probability": 0.01, "delay": {"kind": "fixed", "ns": 1_000_000}}
    (lcore,) = measured(node, hiccup=hiccup, service={"kind": "exponential", "mean_cycles": 2000})
    assert lcore["service"]["count"] == lcore["rx_packets"]
    check_work(lcore, lcore["service"]["cycles"] + lcore["hiccups"]["cycles"])
    assert lcore["service"]["seed"] != lcore["hiccups"]["seed"]


def test_streams_follow_from_seed_and_lcore(node: Node) -> None:
    def seeds(seed: int, lcores: list[int]) -> list[tuple[int, int]]:
        hiccup = {"probability": 0.5, "delay": FIXED, "seed": seed}
        service = {"kind": "exponential", "mean_cycles": 100, "seed": seed}
        reports = measured(node, window_s=0.02, hiccup=hiccup, service=service, lcores=lcores)
        return [(lcore["hiccups"]["seed"], lcore["service"]["seed"]) for lcore in reports]

    both = seeds(1, [DUT_LCORE, SECOND_DUT_LCORE])
    assert seeds(1, [DUT_LCORE, SECOND_DUT_LCORE]) == both
    assert seeds(1, [SECOND_DUT_LCORE]) == both[1:]
    others = seeds(2, [DUT_LCORE, SECOND_DUT_LCORE])
    drawn = [seed for pair in both + others for seed in pair]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.thorough
def test_every_trial_restarts_the_streams(node: Node) -> None:
    """All packets of the trial lie in its window, so the same number of packets has the same hiccups."""
    hiccup = {"probability": 0.3, "delay": {"kind": "exponential", "mean_ns": 1000}, "seed": 5}
    node.get("configure", **configuration(hiccup=hiccup))
    counts: dict[int, float] = {}
    for _ in range(3):
        (lcore,) = node.trial(window_s=0.1, warmup_s=0, rate={"pps": 3000})["dut"]["lcores"]
        counts[lcore["rx_packets"]] = counts.get(lcore["rx_packets"], lcore["hiccups"]["cycles"])
        assert counts[lcore["rx_packets"]] == lcore["hiccups"]["cycles"]
    by_packets = sorted(counts.items())
    assert [cycles for _, cycles in by_packets] == sorted(cycles for _, cycles in by_packets)


def test_a_hiccup_delays_its_packet(node: Node) -> None:
    hiccup = {"probability": 0.1, "delay": {"kind": "fixed", "ns": 5_000_000}}
    node.get("configure", **configuration(burst=1, hiccup=hiccup))
    result = node.trial(window_s=0.5, warmup_s=0, rate={"pps": 200}, drain_max_ns=10**10)
    (generator,), (lcore,) = result["gen"]["lcores"], result["dut"]["lcores"]
    latency = generator["latency_ns"]["from_intended"]
    assert lcore["hiccups"]["count"] > 0
    assert latency["max"] >= 5_000_000
    assert latency["sum"] >= lcore["hiccups"]["count"] * 5_000_000
