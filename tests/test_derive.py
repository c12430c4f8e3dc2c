# SPDX-License-Identifier: BSD-3-Clause
"""Test metrics from trial records: values, absences, and the effects of a damaged record."""

import copy
import json
import math
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic_run as synthetic
from hypothesis import given
from hypothesis import strategies as st

from pollscope.base.errors import UsageError
from pollscope.metrics.accounting import TIMED_INTERVAL_ERROR
from pollscope.metrics.counted import COUNTED
from pollscope.metrics.derive import derive_trial
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.record import NotMeasured, Part, TrialObservations
from pollscope.store.results_table import current_table, derive_table, write_table
from pollscope.store.run_folder import read_run


def test_values_of_a_healthy_trial() -> None:
    metrics, absences = derive_trial(synthetic.trial(pps=1e6, queues=4, useful_share=0.6))
    expected = {
        "useful_share": 0.6,
        "tax_share": 0.4,
        "receive_share": 0.18,
        "process_share": 0.3,
        "transmit_share": 0.12,
        "empty_poll_share": 0.28,
        "loop_share": 0.116,
        "instrumentation_share": 0.004,
        "tax_share_error": TIMED_INTERVAL_ERROR * 0.28,  # the timed intervals themselves agree
        "interaction_share": 0.06,
        "accounting_misfit_share": 0,
        "wire_share": 0,
        "waiting_share": 0,
        "tax_share_ovs": 0.28,
        "tax_share_testpmd": 0.4,
        "poll_rate_hz": 2e7,
        "poll_rate_per_queue_hz": 5e6,
        "iteration_rate_hz": 5e6,
        "sweep_time_ns": 200,
        "empty_poll_fraction": 1 - 62_500 / 10e6,
        "burst_mean": 8,
        "rx_pps": 1e6,
        "rx_bps": 480e6,
        "rx_line_bps": 672e6,
        "offered_pps": 1e6,
        "unsent_share": 0,
        "loss_share": 0,
        "imissed_share": 0,
        "rate_error": 0,
        "generator_lcores": 1,
        "cycles_per_packet_all": 2000,
        "cycles_per_packet_busy": 1200,
        "cycles_per_packet_useful": 1200,
        "longest_iteration_ns": 10_000,
        "sweep_cycles": 7,
        "latency_mean_ns": 1499.5,
        "latency_max_ns": 1999,
        "sampled_gap_share": 0.01,
        "generator_gaps_over_10us_per_s": 40,
        "generator_gap_longest_ns": 150_000,
        "involuntary_switches": 3,
        "steal_ticks": 0,
    }
    for name, value in expected.items():
        assert metrics[name] == pytest.approx(value, rel=1e-6, abs=1e-9), name
    assert absences["ipc"] == synthetic.NO_PMU
    # the node records only a sample of sweeps and gaps between polls, which rarely contains the longest one
    assert not {"iteration_cycles_max", "poll_gap_max_ns"} & {*metrics, *absences}


def test_useful_and_tax_are_the_whole_window() -> None:
    metrics, _ = derive_trial(synthetic.trial(useful_share=0.37))
    assert metrics["useful_share"] + metrics["tax_share"] == pytest.approx(1, abs=1e-12)


def test_time_taken_away_is_no_cost_of_polling_while_running() -> None:
    metrics, _ = derive_trial(synthetic.trial(useful_share=0.6, interrupted_share=0.1))
    assert metrics["tax_share"] == pytest.approx(0.4)
    assert metrics["interrupted_share"] == pytest.approx(0.1)
    assert metrics["loop_share"] == pytest.approx(0.016)
    assert metrics["tax_share_running"] == pytest.approx(1 - 0.6 / 0.9)
    assert metrics["poll_rate_running_hz"] == pytest.approx(2e7 / 0.9)


def test_a_core_that_was_away_when_the_window_ended_polled_no_faster() -> None:
    """Its cycles continue after the window until it returns; in that time it polls nothing."""
    record = synthetic.trial(queues=4)
    lcore = record["result"]["dut"]["lcores"][0]
    away = lcore["cycles"]["total"] // 10
    lcore["cycles"] |= {name: lcore["cycles"][name] + away for name in ("total", "loop") if name in lcore["cycles"]}
    lcore["interruptions"] = {"count": 1, "cycles": away}
    metrics, _ = derive_trial(record)
    assert metrics["poll_rate_running_hz"] == pytest.approx(2e7)
    assert metrics["sweep_time_ns"] == pytest.approx(200)


