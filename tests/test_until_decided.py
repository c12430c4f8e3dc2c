# SPDX-License-Identifier: BSD-3-Clause
"""`repeats: {until: verdicts}` measures the points of open claims further, look by look."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import synthetic_run as synthetic
from command_line import Done
from run_helpers import SPEC as RUN_SPEC
from run_helpers import Cli

from pollscope.analysis.claims import VerdictKind, evaluate_run
from pollscope.base.errors import UsageError
from pollscope.cli.run_steps import open_claims, settings_until_decided
from pollscope.plan.plan import Plan, make_plan
from pollscope.run.looks import Looks, OpenClaim, declared_repeats, points_of
from pollscope.spec import LoadedSpec, Overrides, load_text
from pollscope.stats.estimates import block_ratio_estimate
from pollscope.stats.sequential import look_confidence, spent
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder, read_run

SPEC = """\
format: 1
name: decided
title: Two levels
parameters: {{load_pps: 0}}
factors: {{lookups: [1, 8], burst: [8, 32]}}
trial: {{warmup: 5 ms, window: 25 ms, drain: 0 ms}}
repeats: {repeats}
"""
DECIDED = "{count: 12, until: verdicts, at_most: 1 min}"


def loaded(repeats: str = DECIDED, *settings: str) -> LoadedSpec:
    return load_text(SPEC.format(repeats=repeats), "x.yaml", Overrides(settings=settings))


def plan_of(repeats: str = DECIDED) -> Plan:
    return make_plan(loaded(repeats).spec, lambda _point: None)


@pytest.mark.parametrize(
    "repeats",
    ["{until: verdicts}", "{count: 5, at_most: 1 min}", "{until: soon, at_most: 1 min}", "{at_most: 1 min}"],
)
def test_a_spec_names_the_longest_time(repeats: str) -> None:
    with pytest.raises(UsageError):
        loaded(repeats)


@pytest.mark.parametrize(("time", "minutes"), [("10m", 10), ("90 s", 1.5), ("2.5m", 2.5), ("3 min", 3)])
def test_the_option_changes_the_repeats(time: str, minutes: float) -> None:
    for repeats in ("{count: 7}", "{until: {metric: rx_pps, within: 2 %}}"):
        found = loaded(repeats, *settings_until_decided(time)).spec.repeats
        assert found.decided
        assert found.narrow is None
        assert found.at_most_ns == minutes * 60e9
        assert found.at_least == (7 if "count" in repeats else 12)
    assert settings_until_decided(None) == []


def test_the_error_is_spent_once_over_all_looks() -> None:
    assert spent(0.05, 0) == 0
    assert spent(0.05, 1) == pytest.approx(0.05) == spent(0.05, 2)
    looks = [0.1, 0.2, 0.4, 0.8, 1.0]
    errors = [1 - look_confidence(0.05, looks[: number + 1]) for number in range(len(looks))]
    assert sum(errors) == pytest.approx(0.05)
    assert min(errors) > 0.004


def test_looking_again_and_again_at_equal_points_rarely_finds_a_difference() -> None:
    rng = np.random.default_rng(1)
    looks, wrong = [12, 24, 48, 96, 192], Counter[str]()
    for _ in range(400):
        logs = 0.1 * rng.standard_normal(looks[-1])
        found = [
            block_ratio_estimate(
                np.exp(logs[:made]).tolist(),
                [1.0] * made,
                look_confidence(0.05, [each / looks[-1] for each in looks[: number + 1]]),
            )
            for number, made in enumerate(looks)
        ]
        wrong["spent"] += any(not each.low <= 1 <= each.high for each in found)
        naive = [block_ratio_estimate(np.exp(logs[:made]).tolist(), [1.0] * made) for made in looks]
        wrong["naive"] += any(not each.low <= 1 <= each.high for each in naive)
    assert wrong["spent"] <= 0.05 * 400 < wrong["naive"]


def test_the_largest_number_of_repeats_is_declared_by_the_plan() -> None:
    plan = plan_of()
    one_s = sum(trial.seconds for trial in plan.further_round(plan.points, 0))
    assert declared_repeats(plan) == round(2 * 60 / one_s)
    assert plan.seconds_at_most == 60
    assert declared_repeats(plan_of("{count: 12, until: verdicts, at_most: 1 ms}")) == 12


def test_a_resumed_run_has_spent_what_it_spent() -> None:
    plan = plan_of()
    first = Looks.of(plan, {})
    entry = [first.take(made) for made in (12, 24)][-1]
    again = Looks.of(plan, json.loads(json.dumps({"looks": entry})))
    assert again.take(24) == entry
    assert again.take(48) == first.take(48)


def test_the_last_look_spends_what_is_left() -> None:
    """With the part of eight further repeats it would open claims again that the look before had decided."""
    plan, looks = plan_of(), Looks(400)
    errors = [1 - looks.take(made)["confidence"] for made in (12, 24, 48, 96, 192)]
    entry = looks.take(200, last=True)
    errors.append(1 - entry["confidence"])
    assert sum(errors) == pytest.approx(0.05)
    assert errors[-1] > errors[-2]
    assert (looks.after(96), looks.after(192)) == (192, 400)
    assert Looks.of(plan, {"looks": entry}).ended


def test_only_the_points_of_open_claims_go_on() -> None:
    plan = plan_of()
    claim = OpenClaim("x", "wide", [{"lookups": 1.0, "burst": 8}, {"lookups": 8, "burst": 8}])
    assert {point.factors["burst"] for point in points_of([claim], plan.points)} == {8}
    assert len(points_of([claim], plan.points)) == 2
    assert points_of([claim, OpenClaim("y", "unknown", [])], plan.points) == plan.points


def test_a_claim_about_an_undisturbed_level_waits_for_its_trials(tmp_path: Path) -> None:
    """The first look comes after 12 trials, and the level takes 20."""
    claim = {
        "id": "rate",
        "statement": "It receives at least 900,000 packets per second.",
        "metric": "undisturbed_rx_pps",
        "predicate": {"kind": "within", "low": 0.9e6},
    }
    for count, waits in ((12, True), (24, False)):
        trials = [synthetic.trial(f"p:{at}", "p", at, {}, pps=1e6 + 100 * (at % 5)) for at in range(count)]
        folder = tmp_path / str(count)
        synthetic.write_run(folder, trials, row=None, rows=[], spec={"claims": [claim]}, spec_name="mine")
        assert [each.claim for each in open_claims(folder, count)] == ["mine.rate"] * waits


def test_a_claim_with_flagged_trials_only_is_known_as_such(tmp_path: Path) -> None:
    claim = {
        "id": "rate",
        "statement": "It receives at least 900,000 packets per second.",
        "metric": "rx_pps",
        "predicate": {"kind": "within", "low": 0.9e6},
    }
    clean = [synthetic.trial(f"p:{at}", "p", at, {}, pps=(0.8e6, 1.0e6)[at % 2]) for at in range(12)]
    flagged = [synthetic.disturbed(trial) for trial in clean]
    for name, trials in (("all", flagged), ("most", [*flagged[:-1], clean[-1]])):
        synthetic.write_run(tmp_path / name, trials, row=None, rows=[], spec={"claims": [claim]}, spec_name="mine")
        assert [each.all_flagged for each in open_claims(tmp_path / name, 12)] == [name == "all"]


def test_a_look_leaves_out_repeats_that_were_made_after_it(tmp_path: Path) -> None:
    """Twelve trials scatter around the stated rate, and twelve more lie above it."""
    claim = {
        "id": "rate",
        "statement": "It receives at least 900,000 packets per second.",
        "metric": "rx_pps",
        "predicate": {"kind": "within", "low": 0.9e6},
    }
    rates = [(0.8e6, 1.0e6)[at % 2] for at in range(12)] + [1.1e6] * 12
    trials = [synthetic.trial(f"p:{at}", "p", at, {}, pps=rate) for at, rate in enumerate(rates)]
    synthetic.write_run(tmp_path, trials, row=None, rows=[], spec={"claims": [claim]}, spec_name="mine")
    assert [each.claim for each in open_claims(tmp_path, 12)] == ["mine.rate"]
    assert not open_claims(tmp_path, 24)
    assert len(current_table(read_run(tmp_path))) == 24


TWO_CLAIMS = """\
claims:
  - id: plain
    statement: Four queues receive about as much as one.
    metric: rx_pps
    predicate: {kind: ratio, factor: queues, from: 1, to: 4, low: 0.5, high: 2}
  - id: edge
    statement: Two queues receive at most 6 % more than one.
    metric: rx_pps
    predicate: {kind: ratio, factor: queues, from: 1, to: 2, low: 0.9, high: 1.06}
