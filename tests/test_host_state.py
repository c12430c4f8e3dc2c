# SPDX-License-Identifier: BSD-3-Clause
"""Judge synthetic host-state checks whose truth is known."""

import math
import random
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from synthetic_run import host_check, trial, write_run

from pollscope.analysis.claims import evaluate_run
from pollscope.analysis.claims.evaluate import _finding
from pollscope.analysis.claims.model import Claim
from pollscope.analysis.claims.verdict import VerdictKind
from pollscope.analysis.compare import compare_levels, compare_runs, comparison_text
from pollscope.analysis.host_state import footing, host_state_table, of_samples
from pollscope.analysis.point_values import PointValues, measured
from pollscope.analysis.quality import cautions, drift
from pollscope.analysis.report import report_html
from pollscope.base.errors import UsageError
from pollscope.metrics.host_state import BETWEEN, Measured, judge_host_state, standing, trial_labels
from pollscope.spec.predicates import Ratio, Within
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import read_run
from pollscope.testbeds import host_state_watch
from pollscope.testbeds.host_state_watch import HostStateWatch


def labels(lines: Sequence[float], **more: Any) -> str:
    """Return the host states of checks that differ in their cache line alone."""
    judged = judge_host_state([host_check(i, line=line, **more) for i, line in enumerate(lines)])
    return "".join(judged.labels[i] for i in range(len(lines)))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([300] * 6, "AAAAAA"),
        ([300], "A"),
        ([], ""),
        ([310, 1400], "AB"),
        ([310, 305, 1400, 1390, 300, 315], "AABBAA"),
        ([310, 1400, 305, 1390], "AAAB"),  # the first of the two was
        ([310, 1400, 305, 300], "AAAA"),  # one host-state check alone saw it: a moment
        ([310, 300, 305, 1400], "AAAB"),  # the last one: nothing shows yet that it was an outlier
        ([310, 320, 800, 810, 1400, 1380], "AABBCC"),
        ([300, 330, 290, 345, 310, 325], "AAAAAA"),  # below 20 %
    ],
)
def test_levels_of_a_line(lines: Sequence[float], expected: str) -> None:
    assert labels(lines) == expected


def test_a_trial_is_judged_by_the_cpus_that_it_uses() -> None:
    """The memory stream of CPU 1 changes half-way; a trial on CPU 0 alone does not notice."""
    checks = [host_check(i, line=300) for i in range(8)]
    for check in checks[4:]:
        stream = check["hosts"][0]["cores"][1]["stream"]
        stream["cycles"] = [2 * cycles for cycles in stream["cycles"]]
    judged = judge_host_state(checks)
    assert judged.host_states == ["A", "B"]
    for cpus, expected in ((("0",), "AAAAAAAA"), (("0", "1"), "AAAABBBB"), ((), "AAAABBBB")):
        trials = [{"host_state": i, "host": {"interrupts": dict.fromkeys(cpus, 0)}} for i in range(8)]
        found = "".join(label[0] for label in trial_labels(judged, checks, map(Measured.of, trials)))
        assert found.replace("b", "A" if expected[4] == "A" else "B") in (expected, "AAABBBBB")


@pytest.mark.parametrize(("cpus", "host_states"), [(2, ["A", "B"]), (16, ["A"])])
def test_the_more_quantities_are_judged_the_larger_is_a_change(cpus: int, host_states: list[str]) -> None:
    """Two groups of four checks lie 5.8 spreads apart: a change for 7 quantities, chance for one of 63."""
    checks = []
    for number in range(8):
        check = host_check(number, line=300)
        core, line = check["hosts"][0]["cores"][0], check["hosts"][0]["lines"][0]
        cores = [{**core, "cpu": cpu} for cpu in range(cpus)]
        factor = math.exp((number >= 4) * 0.363 + 0.0505 * (-1) ** number)
        cores[0]["chain"] = {**core["chain"], "cycles": [round(each * factor) for each in core["chain"]["cycles"]]}
        lines = [{**line, "cpus": [cpu, cpu + 1]} for cpu in range(cpus - 1)]
        check["hosts"][0] |= {"cores": cores, "lines": lines}
        checks.append(check)
    assert judge_host_state(checks).host_states == host_states