def test_parts_that_do_not_add_up_are_not_separated() -> None:
    """Timed one by one, busy polls of a tenth of the window take as long as a fifth: they overlap."""
    record = synthetic.trial(useful_share=0.1)
    timed = record["result"]["dut"]["lcores"][0]["timed"]
    timed |= {f"{part}_cycles": 2 * timed[f"{part}_cycles"] for part in ("receive", "process", "transmit")}
    metrics, absences = derive_trial(record)
    assert metrics["useful_share"] == pytest.approx(0.1)
    assert metrics["tax_share_testpmd"] == pytest.approx(0.8)
    for part in ("receive_share", "process_share", "transmit_share"):
        assert "take 10.0 % of the window more than in the loop" in absences[part]


def test_busy_polls_that_take_longer_than_the_window_one_by_one() -> None:
    record = synthetic.trial(useful_share=0.9)
    record["result"]["dut"]["lcores"][0]["timed"]["receive_cycles"] = synthetic.WINDOW_CYCLES
    metrics, absences = derive_trial(record)
    assert "they overlap in the loop" in absences["tax_share_testpmd"]
    assert metrics["cycles_per_packet_busy"] == pytest.approx(2 * (1 + 0.7 * 0.9) * 1000)


def test_the_wire_is_neither_useful_nor_tax() -> None:
    """500000 packets at 200 cycles: a tenth of the window."""
    record = synthetic.trial(useful_share=0.6)
    timed = {"tx_q0_wire_sampled_cycles": 1_600_000, "tx_q0_wire_sampled_frames": 8000}
    record["result"]["ports"]["net_crossover1_a"] = {"stats": {}, "xstats": timed}
    metrics, _ = derive_trial(record)
    assert metrics["wire_share"] == pytest.approx(0.1)
    assert metrics["useful_share"] == pytest.approx(0.5)
    assert metrics["transmit_share"] == pytest.approx(0.02)
    assert metrics["tax_share"] == pytest.approx(0.4)


def qwait_trial(waiting: float, samples: int, cycles: float) -> dict[str, Any]:
    """Return a trial that waited for a share of its window and spent `cycles` on notifications."""
    record = synthetic.trial(useful_share=0.6)
    (lcore,) = record["result"]["dut"]["lcores"]
    busy_polls = lcore["polls"]["partial"] + lcore["polls"]["full"]
    lcore["polls"]["empty"] = 0
    lcore["polls"]["refill_failed"] = 0
    lcore["waiting"] = {"count": 10, "cycles": waiting * synthetic.WINDOW_CYCLES, "sleeps": 0}
    sums = {
        "samples": samples,
        "cycles": samples * cycles / busy_polls,
        "squared_cycles": samples * (cycles / busy_polls) ** 2,
    }
    lcore["notices"] = {"empty": {"samples": 0, "cycles": 0.0, "squared_cycles": 0.0}, "busy_polls": sums}
    return record


def test_waiting_is_neither_useful_nor_tax() -> None:
    """Notifications took a tenth of the window; all timed iterations took the same."""
    record = qwait_trial(0.5, 1000, 0.1 * synthetic.WINDOW_CYCLES)
    looks = record["result"]["dut"]["lcores"][0]["event_cycles"] / synthetic.WINDOW_CYCLES
    metrics, absences = derive_trial(record)
    assert metrics["waiting_share"] == pytest.approx(0.5)
    assert metrics["loop_share"] == pytest.approx(0.1 + looks)
    assert metrics["tax_share"] == pytest.approx(0.1 + looks + metrics["instrumentation_share"])
    assert metrics["useful_share"] + metrics["tax_share"] + metrics["waiting_share"] == pytest.approx(1)
    assert metrics["tax_share_error"] < 1e-6
    assert "a notified loop has no empty polls" in absences["interaction_share"]


def test_waiting_is_no_tax_by_testpmds_count() -> None:
    spun, waited = (derive_trial(qwait_trial(waiting, 1000, 0.0))[0]["tax_share_testpmd"] for waiting in (0.0, 0.25))
    assert waited == pytest.approx(spun - 0.25)
    _, absences = derive_trial(qwait_trial(0.5, 1000, 0.0))
    assert "busy polls with the waits between them take 110.0 % of the window" in absences["tax_share_testpmd"]