"""


def cli_in(folder: Path) -> Cli:
    """Return a command line with a node whose every trial receives more than the one before, by ever smaller shares."""
    cli = Cli(folder)
    cli.faults = {"jitter": "on"}
    text = RUN_SPEC.replace("load_of_max: [0 %, 50 %]", "load_pps: [1000000]").replace("row: S-F5\n", "")
    text = text.replace("repeats: {count: 2}", "repeats: {count: 12}").replace("queues: [1, 2]", "queues: [1, 2, 4]")
    cli.spec(text + TWO_CLAIMS)
    return cli


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cli, Done]:
    """Return a command line that has run until all claims were decided, and its end."""
    cli = cli_in(tmp_path_factory.mktemp("decided"))
    return cli, cli("run", "spec.yaml", "--until-decided", "1m")


def test_a_run_measures_the_points_of_open_claims_further(decided: tuple[Cli, Done]) -> None:
    cli, done = decided
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    counts = Counter(trial["factors"]["queues"] for trial in run.trials)
    assert counts[4] == 12, "its claim is decided at the first look"
    assert counts[1] == counts[2] > 12
    assert run.meta["looks"]["made"] == [12 << look for look in range(len(run.meta["looks"]["made"]))]
    assert run.meta["looks"]["made"][-1] == counts[1]
    assert "after 12 repeats 1 verdict open, 2 points continue; faults.edge: Ratio" in " ".join(done.stderr.split())
    plain, edge = evaluate_run(run)
    assert (plain.kind, edge.kind) == (VerdictKind.AGREES, VerdictKind.AGREES)
    assert f"looked at its claims {len(run.meta['looks']['made'])} times" in edge.finding.sentence


def interrupted(decided: tuple[Cli, Done], folder: Path) -> tuple[Cli, RunFolder]:
    """Return the run as it was two repeats after its first look, and its trials as they became."""
    cli = cli_in(folder)
    shutil.copytree(decided[0].folder / "results", folder / "results")
    run = cli.only_run()
    lines = (run.path / "trials.jsonl").read_text().splitlines(keepends=True)
    (run.path / "trials.jsonl").write_text("".join(lines[:40]))
    looks = {**run.meta["looks"], "made": [12], "ended": False}
    meta = {**run.meta, "status": "interrupted", "looks": looks, "plan": run.meta["plan"][:36]}
    (run.path / "run.json").write_text(json.dumps(meta))
    return cli, run


def test_a_run_that_is_resumed_after_its_time_judges_all_that_is_there(
    decided: tuple[Cli, Done], tmp_path: Path
) -> None:
    cli, run = interrupted(decided, tmp_path)
    meta = (run.path / "run.json").read_text()
    (run.path / "run.json").write_text(meta.replace("repeats.at_most=1 min", "repeats.at_most=1 ms"))
    assert cli("run", "--resume", run.path).returncode == 0
    again = cli.only_run()
    assert len(again.trials) == 40
    assert (again.meta["looks"]["made"], again.meta["looks"]["ended"]) == ([12, 14], True)


@pytest.mark.thorough
def test_a_run_that_was_interrupted_between_two_looks_goes_on(
    decided: tuple[Cli, Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, run = interrupted(decided, tmp_path)
    judged = list[int]()

    def counted(folder: Path, repeats: int) -> list[OpenClaim]:
        judged.append(repeats)
        return open_claims(folder, repeats)

    monkeypatch.setattr("pollscope.cli.run.open_claims", counted)
    done = cli("run", "--resume", run.path)
    assert done.returncode == 0, done.stderr
    assert judged[:2] == [12, 24]
    again = cli.only_run()
    assert [trial["trial"] for trial in again.trials[:40]] == [trial["trial"] for trial in run.trials[:40]]
    assert len({trial["trial"] for trial in again.trials}) == len(again.trials) > 40
    assert again.meta["looks"]["made"][:2] == [12, 24]
    assert again.meta["status"] == "complete"


def test_a_run_stops_for_claims_whose_trials_are_all_flagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli = cli_in(tmp_path)
    flagged = [OpenClaim("faults.edge", "636 of 636 trials disturbed", [{"queues": 1}], all_flagged=True)]
    monkeypatch.setattr("pollscope.cli.run.open_claims", lambda *_: flagged)
    done = cli("run", "spec.yaml", "--until-decided", "1m")
    run = cli.only_run()
    assert run.meta["looks"]["made"] == [12, 24]
    (warning,) = [each for each in run.meta["warnings"] if "cannot be decided by more time" in each]
    assert "after 24 repeats all trials are flagged: faults.edge (use a quiet machine" in warning
    assert warning in done.stdout


@pytest.mark.thorough
def test_a_claim_that_stays_open_is_a_warning(tmp_path: Path) -> None:
    cli = cli_in(tmp_path)
    assert cli("run", "spec.yaml", "--until-decided", "1 ms").returncode == 0
    run = cli.only_run()
    assert len(run.trials) == 36
    assert "1 verdict still open after 12 repeats, the declared maximum: faults.edge" in run.meta["warnings"]
    assert [verdict.kind for verdict in evaluate_run(run)] == [VerdictKind.AGREES, VerdictKind.INCONCLUSIVE]