def test_drift_is_cut_where_it_shows() -> None:
    drifting = [300 * 1.04**i for i in range(16)]
    found = labels(drifting)
    assert set(found) == {"A", "B"}
    assert found == "A" * found.count("A") + "B" * found.count("B")
    assert 4 <= found.count("A") <= 12
    assert set(labels([300 * 1.005**i for i in range(16)])) == {"A"}, "8 % over the run are below the smallest change"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("host_checks", "noise", "most"), [((3, 5), 0.05, 0.01), ((5, 24), 0.08, 0.02), ((8, 24), 0.3, 0.05)]
)
def test_noise_alone_is_one_host_state(host_checks: tuple[int, int], noise: float, most: float) -> None:
    """Check how many runs get two host states where one quantity varies at random and nothing changes."""
    chance, wrong = random.Random(1), 0
    for _ in range(200):
        lines = [300 * chance.lognormvariate(0, noise) for _ in range(chance.randint(*host_checks))]
        wrong += len(set(labels(lines))) > 1
    assert wrong <= most * 200


def test_two_modes_in_noise_are_found() -> None:
    """In steps like those of a line between cores that was seen to go from 215 to 825 cycles, with more noise."""
    chance, right = random.Random(2), 0
    for _ in range(100):
        modes = [300 if i < 6 else 850 for i in range(12)]
        right += labels([mode * chance.lognormvariate(0, 0.08) for mode in modes]) == "A" * 6 + "B" * 6
    assert right >= 94


def test_a_host_check_as_wide_as_the_change_decides_nothing() -> None:
    assert labels([300, 300, 370, 370], spread=0.01) == "AABB"
    assert labels([300, 300, 370, 370], spread=0.4) == "AAAA"


def test_clock_and_memory_count_as_well() -> None:
    slower = [host_check(i, chain=2.1 if i < 3 else 2.8) for i in range(6)]
    assert list(judge_host_state(slower).labels.values()) == list("AAABBB")
    assert any(
        "dependent multiplication, CPU 0: 2.1 cycles in 3, 2.8 cycles in 3 of 6 host-state checks" in text
        for text in judge_host_state(slower).changes()
    )
    memory = [host_check(i, stream=20 if i < 3 else 12) for i in range(6)]
    assert list(judge_host_state(memory).labels.values()) == list("AAABBB")


def test_a_knobs_effect_is_no_other_host_state() -> None:
    slow: dict[str, Any] = {"knobs": {"governor": "powersave"}}
    fast: dict[str, Any] = {"knobs": {"governor": "performance"}}
    swept = [host_check(i, chain=3.0 if i % 2 else 2.1, **(slow if i % 2 else fast)) for i in range(8)]
    assert set(judge_host_state(swept).labels.values()) == {"A"}
    assert len(set(judge_host_state([{**each, "knobs": {}} for each in swept]).labels.values())) > 1


def test_a_quantity_absent_from_one_host_check_is_no_difference() -> None:
    whole, without = host_check(0), host_check(1)
    without["hosts"][0]["lines"] = [{"lcores": [1, 2], "cpus": [0, 1], "absent": "taken away"}]
    nothing = {"host_check": 2, "absent": "the node hung"}
    judged = judge_host_state([whole, without, nothing, host_check(3)])
    assert judged.labels == {0: "A", 1: "A", 2: "", 3: "A"}
    there = [host_check(i, line=300 if i < 2 else 900) for i in range(6)]
    there[4]["hosts"][0]["lines"] = without["hosts"][0]["lines"]
    assert "".join(judge_host_state(there).labels.values()) == "AABBBB", (
        "what agrees with both stands where the last one did"
    )


def test_hosts_and_pairs_are_distinguished() -> None:
    two = host_check(0)
    two["hosts"] = [
        {"role": "generator", "absent": "pktgen-dpdk runs no host-state checks"},
        {"role": "DUT", **two["hosts"][0]},
    ]
    assert judge_host_state([two]).quantities[0].where == "DUT CPU 0 - CPU 1"
    pairs = [host_check(0, line=300, pair="p"), host_check(1, line=900, pair="q"), host_check(2, line=305, pair="p")]
    assert set(judge_host_state(pairs).labels.values()) == {"A"}, "two pairs of machines are not one that changed"