def test_iterations_of_a_notified_loop_are_no_sweeps() -> None:
    """A wait is an iteration as well: 500 queues at the cost of an empty poll each would exceed the window."""
    record = qwait_trial(0.5, 1000, 0.1 * synthetic.WINDOW_CYCLES)
    (lcore,) = record["result"]["dut"]["lcores"]
    lcore |= {"queues": 500, "iterations": 1_000_000, "idle_iterations": 400_000}
    lcore["polls"]["empty"] = 100_000
    lcore["notices"]["empty"] = {"samples": 1000, "cycles": 30_000.0, "squared_cycles": 900_000.0}
    metrics, absences = derive_trial(record)
    assert metrics["tax_share_ovs"] == metrics["empty_poll_share"] == pytest.approx(0.003)
    for name in ("sweep_time_ns", "iteration_rate_hz", "idle_iteration_share"):
        assert absences[name] == "a notified loop makes no sweeps"


@pytest.mark.parametrize("waiting", [0.0, 0.25, 0.9])
def test_waits_between_sweeps_are_no_part_of_them(waiting: float) -> None:
    record = synthetic.trial(pps=0, useful_share=0.0, packets=0)
    spun, _ = derive_trial(record)
    record["result"]["dut"]["lcores"][0]["waiting"] = {
        "count": 10,
        "cycles": waiting * synthetic.WINDOW_CYCLES,
        "sleeps": 10,
    }
    metrics, _ = derive_trial(record)
    away = spun["interrupted_share"]
    assert metrics["sweep_time_ns"] == pytest.approx(spun["sweep_time_ns"] * (1 - away - waiting) / (1 - away))


def test_too_few_timed_iterations_are_a_reason() -> None:
    _, absences = derive_trial(qwait_trial(0.5, 29, 0.1 * synthetic.WINDOW_CYCLES))
    assert "only 29 of" in absences["tax_share"]


def test_costs_beyond_the_window_are_a_reason() -> None:
    _, absences = derive_trial(qwait_trial(0.5, 1000, 0.8 * synthetic.WINDOW_CYCLES))
    assert "exceeds the window by" in absences["tax_share"]


def test_mode_full_has_latencies_and_no_classes() -> None:
    record = synthetic.trial(useful_share=0.6)
    lcore = record["result"]["dut"]["lcores"][0]
    lcore["accounting"] = "full"
    for key in ("timed_intervals", "transitions", "event_cycles", "sampling_cycles", "empty_poll_cycles"):
        del lcore[key]
    metrics, absences = derive_trial(record)
    assert metrics["cycles_per_packet_busy"] == pytest.approx(1200)
    assert metrics["empty_poll_fraction"] == pytest.approx(1 - 62_500 / 10e6)
    assert 0 < metrics["tax_share_testpmd"] < 1
    for name in ("tax_share", "useful_share", "receive_share", "tax_share_ovs", "loop_share"):
        assert absences[name] == "accounting mode full takes no timed intervals"


def test_waits_for_locks_are_tax_and_waits_made_on_purpose_are_useful() -> None:
    plain, waiting = synthetic.trial(useful_share=0.6), synthetic.trial(useful_share=0.6)
    waiting["result"]["dut"]["lcores"][0] |= {
        "lock": {"waits": 5, "cycles": 50_000_000},
        "waited_cycles": 100_000_000,
        "event_cycles": plain["result"]["dut"]["lcores"][0]["event_cycles"] - 50_000_000,
    }
    before, after = derive_trial(plain)[0], derive_trial(waiting)[0]
    for name in ("tax_share", "loop_share", "useful_share"):
        assert after[name] == pytest.approx(before[name])
    assert after["accounting_misfit_share"] == pytest.approx(
        0.1
    )  # timed intervals do not contain a wait that is set aside


def test_without_a_busy_poll_all_is_tax() -> None:
    record = synthetic.trial(pps=0, useful_share=0.0, packets=0)
    record["result"]["dut"]["lcores"][0]["timed"] = {"absent": "no busy poll was timed"}
    metrics, _ = derive_trial(record)
    assert metrics["tax_share"] == metrics["tax_share_testpmd"] == 1
    for name in ("useful_share", "receive_share", "process_share", "transmit_share", "interaction_share"):
        assert metrics[name] == 0
    assert metrics["tax_share_error"] == 0


