# SPDX-License-Identifier: BSD-3-Clause
"""Test `pollscope compare --fail-if`: the meaning of a condition, when it holds, and how the command ends."""

import math
import re
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import synthetic_run as synthetic
from command_line import Done, pollscope
from hypothesis import given
from hypothesis import strategies as st
from run_helpers import FAKE_NODE, Cli

from pollscope.analysis.compare import _difference
from pollscope.analysis.gate import Condition, condition, judge
from pollscope.analysis.point_values import PointValues
from pollscope.base.errors import UsageError
from pollscope.stats.estimates import Estimate


def compared(*words: str | Path, cwd: Path) -> Done:
    """Compare with a figure of one kind, which is the least to draw."""
    return pollscope("compare", *words, "--out", "x.svg", cwd=cwd)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("rx_pps < -2 %", Condition("rx_pps", True, -2)),
        ("rx_pps<-2%", Condition("rx_pps", True, -2)),
        ("  latency_p99_ns > +10.5 % ", Condition("latency_p99_ns", False, 10.5)),
        ("loss_share > .5%", Condition("loss_share", False, 0.5)),
        ("rx_pps < 0 %", Condition("rx_pps", True, 0)),
    ],
)
def test_conditions_are_parsed(text: str, meant: Condition) -> None:
    assert condition(text) == meant


@pytest.mark.parametrize(
    "text",
    ["", "rx_pps", "rx_pps < -2", "rx_pps <= -2 %", "rx_pps < two %", "rx_pps < nan %", "< -2 %", "rx_pps < 1e3 %"],
)
def test_an_invalid_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a condition \(METRIC < NUMBER %"):
        condition(text)


def test_no_metric_and_no_possible_fall_are_refused() -> None:
    with pytest.raises(UsageError, match="no metric is called 'rx_pqs'"):
        condition("rx_pqs < -2 %")
    with pytest.raises(UsageError, match="nothing falls by 100 %"):
        condition("rx_pps < -100 %")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("rx_pps<-2.50%", "rx_pps < -2.5 %"),
        ("rx_pps>.00000001%", "rx_pps > +0.00000001 %"),
        ("rx_pps>1234567.89%", "rx_pps > +1234567.89 %"),
        ("rx_pps<-0%", "rx_pps < +0 %"),
    ],
)
def test_a_condition_is_printed_as_it_can_be_given_again(text: str, printed: str) -> None:
    assert str(condition(text)) == printed


NEARLY = st.from_regex(r"rx_pps ?[<>] ?[+-]?([0-9]+\.?[0-9]*|\.[0-9]+) ?%", fullmatch=True)


@given(NEARLY | st.text(alphabet="rx_pps<>=+-.0123456789 %e", max_size=20))
def test_any_text_is_a_condition_or_refused_in_one_line(text: str) -> None:
    found, refused = None, ""
    try:
        found = condition(text)
    except UsageError as error:
        refused = str(error)
    assert "\n" not in refused
    assert found is None or condition(str(found)) == found


def test_the_whole_interval_decides() -> None:
    fall, rise = condition("rx_pps < -2 %"), condition("rx_pps > 2 %")
    surely, perhaps = Estimate(0.95, 0.94, 0.96, 5, ""), Estimate(0.95, 0.91, 0.99, 5, "")
    assert (fall.holds(surely), fall.holds(perhaps), rise.holds(surely)) == (True, False, False)
    assert rise.holds(Estimate(1.05, 1.03, 1.07, 5, ""))


def test_of_many_points_at_the_bound_hardly_any_comparison_fails() -> None:
    """Forty points that fell by just the bound: single intervals would fail most comparisons, together few do."""
    rng, failed = np.random.default_rng(3), 0
    for _ in range(40):
        sides = [(tuple(rng.normal(1e6, 1e4, 5)), tuple(rng.normal(0.98e6, 1e4, 5))) for _ in range(40)]
        found = [
            _difference("rx_pps", f"{at}", ("A", "B"), *(PointValues({}, each) for each in both))
            for at, both in enumerate(sides)
        ]
        failed += bool(judge([condition("rx_pps < -2 %")], found)[0].holds)
    # One-sided, 2.5 % of 40 fail on average; more than 6 do with probability 1e-4.
    assert failed <= 6