def test_two_modes_within_a_host_check_are_counted() -> None:
    one = host_check(0)
    one["hosts"][0]["lines"][0]["cycles"] = [32 * 300 + i for i in range(16)] + [32 * 1400 + i for i in range(16)]
    assert next(each for each in judge_host_state([one]).quantities if each.kind == "line").two_modes == 1


def test_absence_has_a_reason() -> None:
    assert "no host-state checks" in judge_host_state([]).absent
    assert (
        judge_host_state([{"host_check": 0, "absent": "the node refused 'host_state'"}]).absent
        == "the node refused 'host_state'"
    )


@pytest.mark.parametrize("broken", [{"hosts": 3}, {"hosts": [{"lines": [], "cores": [{"cpu": "x"}]}]}])
def test_a_broken_host_check_is_named(broken: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"host_states\.jsonl"):
        judge_host_state([{"host_check": 0, **broken}])


def test_a_trial_has_the_host_state_of_both_checks_around_it() -> None:
    host_checks = [host_check(0), host_check(1), host_check(2, line=900), host_check(3, line=910)]
    trials = map(Measured, [0, 1, 2, 3, None])
    assert trial_labels(judge_host_state(host_checks), host_checks, trials) == ["A", BETWEEN, "B", "B", ""]


def test_points_with_too_few_trials_per_host_state_are_named() -> None:
    even = [(point, "A") for point in "pq" for _ in range(3)]
    assert standing(even, 3).short == {}
    mixed = [*even[:5], ("q", "B"), ("p", "B")]
    found = standing(mixed, 3)
    assert (found.main, found.short) == ("A", {"q": 1})
    assert standing([*mixed, ("q", "A")], 3).short == {}
    assert standing([("p", "A")], 3).short == {}, "a point that was seen once has no other host state"
    assert standing([("p", ""), ("q", "")], 1).main == ""
    assert standing([("p", BETWEEN), ("p", BETWEEN)], 2).short == {"p": 2}, "no trial stands anywhere"


def test_footing() -> None:
    assert footing([("a", ["A", "A"]), ("b", ["A"])]).text == ""
    apart = footing([("a", ["A", "A"]), ("b", ["B", "B"])])
    assert (apart.same, apart.text) == (False, "a: host state A in 2 trials; b: host state B in 2 trials")
    assert footing([("a", ["A", "B"]), ("b", ["A", "B"])]).same is True
    assert footing([("a", ["A"]), ("b", [""])]).same is None


@pytest.mark.parametrize(("first", "by_turns", "same"), [(9, True, True), (9, False, False), (22, True, False)])
def test_chance_distributes_host_states_over_points_that_are_measured_by_turns(
    first: int, by_turns: bool, same: bool
) -> None:
    """The other point has 14 of 24 trials in host state A."""
    sides = [("a", ["A"] * first + ["B"] * (24 - first)), ("b", ["A"] * 14 + ["B"] * 10)]
    assert footing(sides, by_turns=by_turns).same is same


@pytest.mark.parametrize(
    ("second", "blocks", "same"),
    [
        (["A"] * 5 + ["B"] * 7, "123456abcdef", True),
        (["A"] * 5 + ["B"] * 7, "12345ABCDEFG", False),
        ([BETWEEN] * 6 + ["A"] * 6, "123456abcdef", False),
    ],
    ids=["blocks in common", "other blocks", "between host states"],
)
def test_points_of_the_same_blocks_share_a_host_state_block_by_block(
    second: list[str], blocks: str, same: bool
) -> None:
    """The points of one task were measured in host state A, and those of another also in B."""
    place = [f"run {block}" for block in "123456abcdef"]
    found = [
        PointValues({"task": task, "queues": queues}, (1.0,) * 12, 0.0, tuple(labels), blocks=tuple(own))
        for task, labels in (("x", ["A"] * 12), ("y", second))
        for queues, own in ((1, place), (8, [f"run {block}" for block in blocks]))
    ]
    assert of_samples(found, {"queues"}).same is same
    assert of_samples(found).same is False