def test_a_misfit_of_two_lcores_does_not_cancel() -> None:
    record = synthetic.trial(useful_share=0.6)
    lcores = record["result"]["dut"]["lcores"]
    lcores.append(copy.deepcopy(lcores[0]))
    for lcore, cycles in zip(lcores, (40_000_000, -30_000_000), strict=True):
        lcore["event_cycles"] += cycles
    metrics, _ = derive_trial(record)
    assert metrics["accounting_misfit_share"] == pytest.approx(0.04)


def test_lcores_are_added_up() -> None:
    record = synthetic.trial(pps=1e6)
    record["result"]["dut"]["lcores"].append(synthetic.dut_lcore(useful_share=0.2, packets=100_000))
    metrics, _ = derive_trial(record)
    assert metrics["useful_share"] == pytest.approx(0.4)
    assert metrics["rx_pps"] == pytest.approx(1.2e6)
    assert metrics["poll_rate_hz"] == pytest.approx(4e7)
    assert metrics["iteration_rate_hz"] == pytest.approx(2e7), "a rate of turns is a mean over lcores"


def test_pmu_counts_when_there_is_a_pmu() -> None:
    record = synthetic.trial(pps=1e6)
    window = {
        "instructions": 3_000_000_000,
        "cycles": 1_500_000_000,
        "l1d_loads": 1000,
        "l1d_misses": 10,
        "l2_misses": 10_000_000,
        "llc_loads": 5,
        "llc_misses": {"absent": "the event does not exist on this processor"},
    }
    record["result"]["dut"]["lcores"][0]["pmu"] = {"window": window, "multiplexed_share": 0.0}
    metrics, absences = derive_trial(record)
    assert metrics["ipc"] == 2
    assert metrics["l1d_miss_share"] == 0.01
    assert metrics["llc_loads_per_s"] == 10
    assert metrics["l2_misses_per_poll"] == 1
    assert absences["llc_load_misses_per_s"] == "the event does not exist on this processor"
    assert "pmu.useful" in absences["ipc_useful"]


@pytest.mark.parametrize(
    ("path", "value", "absent", "reason"),
    [
        ("result.dut.lcores.0.timed_intervals", {"absent": "mode count"}, "tax_share", "mode count"),
        ("result.dut.lcores.0.timed", {"absent": "nothing timed"}, "receive_share", "nothing timed"),
        ("result.dut.lcores.0.transitions", None, "tax_share", "not in the record: result.dut.lcores[0].transitions"),
        ("result.dut.lcores.0.polls.refill_failed", {"absent": "driver"}, "refill_failed_fraction", "driver"),
        ("result.dut.lcores.0.interruptions", None, "tax_share_running", "not in the record"),
        ("config.gen.rx_port", None, "loss_share", "does not receive"),
        ("config.dut.workload", "drop", "loss_share", "drops every packet"),
        ("config.dut.workload", "ipsec", "loss_share", "drops some packets"),
        ("config.dut.workload", "ipsec", "worst_flow_loss_share", "drops some packets"),
        ("start.rate", {"saturate": True}, "rate_error", "no rate in packets per second"),
        ("result.gen", None, "offered_pps", "no generator"),
        ("result.dut", None, "poll_rate_hz", "no DUT lcore"),
        ("result.dut.lcores.0.cycles.total", 0, "tax_share", "window has no cycles"),
        ("result.dut.lcores.0.rx_packets", 0, "cycles_per_packet_all", "received no packet"),
        (
            "result.gen.lcores.0.latency_ns",
            None,
            "latency_p99_ns",
            "not in the record: result.gen.lcores[0].latency_ns",
        ),
        ("result.gen.lcores.0.latency_ns.from_sent", synthetic.histogram([], "ns"), "latency_sent_p50_ns", "no sample"),
        (
            "result.gen.lcores.0.latency_ns.from_sent",
            synthetic.histogram([5] * 99, "ns"),
            "latency_sent_p99_ns",
            "too few",
        ),
        ("result.dut.lcores.0.idle_iterations", 10**9, "idle_iteration_share", "lies between 0 and 1"),
        ("calibration", None, "sweep_cycles", "not in the record: calibration"),
        ("calibration", {"absent": "no DUT"}, "sweep_cycles", "no DUT"),
    ],
)
def test_unmeasured_values_are_absent_with_their_reason(path: str, value: object, absent: str, reason: str) -> None:
    metrics, absences = derive_trial(_changed(synthetic.trial(), path, value))
    assert absent not in metrics
    assert reason in absences[absent]


