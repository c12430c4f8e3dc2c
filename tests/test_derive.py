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
from ruamel.yaml import YAML

from pollscope.base.errors import UsageError
from pollscope.metrics.counted import COUNTED
from pollscope.metrics.derive import derive_trial
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.record import NotMeasured, Part, TrialObservations
from pollscope.spec.expressions import parse
from pollscope.store.results_table import current_table, derive_table, write_table
from pollscope.store.run_folder import read_run
from pollscope.testbeds.collecting import key_of, node_counts

CASES: dict[str, dict[str, Any]] = YAML(typ="safe").load(Path(__file__).with_name("derived.yaml"))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_metrics_follow_from_a_record(case: dict[str, Any]) -> None:
    record = synthetic.trial(**case.get("trial", {}))
    below = {f"result.dut.lcores.0.{place}": value for place, value in case.get("lcore", {}).items()}
    for place, value in (below | case.get("set", {})).items():
        record = _changed(record, place, ... if value is None else value)
    lcores = record["result"]["dut"]["lcores"]
    lcores[:] = [lcores[0] | core for core in case.get("cores", [{}])]
    record["collectors"] = {name: _delivered(means) for name, means in case.get("collectors", {}).items()}
    metrics, absences = derive_trial(record)
    expected = {name: parse(str(value))(metrics) for name, value in case.get("metrics", {}).items()}
    found = {name: metrics.get(name) for name in expected}
    assert found == pytest.approx(expected, rel=1e-6, abs=case.get("within", 1e-9))
    for name, reason in case.get("absent", {}).items():
        exact = reason.startswith("=")
        assert absences[name] == reason[1:] if exact else reason in absences[name]


def _delivered(means: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a collector."""
    if "status" in means:
        return means
    pairs = {name: mean if isinstance(mean, list) else [mean, 1] for name, mean in means.items() if mean is not None}
    forms = {name: {"value": value, "unit": "1/s", "units": units} for name, (value, units) in pairs.items()}
    return {"status": "ok", "reason": "", "cpu_share": 0.01, "means": forms}


def test_lcores_are_added_up() -> None:
    record = synthetic.trial(pps=1e6)
    record["result"]["dut"]["lcores"].append(synthetic.dut_lcore(useful_share=0.2, packets=100_000))
    metrics, _ = derive_trial(record)
    assert metrics["useful_share"] == pytest.approx(0.4)
    assert metrics["rx_pps"] == pytest.approx(1.2e6)
    assert metrics["poll_rate_hz"] == pytest.approx(4e7)
    assert metrics["iteration_rate_hz"] == pytest.approx(2e7), "a rate of turns is a mean over lcores"


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
        ("calibration.stamp_cycles", {"median": "few"}, "not a number"),
    ],
)
def test_a_contradiction_is_one_line_with_its_place(path: str, value: object, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        derive_trial(_changed(synthetic.trial(), path, value))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_failed_trial_has_no_metric() -> None:
    record = synthetic.trial() | {"status": "failed", "reason": "the node hung"}
    metrics, absences = derive_trial(record)
    assert metrics == {}
    assert set(absences) == set(metric_dictionary().metrics)
    assert absences["tax_share"] == "the trial failed: the node hung"
    # The node records only a sample of sweeps and gaps between polls, which rarely contains the longest one.
    assert not {"iteration_cycles_max", "poll_gap_max_ns"} & set(absences)


def _changed(record: dict[str, Any], place: str | tuple[str | int, ...], value: object) -> dict[str, Any]:
    """Return a copy of a record with another value at a place, or with none (`...`)."""
    result = copy.deepcopy(record)
    target: Any = result
    *parents, last = place.split(".") if isinstance(place, str) else place
    for key in parents:
        target = target[int(key) if isinstance(target, list) else key]
    last = int(last) if isinstance(target, list) else last
    if value is ...:
        del target[last]
    else:
        target[last] = value
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


@given(place=st.sampled_from(PLACES), junk=JUNK | st.just(...))
def test_a_mutated_record_is_absence_or_one_line_never_a_crash(place: tuple[str | int, ...], junk: object) -> None:
    try:
        metrics, absences = derive_trial(_changed(HEALTHY, place, junk))
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
        metrics, _ = derive_trial(_changed(HEALTHY, place, ...))
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
    assert set(COUNTED) == {name for name, metric in metric_dictionary().metrics.items() if metric.group == "counted"}


def test_the_nodes_counts_are_matched_by_cpu_and_window() -> None:
    assert key_of("generator", "pcm-memory") == "generator/pcm-memory"  # as in derived.yaml
    result = synthetic.trial()["result"]
    assert list(node_counts(result)) == []  # its PMU is absent
    lcore = result["dut"]["lcores"][0]
    lcore["pmu"] = {"window": {"instructions": 3e9, "cycles": 2e9}}
    (counts,) = node_counts(result)
    assert (counts.cpu, counts.instructions, counts.cycles) == (lcore["cpu"], 3e9, 2e9)
    window = result["window"]
    assert counts.window_s == (window["end_tsc"] - window["start_tsc"]) / window["tsc_hz"]
    lcore["pmu"] = {"window": {"instructions": "many", "cycles": 2e9}}
    assert list(node_counts(result)) == []


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
