# SPDX-License-Identifier: BSD-3-Clause
"""Check that a warm-up that reaches into the window is found and cut, and that none is invented."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import synthetic_run as synthetic

from pollscope.metrics.derive import derive_trial
from pollscope.metrics.record import TrialObservations
from pollscope.metrics.steady import steadiness_flags
from pollscope.stats.change_point import FALSE_ALARM, early_change

PARTS = 64
Draw = Callable[[np.random.Generator, int], Any]


def lumpy(rng: np.random.Generator, n: int) -> Any:
    """Return a mostly quiet series with gaps of the host that take up to all of a part."""
    return 100 * (1 - np.where(rng.random(n) < 0.1, rng.random(n), 0.001 * rng.random(n)))


WITHOUT_CHANGE: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(100, 5, n),
    "heavy tails": lambda rng, n: 100 + rng.standard_t(1.5, n),
    "skewed": lambda rng, n: rng.lognormal(3, 1, n),
    "host gaps": lumpy,
    "counts of few packets": lambda rng, n: rng.poisson(3, n),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [20, PARTS])
@pytest.mark.parametrize("kind", WITHOUT_CHANGE)
def test_the_rate_of_false_alarms_is_the_stated_one(kind: str, n: int) -> None:
    rng, series = np.random.default_rng(7), 4000
    alarms = sum(early_change(WITHOUT_CHANGE[kind](rng, n)) is not None for _ in range(series))
    # FALSE_ALARM of 4000 are 4; with probability 1e-4 they are more than 14.
    assert alarms <= series * FALSE_ALARM + 10, f"{alarms} of {series}"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("correlation", [0.3, 0.6])
def test_values_that_follow_their_neighbours_give_few_false_alarms(correlation: float) -> None:
    rng, alarms, series = np.random.default_rng(8), 0, 1000
    for _ in range(series):
        values = [100.0]
        for shock in rng.normal(0, 5, PARTS - 1):
            values.append(100 + correlation * (values[-1] - 100) + shock)
        alarms += early_change(values) is not None
    assert alarms <= 0.01 * series, f"{alarms} of {series}"


@pytest.mark.one_in(7)
@pytest.mark.parametrize(("count", "share"), [(5, 0.75), (6, 0.9), (10, 0.95), (20, 0.98), (PARTS // 2, 0.98)])
@pytest.mark.parametrize("change", [-0.5, -0.1, 0.1, 0.3])
def test_a_shift_is_found_where_it_is(count: int, share: float, change: float) -> None:
    rng, series = np.random.default_rng(9), 100
    found = []
    for _ in range(series):
        values = rng.normal(1000, 10, PARTS)
        values[:count] *= 1 + change
        found.append(early_change(values.tolist()))
    places = [each for each in found if each is not None and abs(each.count - count) <= 2]
    assert len(places) >= share * series, f"{len(places)} of {series}"
    assert all(each.change == pytest.approx(change, abs=0.03) for each in places)


def test_a_slow_approach_is_found_as_well() -> None:
    rng = np.random.default_rng(3)
    values = 1000 * (1 - 0.3 * np.exp(-np.arange(PARTS) / 6)) + rng.normal(0, 5, PARTS)
    found = early_change(values.tolist())
    assert found is not None and 4 <= found.count <= 26 and found.change < -0.02


@pytest.mark.parametrize("values", [[], [5.0] * PARTS, [0.0] * PARTS, list(range(10))])
def test_nothing_is_said_of_too_few_or_equal_values(values: list[float]) -> None:
    assert early_change(values) is None


def test_a_change_too_small_to_matter_or_too_late_is_none() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(1000, 1, PARTS)
    values[:10] *= 1.01
    assert early_change(values.tolist()) is None
    late = rng.normal(1000, 1, PARTS)
    late[60:] *= 1.5
    found = early_change(late.tolist())
    assert found is None, "the end of a window is no warm-up"


def warming(parts: int, factor: float, **dut: Any) -> dict[str, Any]:
    """Return a trial whose DUT received `factor` times the later rate in the first parts."""
    record = synthetic.trial(**dut)
    lcore = record["result"]["dut"]["lcores"][0]
    rng = np.random.default_rng(1)
    later = lcore["rx_packets"] // PARTS
    received = [max(0, round(later * (factor if part < parts else 1.0) + rng.normal(0, 2))) for part in range(PARTS)]
    lcore["series"]["rx_packets"] = received
    lcore["rx_packets"] = sum(received)
    return record


def test_rates_are_cut_and_the_cut_is_reported() -> None:
    record = warming(12, 0.5)
    metrics, _ = derive_trial(record)
    parts_ns = 1e9 * synthetic.WINDOW_CYCLES / synthetic.TSC_HZ / PARTS
    assert metrics["warmup_left_ns"] == pytest.approx(12 * parts_ns, rel=0.01)
    assert metrics["rx_pps"] == pytest.approx(1e6, rel=0.002), "the rate behind the warm-up"
    (flag,) = steadiness_flags(TrialObservations(record))
    assert flag["name"] == "warm-up"
    assert "in the first 94 ms of the window packets received per second were 50 % below the rest" in flag["text"]
    assert "rates leave that part out, cycle shares and latency still contain it" in flag["text"]


def test_every_rate_of_packets_is_cut_alike() -> None:
    """Packets per second, bits per second and bits on the line are one rate in three units."""
    record = warming(12, 0.5)
    lcore = record["result"]["dut"]["lcores"][0]
    lcore["series"]["tx_packets"] = lcore["series"]["rx_packets"]
    lcore |= {"tx_packets": lcore["rx_packets"], "rx_bytes": 60 * lcore["rx_packets"]}
    lcore["tx_bytes"] = lcore["rx_bytes"]
    metrics, _ = derive_trial(record)
    assert metrics["warmup_left_ns"] > 0
    for side in ("rx", "tx"):
        assert metrics[f"{side}_bps"] == pytest.approx(8 * 60 * metrics[f"{side}_pps"])
        assert metrics[f"{side}_line_bps"] == pytest.approx(8 * 84 * metrics[f"{side}_pps"])
    assert metrics["moved_pps"] == pytest.approx(metrics["tx_pps"])


def test_every_rate_of_sweeps_is_cut_alike() -> None:
    """The time of a sweep is one over their rate, behind the warm-up as in all of the window."""
    record = warming(12, 0.5)
    lcore = record["result"]["dut"]["lcores"][0]
    steady, _ = derive_trial(record)
    lcore["series"]["sweeps"] = [
        sweeps // (2 if part < 12 else 1) for part, sweeps in enumerate(lcore["series"]["sweeps"])
    ]
    metrics, _ = derive_trial(record)
    assert metrics["warmup_left_ns"] > 0
    assert metrics["sweep_time_ns"] < 0.95 * steady["sweep_time_ns"], "more of the sweeps are behind the warm-up"
    rate = metrics["iteration_rate_hz"] / steady["iteration_rate_hz"]
    assert metrics["sweep_time_ns"] * rate == pytest.approx(steady["sweep_time_ns"])
    assert metrics["poll_rate_hz"] / steady["poll_rate_hz"] == pytest.approx(rate)


def test_the_moved_rate_of_a_warming_sender_is_cut_by_its_sent_packets() -> None:
    """The moved rate counts sent packets, unless the workload sends none: the arriving rate says nothing about it."""
    record = warming(12, 0.5)
    metrics, _ = derive_trial(record)
    assert metrics["tx_pps"] == pytest.approx(1e6, rel=1e-4), "it was sent steadily"
    assert metrics["moved_pps"] == pytest.approx(metrics["tx_pps"])


def test_packets_out_of_a_ring_do_not_count_for_the_rate_at_the_ports() -> None:
    """A dispatcher's warm-up is that of the rate received; its worker took from the ring at another rate."""
    record = warming(12, 0.5)
    lcores = record["result"]["dut"]["lcores"]
    worker = copy.deepcopy(synthetic.trial()["result"]["dut"]["lcores"][0])
    lcores[0] |= {"role": "dispatcher", "ring_full": 0}
    lcores.append(worker | {"source": "ring", "role": "worker", "lcore": 3})
    metrics, _ = derive_trial(record)
    assert metrics["rx_pps"] == pytest.approx(1e6, rel=0.002)
    assert metrics["tx_pps"] == pytest.approx(1e6, rel=1e-4)