def test_the_tail_is_the_99th_percentile_above_the_mean() -> None:
    latencies = synthetic.histogram([*[1000] * 90, *[2000] * 10], "ns")
    record = _changed(synthetic.trial(), "result.gen.lcores.0.latency_ns.from_intended", latencies)
    metrics = derive_trial(record)[0]
    assert metrics["latency_tail_ns"] == pytest.approx(2000 - 1100, abs=1)
    assert metrics["latency_sent_tail_ns"] == metrics["latency_sent_p99_ns"] - metrics["latency_sent_mean_ns"]


def test_order_within_flows() -> None:
    """Of 10000 packets received 10 are second copies; 4 are late, by 1, 2, 3 and 7 positions."""
    record = synthetic.trial()
    lcore = record["result"]["gen"]["lcores"][0]
    lcore["total"] = {"sent": 10_002, "rx_packets": 10_000}
    lcore["sequence"] = synthetic.sequence([1, 2, 3, 7], duplicated=10)
    lcore["sequence"] |= {"reordered_in_total": 5, "displaced": [[-2, 3], [1, 1], [2, 1], [3, 1], [7, 1]]}
    lcore["sequence"]["flows"] |= {"lossy": 2, "worst_loss": {"flow": 3, "sent": 40, "lost": 10}}
    metrics, _ = derive_trial(record)
    expected = {
        "duplicated_share": 10 / 10_000,
        "loss_share": 12 / 10_002,  # a second copy does not compensate a loss
        "reordered_share": 4 / 9990,
        "reordered_by_3_share": 2 / 9990,
        "reordered_total_share": 5 / 9990,
        "displaced_share": 7 / 9990,
        "displacement_mean": (1 + 2 + 3 + 7 + 3 * 2) / 7,
        "reordering_extent_mean": 13 / 4,
        "reordering_extent_max": 7,
        "reordering_distance_mean": 13 / 4,
        "reordering_distance_max": 7,
        "lossy_flows_share": 2 / 8,
        "worst_flow_loss_share": 0.25,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("far", [-256, 256])
def test_a_mean_of_clipped_displacements_is_absent(far: int) -> None:
    record = synthetic.trial()
    record["result"]["gen"]["lcores"][0]["sequence"]["displaced"] = [[far, 1], [1, 300]]
    metrics, absences = derive_trial(record)
    assert metrics["displaced_share"] > 0
    assert "1 packets are displaced by 256 places or more" in absences["displacement_mean"]


def test_order_that_was_kept_has_no_extent() -> None:
    metrics, absences = derive_trial(synthetic.trial())
    assert metrics["reordered_share"] == metrics["reordered_by_3_share"] == metrics["worst_flow_loss_share"] == 0
    assert "no packet was reordered" in absences["reordering_extent_mean"]


def test_extents_beyond_the_window_are_not_guessed() -> None:
    record = synthetic.trial()
    sequence = synthetic.sequence([5, 6])
    sequence |= {name: {**sequence[name], "refused": 1} for name in ("extent", "distance", "degree")}
    record["result"]["gen"]["lcores"][0]["sequence"] = sequence
    metrics, absences = derive_trial(record)
    assert "1 values lie above" in absences["reordering_extent_max"]
    assert "too late" in absences["displaced_share"]
    assert metrics["reordered_by_3_share"] > 0


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (
            "result.dut.lcores.0.polls.empty",
            "many",
            "trial t0: result.dut.lcores[0].polls.empty: is 'many', not a number",
        ),
        ("result.dut.lcores.0.polls.empty", -1, "allowed is 0 to 2^63-1"),
        ("result.dut.lcores", 7, "result.dut.lcores: is 7, not a list"),
        ("result.dut.lcores.0.timed_intervals.blocks", [[1, 2]], "is not a list of blocks with 29 numbers each"),
        (
            "result.dut.lcores.0.timed_intervals.quiet",
            [],
            "timed_intervals.quiet: is not a list of blocks with 7 numbers each",
        ),
        ("result.dut.lcores.0.timed_intervals.blocks.0.3", "x", "timed_intervals.blocks[0][3]: is 'x', not a number"),
        ("result.window.end_tsc", 3, "end_tsc is not after start_tsc"),
        ("result.window.tsc_hz", 0, "allowed is more than 0"),
        ("config.dut.rx_port", "net_other", "not among the configured ports"),
        ("result.gen.lcores.0.lateness_ns.total", 7, "total says 7"),
        ("result.gen.lcores.0.lateness_ns.counts", [[10**9, 1]], "allowed is"),
        ("result.dut", [], "not an object"),
    ],
)
def test_a_contradiction_is_one_line_with_its_place(path: str, value: object, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        derive_trial(_changed(synthetic.trial(), path, value))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stamp_below_the_noise_of_a_host_costs_no_trial() -> None:
    """On a busy host the difference of two calibrated loops was -4.256 cycles, which failed every trial."""
    metrics, absences = derive_trial(_changed(synthetic.trial(), "calibration.stamp_cycles", {"median": -4.256}))
    assert absences["stamp_cycles"].startswith("calibrated as -4.26 cycles, less than this host's noise")
    assert metrics["tax_share"] == derive_trial(synthetic.trial())[0]["tax_share"]
    with pytest.raises(UsageError, match="not a number"):
        derive_trial(_changed(synthetic.trial(), "calibration.stamp_cycles", {"median": "few"}))


def test_a_failed_trial_has_no_metric() -> None:
    record = synthetic.trial() | {"status": "failed", "reason": "the node hung"}
    metrics, absences = derive_trial(record)
    assert metrics == {}
    assert set(absences) == set(metric_dictionary().metrics)
    assert absences["tax_share"] == "the trial failed: the node hung"


def _changed(record: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    result = copy.deepcopy(record)
    target: Any = result
    *parents, last = path.split(".")
    for key in parents:
        target = target[int(key)] if isinstance(target, list) else target[key]
    target[int(last) if isinstance(target, list) else last] = value
    return result


def _places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:4]):
            yield from _places(inner, (*path, index))