def a_run(folder: Path, pps: float, repeats: int = 3, missing: float = 1.0) -> Path:
    shares = {64: 1.0, 256: missing}
    points = [synthetic.repeated({"frame": at}, repeats, pps * share, 0.001) for at, share in shares.items()]
    return synthetic.write_run(folder, chain.from_iterable(points))


def test_the_command_ends_with_1_when_the_interval_says_so(tmp_path: Path) -> None:
    before, after = a_run(tmp_path / "before", 1e6), a_run(tmp_path / "after", 1e6, missing=0.9)
    done = compared(before, after, "--fail-if", "rx_pps < -2 %", "--metric", "ipc", "--metric", "tx_pps", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    *_, head, where = done.stdout.splitlines()
    assert head == "fail if rx_pps < -2 %: so at 1 of 2 points"
    assert where.startswith("  frame 256: -10 % (-10.")
    fine = compared(before, after, "--fail-if", "rx_pps < -20 %", "--fail-if", "rx_pps > 1 %", cwd=tmp_path)
    assert (fine.returncode, fine.stderr) == (0, "")
    assert fine.stdout.count("so at 0 of 2 points\n") == 2


def noisy_run(folder: Path, pps: float, spread: float) -> Path:
    """Write a run whose trials lie up to this share below and above the rate."""
    trials = [synthetic.trial(f"{r}", "p", r, {}, pps=pps * (1 + spread * (r - 2) / 2)) for r in range(5)]
    return synthetic.write_run(folder, trials)


def test_a_gate_too_noisy_for_its_bound_says_so_and_ends_with_4(tmp_path: Path) -> None:
    """A drop of 12 % in noise of 20 % must not pass as no drop."""
    before, after = noisy_run(tmp_path / "before", 1e6, 0.2), noisy_run(tmp_path / "after", 0.88e6, 0.2)
    done = compared(before, after, "--fail-if", "rx_pps < -5 %", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (4, "")
    *_, head, where = done.stdout.splitlines()
    assert head == "fail if rx_pps < -5 %: so at 0 of 1 points, cannot tell at 1"
    assert re.fullmatch(
        r"  all: cannot tell: -12 % \(.* to .*\), about [0-9.]+ times as many trials would decide", where
    )


@pytest.mark.thorough
def test_a_drop_at_one_point_counts_more_than_noise_at_another(tmp_path: Path) -> None:
    before, after = a_run(tmp_path / "before", 1e6), a_run(tmp_path / "after", 1e6, missing=0.9)
    done = compared(before, after, "--fail-if", "rx_pps < -2 %", "--fail-if", "loss_share > 1 %", cwd=tmp_path)
    assert done.returncode == 1


def test_the_three_outcomes_are_as_rare_by_chance_as_promised() -> None:
    """At the bound itself a point passes in 5 % of cases at most and fails in 2.5 %; most say that they cannot tell."""
    rng, outcomes = np.random.default_rng(5), np.zeros(3)
    for _ in range(600):
        sides = [PointValues({}, tuple(rng.normal(mean, 2e4, 6))) for mean in (1e6, 0.98e6)]
        judged = judge([condition("rx_pps < -2 %")], [_difference("rx_pps", "p", ("A", "B"), *sides)])[0]
        outcomes += [bool(judged.holds), bool(judged.not_so), bool(judged.unseen)]
    assert outcomes[0] <= 600 * 0.025 + 3 * math.sqrt(600 * 0.025)
    assert outcomes[1] <= 600 * 0.05 + 3 * math.sqrt(600 * 0.05)


@pytest.mark.parametrize(
    ("text", "first", "second", "outcome"),
    [
        ("rx_pps < +5 %", 6, 6, "holds"),
        ("rx_pps > -5 %", 2, 2, "holds"),
        ("rx_pps < -5 %", 6, 6, "not_so"),
        ("rx_pps < 0 %", 6, 6, "not_so"),
        ("rx_pps < -5 %", 2, 1, "unseen"),
        ("rx_pps < +5 %", 1, 2, "unseen"),
    ],
)
def test_equal_values_have_changed_by_nothing(text: str, first: int, second: int, outcome: str) -> None:
    sides = [PointValues({}, (1e6,) * n) for n in (first, second)]
    (judged,) = judge([condition(text)], [_difference("rx_pps", "p", ("A", "B"), *sides)])
    assert {name: len(getattr(judged, name)) for name in ("holds", "not_so", "unseen")} == {
        **dict.fromkeys(("holds", "not_so", "unseen"), 0),
        outcome: 1,
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rx_pps < -2 %", "frame 64: cannot tell: its interval is unbounded"),
        ("loss_share > 1 %", "frame 64: cannot tell: the first is not above 0"),
    ],
)
def test_one_trial_per_point_can_show_nothing(tmp_path: Path, text: str, reason: str) -> None:
    one, two = (a_run(tmp_path / name, 1e6, repeats=1) for name in ("one", "two"))
    done = compared(one, two, "--fail-if", text, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (4, "")
    assert reason in done.stdout


LOST = {"status": "failed", "reason": "the node was lost", "result": None}


@pytest.mark.thorough
def test_a_point_that_only_the_first_run_has_is_reported_as_undecided(tmp_path: Path) -> None:
    before = a_run(tmp_path / "before", 1e6)
    lost = [trial | LOST for trial in synthetic.repeated({"frame": 256})]
    after = synthetic.write_run(tmp_path / "after", [*synthetic.repeated({"frame": 64}), *lost])
    done = compared(before, after, "--fail-if", "rx_pps < -2 %", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (4, "")
    *_, head, where = done.stdout.splitlines()
    assert head.startswith("fail if rx_pps < -2 %: so at 0 of 2 points")
    assert where == "  frame 256: cannot tell: run B has no rx_pps there"


def test_a_level_without_the_metric_is_reported_as_undecided(tmp_path: Path) -> None:
    """All trials of the third level failed; the second shows no drop."""
    trials = [
        trial | (LOST if queues == 4 else {})
        for queues in (1, 2, 4)
        for trial in synthetic.repeated({"queues": queues}, spread=0.001)
    ]
    run = synthetic.write_run(tmp_path / "run", trials)
    done = compared(run, "--by", "queues", "--fail-if", "rx_pps < -2 %", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (4, "")
    *_, head, where = done.stdout.splitlines()
    assert head.startswith("fail if rx_pps < -2 %: so at 0 of 2 points")
    assert where == "  all: cannot tell: queues 4 has no rx_pps"


def with_missed(folder: Path, missed: int) -> Path:
    trials = synthetic.repeated({})
    for number, each in enumerate(trials):
        each["result"]["ports"]["net_crossover0_b"]["stats"]["imissed"] = missed and missed + number
    return synthetic.write_run(folder, trials)


@pytest.mark.thorough
def test_a_certain_rise_from_zero_exceeds_any_share(tmp_path: Path) -> None:
    before, after = with_missed(tmp_path / "before", 0), with_missed(tmp_path / "after", 50_000)
    done = compared(before, after, "--fail-if", "imissed_share > 10 %", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "so at 1 of 1 points" in done.stdout
    assert "from 0 in every trial to 4.76 % (4.7" in done.stdout
    fell = compared(before, after, "--fail-if", "imissed_share < -10 %", cwd=tmp_path)
    assert (fell.returncode, fell.stderr) == (0, "")


def test_the_specs_first_level_is_the_first(tmp_path: Path) -> None:
    """The candidate `new` is slower than `old`, which follows it in the alphabet."""
    trials = [
        each
        for name, pps in (("new", 0.8e6), ("old", 1e6))
        for each in synthetic.repeated({"program": name}, 3, pps, 0.001)
    ]
    run = synthetic.write_run(tmp_path / "run", trials, spec={"factors": {"program": ["old", "new"]}})
    done = compared(run, "--by", "program", "--fail-if", "rx_pps < -5 %", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "all: -20 % (-20." in done.stdout


@pytest.mark.parametrize(("level", "code"), [(0.95, 1), (0.9999, 4)])
def test_a_run_that_was_judged_repeatedly_is_judged_at_its_own_level(tmp_path: Path, level: float, code: int) -> None:
    trials = [
        each for queues, pps in ((1, 1e6), (2, 0.9e6)) for each in synthetic.repeated({"queues": queues}, 4, pps, 0.01)
    ]
    looks = {"declared": 400, "made": [4], "confidence": level, "ended": False}
    run = synthetic.write_run(tmp_path / "run", trials, looks=looks)
    assert compared(run, "--by", "queues", "--fail-if", "rx_pps < -5 %", cwd=tmp_path).returncode == code


PLANTED = """\
format: 1
name: planted
title: t
testbeds: [loopback, vm-pair, model]
parameters: {load_pps: 1 Mpps}
factors: {extra_cycles: [0, 100], burst: [8, 32]}
trial: {warmup: 0 ms, window: 5 ms, drain: 0 ms}
"""


@pytest.mark.parametrize(
    ("slower", "time", "code", "said"),
    [
        (0.8, "1m", 1, "so at 2 of 2 points"),
        (1, "1m", 0, "so at 0 of 2 points"),
        (0.95, "1 ms", 4, "so at 0 of 2 points, cannot tell at 2"),
    ],
    ids=["drop", "same", "at the bound"],
)
def test_a_run_ends_when_its_conditions_are_decided(
    tmp_path: Path, slower: float, time: str, code: int, said: str
) -> None:
    """The fake node receives more from trial to trial, which only a comparison within blocks cancels."""
    cli = Cli(tmp_path, faults={"jitter": "on", "slower": slower})
    gate = ("--by", "extra_cycles", "--fail-if", "rx_pps < -5 %")
    done = cli.ends(code, "run", cli.spec(PLANTED), "--until-decided", time, *gate)
    assert f"fail if rx_pps < -5 %: {said}\n" in done.stdout
    run = cli.only_run()
    assert run.meta["spec"]["order"]["compare"] == "extra_cycles"
    assert run.meta["looks"]["made"][0] == 12
    assert ("still open" in " ".join(run.meta["warnings"])) == (code == 4)
    # The same evidence gives the same outcome, later and after a resume that has nothing to measure.
    assert cli("run", "--resume", run.path, *gate).returncode == code
    assert cli("compare", run.path, *gate, "--out", "x.svg").returncode == code


def test_two_builds_of_the_node_are_measured_by_turns(tmp_path: Path) -> None:
    slower = tmp_path / "candidate"
    slower.write_text(f"""#!/bin/sh\nFAKE_NODE='{{"slower": 0.8}}' exec {FAKE_NODE}\n""")
    slower.chmod(0o755)
    cli = Cli(tmp_path)
    text = PLANTED.replace(
        "extra_cycles: [0, 100], burst: [8, 32]", f"extra_cycles: [100], node: [{FAKE_NODE}, candidate]"
    )
    cli.ends(1, "run", cli.spec(text), "--until-decided", "1m", "--by", "node", "--fail-if", "rx_pps < -5 %")
    assert len((tmp_path / "nodes").read_text().split()) == 2, "both stay until the end"
    assert "is started on loopback only" in cli("plan", cli.spec(text), "--testbed", "model").said
    slower.unlink()
    assert "candidate: candidate is not built" in cli("plan", cli.spec(text)).said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fail-if", "rx_pps < -5 %"], "belong together"),
        (["--fail-if", "rx_pps < -5 %", "--by", "burst"], "belong together"),
        (["--until-decided", "1m", "--by", "burst"], "belong together"),
        (["--until-decided", "1m", "--by", "brust", "--fail-if", "rx_pps < -5 %"], "needs two levels of brust"),
        (["--until-decided", "1m", "--by", "queues", "--fail-if", "rx_pps < -5 %"], "'queues' is not a factor"),
        (["--until-decided", "1m", "--by", "burst", "--fail-if", "rx_pps"], "is not a condition"),
    ],
)
def test_an_incomplete_gate_measures_nothing(tmp_path: Path, words: list[str], said: str) -> None:
    cli = Cli(tmp_path)
    done = cli.ends(2, "run", cli.spec(PLANTED), *words)
    assert said in done.stderr
    assert not cli.run_folders()