def run_of(folder: Path, lines: Sequence[float], repeats: int = 3, **meta: Any) -> Any:
    """Return blocks of two points, a host-state check before each and one at the end; the block number is the repeat.

    Point 8 has twice the useful share of point 1 on a line of 300 cycles and half of it on any other.
    """
    blocks = len(lines) - 1
    trials = [
        trial(f"measure:queues={queues}:{block}", f"queues={queues}", block, {"queues": queues}, queues=queues,
              useful_share=(0.2 if queues == 1 else 0.4 if lines[block] == 300 else 0.1) + 0.002 * (block % 3))
        | {"host_state": block, "started_utc": f"2026-01-01T00:{block:02d}:0{i}Z"}
        for block in range(blocks)
        for i, queues in enumerate((1, 8))
    ]  # fmt: skip
    host_checks = [host_check(i, line=line) for i, line in enumerate(lines)]
    spec = {"name": "synthetic", "repeats": {"count": repeats}}
    return read_run(write_run(folder, trials, host_checks, spec=spec, **meta))


def test_other_host_state_is_left_out_when_there_is_enough(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", [300, 300, 900, 900, 300, 300])
    table = current_table(run)
    assert list(table["host_state"]) == ["A", "A", *[BETWEEN] * 2, "B", "B", *[BETWEEN] * 2, "A", "A"]
    assert not table["other_host_state"].any(), "two blocks on A are fewer than the three that are asked for"
    enough = current_table(run_of(tmp_path / "e", [300, 300, 900, 900, 300, 300], repeats=2))
    assert list(measured(enough)["host_state"]) == ["A"] * 4


def test_trials_after_a_look_count_although_the_host_has_changed(tmp_path: Path) -> None:
    """One claim is decided on A after twelve trials; the other one's point is then measured 24 times on B."""
    made = [("p", 0, repeat) for repeat in range(12)]
    made += [("q", 0, repeat) for repeat in range(12)] + [("q", 2, repeat) for repeat in range(12, 36)]
    trials = [trial(f"{point}:{repeat}", point, repeat) | {"host_state": check} for point, check, repeat in made]
    checks = [host_check(number, line=line) for number, line in enumerate((300, 300, 900, 900))]
    for repeats, left_out in (({"count": 12}, 24), ({"count": 12, "until": "verdicts", "at_most": 6e11}, 0)):
        folder = tmp_path / str(left_out)
        write_run(folder, trials, checks, spec={"name": "synthetic", "repeats": repeats})
        assert current_table(read_run(folder))["other_host_state"].sum() == left_out


def test_a_comparison_across_host_states_is_flagged(tmp_path: Path) -> None:
    on_a = run_of(tmp_path / "a", [300] * 4)
    on_b = run_of(tmp_path / "b", [900] * 4)
    same = compare_runs(on_a, run_of(tmp_path / "c", [310] * 4), ["useful_share"])
    assert all(each.footing.same for each in same)
    assert "different host states" not in comparison_text(same)
    apart = compare_runs(on_a, on_b, ["useful_share"])
    assert all(each.footing.same is False for each in apart)
    text = comparison_text(apart)
    assert "2 of 2 compare trials in different host states (marked !)" in text
    assert "run A: host state A in 3 trials; run B: host state B in 3 trials" in text


def test_levels_on_uneven_host_state_are_flagged(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", [300, 300, 300, 900])
    uneven = [{**record, "host_state": 0 if record["factors"]["queues"] == 1 else 3} for record in run.trials]
    apart = read_run(write_run(tmp_path / "u", uneven, run.host_checks, spec=run.meta["spec"]))
    (difference,) = compare_levels(apart, "queues", ["useful_share"])
    assert difference.footing.same is False
    assert compare_levels(run, "queues", ["useful_share"])[0].footing.same is True


def claim(predicate: Any) -> Claim:
    return Claim(
        id="S-F5.t", row="S-F5", paper=None, statement="s", source="s", metric="useful_share", predicate=predicate
    )


def test_a_claim_across_host_states_is_not_decided(tmp_path: Path) -> None:
    good = run_of(tmp_path / "r", [300] * 4)
    doubles = claim(Ratio(kind="ratio", factor="queues", first=1, last=8, low=1.5))
    agreed = _finding(doubles, good, current_table(good))
    assert agreed.kind is VerdictKind.AGREES
    assert "host_state" not in agreed.sentence
    run = run_of(tmp_path / "x", [300] * 4 + [900] * 4, repeats=9)
    uneven = [record for record in run.trials if (record["factors"]["queues"] == 8) == (record["repeat"] < 3)]
    apart = read_run(write_run(tmp_path / "u", uneven, run.host_checks, spec=run.meta["spec"]))
    found = _finding(doubles, apart, current_table(apart))
    assert found.kind is VerdictKind.INCONCLUSIVE
    mix = "host state A in 3 trials, host state B in 3, between host states in 1"
    assert f"were measured in different host states ({mix}), which alone can cause" in found.sentence
    within = _finding(claim(Within(kind="within", low=0.0, high=1.0)), apart, current_table(apart))
    assert within.kind is VerdictKind.AGREES
    assert "were measured in different host states" in within.sentence
    pooled = run_of(tmp_path / "p", [300, 300, 900, 900, 900], repeats=9)
    assert "pooled over several host states" in _finding(doubles, pooled, current_table(pooled)).sentence


@pytest.mark.thorough
def test_the_report_shows_the_host_state_and_cautions_once(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", [300, 300, 900, 900, 300, 300], repeats=2)
    found = [caution for caution in cautions(run, current_table(run)) if caution.topic == "host_state"]
    (caution,) = found
    assert (
        "round trip of a cache line, CPU 0 - CPU 1: 300 cycles in 4, 900 cycles in 2 of 6 host-state checks"
        in caution.text
    )
    assert "from host state A to between host states at measure:queues=1:1" in caution.text
    assert "the 6 other trials are left out" in caution.text
    html = report_html([run])
    assert html.count("The host state changed during the run") == 1
    assert "<polyline" in html
    assert "it changed" in html
    steady = run_of(tmp_path / "s", [300] * 4)
    assert not [caution for caution in cautions(steady, current_table(steady)) if caution.topic == "host_state"]
    assert "it did not change" in report_html([steady])


def test_pooling_is_reported(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", [300, 300, 900, 900])
    (caution,) = [caution for caution in cautions(run, current_table(run)) if caution.topic == "host_state"]
    assert "all trials are pooled" in caution.text


def test_a_change_of_host_state_is_no_drift(tmp_path: Path) -> None:
    """Report a step at a change of the host state as that; without checks it is a drift."""
    run = run_of(tmp_path / "r", [300] * 12 + [900] * 12, repeats=40)
    assert drift(run, current_table(run), "useful_share") is None
    old = [{key: value for key, value in record.items() if key != "host_state"} for record in run.trials]
    falling = [record for record in old if record["factors"]["queues"] == 8]
    without = read_run(write_run(tmp_path / "o", falling))
    assert drift(without, current_table(without), "useful_share") is not None


@pytest.mark.thorough
def test_a_run_without_checks_says_so(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", [trial(f"t{repeat}", repeat=repeat) for repeat in range(3)]))
    table = current_table(run)
    assert run.host_checks == []
    assert set(table["host_state"]) == {""}
    assert not table["other_host_state"].any()
    assert "no host-state checks" in host_state_table(run).absent
    assert "absent, because the run has no host-state checks" in report_html([run])
    assert not [caution for caution in cautions(run, table) if caution.topic == "host_state"]
    assert all("host_state" not in verdict.finding.sentence for verdict in evaluate_run(run))
    text = comparison_text(compare_runs(run, run, ["rx_pps"]))
    assert f"not known: run {run.run_id}: the run has no host-state checks" in text


@pytest.mark.thorough
def test_a_long_run_is_judged_in_bounded_memory() -> None:
    checks = [host_check(i, line=300 * 1.0005**i) for i in range(3000)]
    judge_host_state(checks[:2])
    tracemalloc.start()
    labels_found = list(judge_host_state(checks).labels.values())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(labels_found) == {"A", "B"}
    assert labels_found == sorted(labels_found)
    assert peak < 64 << 20


def test_a_check_late_in_a_run_judges_no_more_than_an_early_one(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = list[int]()

    def counted(checks: Sequence[Any]) -> Any:
        judged.append(len(checks))
        return judge_host_state(checks)

    monkeypatch.setattr(host_state_watch, "judge_host_state", counted)
    before = [host_check(i) for i in range(500)]
    watch = HostStateWatch(
        lambda _point: {"hosts": host_check(0)["hosts"]}, lambda each: {"host_check": 500, **each}, None, before
    )
    trial_to_come: Any = SimpleNamespace(point=None, kind="measurement", repeat=1, block=None)
    assert watch.before(trial_to_come, {}) == 500
    assert max(judged) <= 64