HEALTHY = synthetic.trial(queues=2)
HEALTHY_METRICS, _ = derive_trial(HEALTHY)
PLACES = sorted(_places(HEALTHY), key=str)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(st.sampled_from(["absent", "x"]), st.text(max_size=5), max_size=2),
)


def _mutated(record: dict[str, Any], place: tuple[str | int, ...], junk: object, *, remove: bool) -> dict[str, Any]:
    result = copy.deepcopy(record)
    target: Any = result
    for key in place[:-1]:
        target = target[key]
    if remove:
        del target[place[-1]]
    else:
        target[place[-1]] = junk
    return result


@given(place=st.sampled_from(PLACES), junk=JUNK, remove=st.booleans())
def test_a_mutated_record_is_absence_or_one_line_never_a_crash(
    place: tuple[str | int, ...], junk: object, remove: bool
) -> None:
    record = _mutated(HEALTHY, place, junk, remove=remove)
    try:
        metrics, absences = derive_trial(record)
    except UsageError as error:
        message = str(error)
        metrics, absences = {}, dict.fromkeys(metric_dictionary().metrics, message)
    assert set(metrics) | set(absences) == set(metric_dictionary().metrics)
    assert not set(metrics) & set(absences)
    assert all(math.isfinite(value) for value in metrics.values())
    assert all(absences.values()), "an absence has a reason"
    assert not any("\n" in reason for reason in absences.values())


@given(place=st.sampled_from([place for place in PLACES if place[0] in ("result", "calibration", "host")]))
def test_a_removed_value_removes_metrics_and_changes_none(place: tuple[str | int, ...]) -> None:
    if isinstance(place[-1], int):
        return  # an element less is another measurement, not a missing value
    try:
        metrics, _ = derive_trial(_mutated(HEALTHY, place, None, remove=True))
    except UsageError:
        return
    assert metrics.items() <= HEALTHY_METRICS.items()