def test_a_steady_trial_keeps_its_rates_to_the_last_digit() -> None:
    record = synthetic.trial()
    metrics, _ = derive_trial(record)
    assert metrics["warmup_left_ns"] == 0
    window_s = synthetic.WINDOW_CYCLES / synthetic.TSC_HZ
    assert metrics["rx_pps"] == record["result"]["dut"]["lcores"][0]["rx_packets"] / window_s
    assert steadiness_flags(TrialObservations(record)) == []


def test_a_host_gap_at_the_start_is_no_warm_up() -> None:
    record = warming(6, 0.0)
    series = record["result"]["dut"]["lcores"][0]["series"]
    for part in range(6):
        series["interrupted_cycles"][part] = series["cycles"][part]
    assert derive_trial(record)[0]["warmup_left_ns"] == 0


def test_a_window_full_of_gaps_cannot_be_tested() -> None:
    record = synthetic.trial()
    series = record["result"]["dut"]["lcores"][0]["series"]
    series["interrupted_cycles"] = [cycles // 2 for cycles in series["cycles"]]
    _, absences = derive_trial(record)
    assert absences["warmup_left_ns"].startswith("only 0 parts of the window are free of host gaps")


def test_a_record_of_an_older_node_has_no_parts() -> None:
    record = synthetic.trial()
    del record["result"]["dut"]["lcores"][0]["series"]
    metrics, absences = derive_trial(record)
    assert "rx_pps" in metrics and "series" in absences["warmup_left_ns"]
    assert steadiness_flags(TrialObservations(record)) == []


def test_a_change_in_the_middle_of_the_window_is_reported_and_not_cut() -> None:
    record = warming(28, 0.8)
    assert derive_trial(record)[0]["warmup_left_ns"] == 0
    (flag,) = steadiness_flags(TrialObservations(record))
    assert flag["name"] == "two-levels"


def test_two_levels_within_a_window_are_flagged_in_words() -> None:
    record = synthetic.trial()
    lcore = record["result"]["dut"]["lcores"][0]
    rng = np.random.default_rng(2)
    later = lcore["series"]["sweeps"][0]
    levels = [1.0 if part // 5 % 2 else 0.7 for part in range(PARTS)]
    lcore["series"]["sweeps"] = [round(later * level + rng.normal(0, 10)) for level in levels]
    (flag,) = steadiness_flags(TrialObservations(record))
    assert flag["name"] == "two-levels"
    assert flag["text"].startswith("sweeps per second had two levels within the window")
    assert "values lie around" in flag["text"]