def test_table_has_one_row_per_trial_and_documented_columns(tmp_path: Path) -> None:
    trials = [
        synthetic.trial("t0", "p0", 0, {"queues": 1, "shape": "FB"}),
        synthetic.trial("t1", "p1", 0, {"queues": 2, "shape": "FB"}) | {"status": "failed", "reason": "hung"},
    ]
    run = synthetic.write_run(tmp_path / "run", trials)
    table = pd.read_parquet(write_table(run))
    assert list(table["trial"]) == ["t0", "t1"]
    assert list(table["row"]) == ["S-F5", "S-F5"]
    assert list(table["factor.queues"]) == [1, 2]
    assert list(table["factor.shape"]) == ["FB", "FB"]
    assert not table["modelled"].any()
    assert table["metric.tax_share"].notna().tolist() == [True, False]
    assert table["absent.tax_share"].tolist()[1] == "the trial failed: hung"
    assert pd.isna(table["absent.tax_share"].tolist()[0])
    assert set(metric_dictionary().metrics) == {name[7:] for name in table.columns if name.startswith("metric.")}


def test_the_last_attempt_of_a_trial_counts(tmp_path: Path) -> None:
    first = synthetic.trial("t0", useful_share=0.1) | {"status": "flagged"}
    second = synthetic.trial("t0", useful_share=0.9) | {"attempt": 2}
    table = current_table(read_run(synthetic.write_run(tmp_path / "run", [first, second])))
    assert table["metric.useful_share"].tolist() == [pytest.approx(0.9)]


def test_a_table_without_a_known_metric_is_derived_again(tmp_path: Path) -> None:
    """`report` ended with KeyError 'metric.reordered_total_share' on a run of the day before."""
    run = read_run(synthetic.write_run(tmp_path / "run", [synthetic.trial()]))
    path = write_table(run.path)
    table = pd.read_parquet(path)
    stamp = table.attrs
    lacking = table.drop(columns=["metric.reordered_share", "absent.reordered_share"])
    lacking.attrs = stamp
    lacking.to_parquet(path)
    assert "metric.reordered_share" in current_table(read_run(run.path)).columns
    assert "metric.reordered_share" in pd.read_parquet(path).columns


def test_table_is_derived_again_when_trials_are_newer(tmp_path: Path) -> None:
    run = synthetic.write_run(tmp_path / "run", [synthetic.trial(useful_share=0.1)])
    assert current_table(read_run(run))["metric.useful_share"].tolist() == [pytest.approx(0.1)]
    synthetic.write_run(run, [synthetic.trial(useful_share=0.9)])
    later = time.time() + 5
    os.utime(run / "trials.jsonl", (later, later))
    assert current_table(read_run(run))["metric.useful_share"].tolist() == [pytest.approx(0.9)]


def test_uncounted_metrics_are_absent_with_their_own_reasons() -> None:
    record = synthetic.trial()
    _, absences = derive_trial(record)
    for name, compute in COUNTED.items():
        with pytest.raises(NotMeasured) as absent:
            compute(TrialObservations(record))
        assert absences[name] == str(absent.value)
    modelled, _ = derive_trial(record | {"modelled": True, "result": record["result"] | {"power_w": 7.5}})
    assert modelled["package_power_w"] == 7.5


def test_a_table_is_read_once_for_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = read_run(synthetic.write_run(tmp_path / "run", [synthetic.trial()]))
    assert current_table(run) is current_table(run)
    monkeypatch.setattr("pollscope.store.results_table.RULES", -1)
    assert current_table(run).attrs["rules"] == -1


def test_an_unreadable_record_of_a_run_is_reported_with_its_place(tmp_path: Path) -> None:
    broken = synthetic.trial("t7")
    broken["result"]["window"]["tsc_hz"] = 0
    folder = synthetic.write_run(tmp_path / "run", [*(synthetic.trial(f"t{n}") for n in range(7)), broken])
    with pytest.raises(UsageError, match=re.escape(f"{folder / 'trials.jsonl'}: trial t7: result.window.tsc_hz: is 0")):
        derive_table(read_run(folder))


def test_trials_appended_after_a_run_was_read_are_derived_later(tmp_path: Path) -> None:
    folder = synthetic.write_run(tmp_path / "run", [synthetic.trial("t0")])
    read = read_run(folder)
    file = folder / "trials.jsonl"
    file.write_text(file.read_text() + json.dumps(synthetic.trial("t1")) + "\n")
    assert list(current_table(read)["trial"]) == ["t0"]
    assert list(current_table(read_run(folder))["trial"]) == ["t0", "t1"]


@pytest.mark.parametrize("bad", [-1, 2**63, math.nan, math.inf, "7", True, None, {"absent": "no"}])
def test_a_list_of_numbers_names_a_bad_entry(bad: object) -> None:
    assert Part([1, 2.5, 0], "place").numbers() == [1.0, 2.5, 0.0]
    with pytest.raises(UsageError) as error:
        Part([1, bad, 3], "place").numbers()
    assert error.value.where == "place[1]"


def test_an_absent_value_is_computed_once() -> None:
    trial, asked = TrialObservations(synthetic.trial()), []

    def compute(observations: TrialObservations) -> float:
        asked.append(observations)
        raise NotMeasured("not here")

    for _ in range(2):
        with pytest.raises(NotMeasured, match=r"^not here$"):
            trial.once(compute)
    assert asked == [trial]


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("run.json", None, "is not a run folder"),
        ("run.json", "{", "is not JSON"),
        ("run.json", "[]", "not written by pollscope"),
        ("run.json", json.dumps(synthetic.run_meta(format=99)), "has format 99"),
        ("run.json", '{"format": 1}', "has no 'run_id'"),
        (
            "run.json",
            json.dumps(synthetic.run_meta(units={"rx_pps": "Mpps", "gone": "m"})),
            "run.json: units.rx_pps: is 'Mpps'; in the metric dictionary of this pollscope it is 'packet/s' (read it",
        ),
        ("trials.jsonl", '{"trial": \n{}\n', "line 1: is not JSON"),
        ("trials.jsonl", "{}\n", "line 1: trial: Field required"),
        ("trials.jsonl", "\x00\xff\n", "line 1: is not JSON"),
    ],
)
def test_a_foreign_or_broken_folder_is_one_line(tmp_path: Path, file: str, content: str | None, complaint: str) -> None:
    run = synthetic.write_run(tmp_path / "run", [synthetic.trial()])
    (run / file).unlink() if content is None else (run / file).write_text(content, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        current_table(read_run(run))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "unit", "complaint"),
    [
        ("iteration_cycles", "ns", "iteration_cycles has the unit 'ns', allowed is cycles"),
        ("poll_gap_cycles", "us", "a histogram has the unit 'us', allowed are ns and cycles"),
    ],
)
def test_a_histogram_of_another_unit_is_refused(tmp_path: Path, name: str, unit: str, complaint: str) -> None:
    trial = synthetic.trial()
    (lcore,) = trial["result"]["dut"]["lcores"]
    lcore["histograms"] |= {name: lcore["histograms"][name] | {"unit": unit}}
    run = synthetic.write_run(tmp_path / "run", [trial])
    with pytest.raises(UsageError) as caught:
        current_table(read_run(run))
    assert complaint in str(caught.value)


def two_cores(*rx_packets: int) -> dict[str, Any]:
    """Return a window in which each core received this number of packets."""
    record = synthetic.trial()
    (first,) = record["result"]["dut"]["lcores"]
    cores = [{**first, "lcore": 2 + place, "rx_packets": packets} for place, packets in enumerate(rx_packets)]
    record["result"]["dut"]["lcores"] = cores
    return record


@pytest.mark.parametrize(
    ("rx_packets", "imbalance"),
    [((100, 100), 0), ((150, 50), 0.5), ((200, 0), 1), ((0, 0, 0, 80), 1), ((30, 20, 10), 0.25)],
)
def test_imbalance_is_of_the_busiest_core(rx_packets: tuple[int, ...], imbalance: float) -> None:
    metrics, _ = derive_trial(two_cores(*rx_packets))
    assert metrics["core_imbalance"] == pytest.approx(imbalance)


def test_imbalance_needs_cores_and_packets() -> None:
    _, absences = derive_trial(synthetic.trial())
    assert absences["core_imbalance"] == "a single core has no other core to compare with"
    _, absences = derive_trial(two_cores(0, 0))
    assert absences["core_imbalance"] == "the cores received no packet in the window"


def test_moved_entries_and_posted_buffers() -> None:
    record = synthetic.trial()
    assert {"reta_moves_per_s", "posted_bytes"} <= set(derive_trial(record)[1])
    record["result"]["dut"]["rebalancing"] = {"moved": 12}
    record["result"]["ports"][record["config"]["dut"]["rx_port"]]["posted_bytes"] = 4096
    metrics, _ = derive_trial(record)
    assert metrics["reta_moves_per_s"] == pytest.approx(12 / TrialObservations(record).window_s)
    assert metrics["posted_bytes"] == 4096
