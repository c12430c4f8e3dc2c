# SPDX-License-Identifier: BSD-3-Clause
"""Check runs that search for their maxima: stored data, data that a killed run keeps, and messages."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from run_helpers import Cli, assert_complete, last_attempts

from pollscope.analysis.report import report_html
from pollscope.analysis.searches import throughputs
from pollscope.base.units import human_rate
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder, read_run

SPEC = """\
format: 1
name: searched
row: S-F5
title: t
factors:
  queues: [1, 2]
  load_of_max: [50 %, 100 %]
trial: {warmup: 0 ms, window: 10 ms, drain: 0 ms}
repeats: {count: 1}
maximum: {method: mlrsearch, repeats: 1, duration_sum: 50 ms, width: 1 %}
order: {randomise: false}
"""
LIMITS = {"capacity": 100_000, "generator": 500_000}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path, faults=dict(LIMITS))


def searches(run: RunFolder) -> dict[str, dict[str, Any]]:
    return {trial["point"]: trial["search"] for trial in run.trials if trial["kind"] == "maximum"}


def test_a_search_finds_the_rate_that_load_of_max_refers_to(cli: Cli) -> None:
    run = cli.ran(cli.spec(SPEC), "--set", "factors.queues=[1]")
    trials = last_attempts(run)
    for point, search in searches(run).items():
        found = search["goals"][0]["throughput_pps"]
        assert 98_000 < found <= 100_100
        assert run.meta["maxima"][point] == {"pps": found, "trials": 1, "generator_bound": False}
        assert trials[f"measure:{point},load_of_max=0.5:0"]["start"]["rate"] == {"pps": found / 2}
        # Every trial of the search is a stored trial of its own kind, with its load.
        assert [trials[step]["kind"] for step in search["trials"]] == ["search"] * len(search["trials"])
        assert "saturate" in trials[search["trials"][0]]["start"]["rate"]
        assert all("pps" in trials[step]["start"]["rate"] for step in search["trials"][1:])
        assert search["goals"][1]["loss_ratio"] == 0.005 and search["method"].startswith("MLRsearch 1.")
    # The table has what searches found and nothing else of them.
    table = current_table(run)
    maxima = table[table["kind"] == "maximum"]
    assert maxima["metric.throughput_loss_0_pps"].between(98_000, 100_100).all()
    assert maxima["metric.throughput_loss_0_5_pps"].between(98_000, 100_600).all()
    assert maxima["metric.rx_pps"].isna().all()
    assert (maxima["absent.rx_pps"] == "a search is not a trial; its trials (kind `search`) have it").all()
    steps = table[table["kind"] == "search"]
    assert len(steps) > 5 and steps["metric.rx_pps"].notna().all()
    assert steps["metric.throughput_loss_0_pps"].isna().all()


@pytest.mark.thorough
def test_a_loss_ratio_without_a_metric_is_in_the_record(cli: Cli) -> None:
    cli("run", cli.spec(SPEC), "--set", "maximum.loss_ratios=['2 %']")
    run = cli.only_run()
    assert {goal["loss_ratio"] for search in searches(run).values() for goal in search["goals"]} == {0.02}
    absent = current_table(run)["absent.throughput_loss_0_pps"].dropna()
    assert "the search was not asked for a loss ratio of 0 %" in set(absent)


@pytest.mark.thorough
def test_a_killed_search_is_resumed_where_it_was(cli: Cli) -> None:
    process = cli.start("run", cli.spec(SPEC), "--set", "trial.window=60 ms", "--set", "maximum.duration_sum=180 ms")
    deadline = time.monotonic() + 60
    while len(stored_steps(cli)) < 8:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    before = stored_steps(cli)
    run = cli.ran("--resume", cli.run_folders()[0])
    steps = [trial for trial in run.trials if trial["kind"] == "search"]
    assert [step["trial"] for step in steps][: len(before)] == before
    assert len({step["trial"] for step in steps}) == len(steps), "no trial of the search was made twice"
    assert all(98_000 < search["goals"][0]["throughput_pps"] <= 100_600 for search in searches(run).values())
    lines = (run.path / "trials.jsonl").read_bytes()
    cli.ends(0, "run", "--resume", run.path)
    assert (run.path / "trials.jsonl").read_bytes() == lines, "a finished run has nothing to resume"
    assert_complete(cli.only_run())


def stored_steps(cli: Cli) -> list[str]:
    files = [folder / "trials.jsonl" for folder in cli.run_folders()]
    lines = files[0].read_text().split("\n")[:-1] if files and files[0].exists() else []
    records = [json.loads(line) for line in lines]
    return [record["trial"] for record in records if record["kind"] == "search"]


@pytest.mark.thorough
def test_a_step_that_was_stored_for_another_load_is_made_again(cli: Cli) -> None:
    """After an update of the package the search may ask for another load than the stored one."""
    cli("run", cli.spec(SPEC), "--set", "factors.queues=[1]")
    folder = cli.run_folders()[0]
    records = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    steps = [record for record in records if record["kind"] == "search"]
    steps[3]["params"]["load_pps"] *= 1.001
    (folder / "trials.jsonl").write_text("".join(json.dumps(record) + "\n" for record in steps[:5]))
    cli.ends(0, "run", "--resume", folder)
    run = cli.only_run()
    attempts = [record["attempt"] for record in run.trials if record["trial"] == steps[3]["trial"]]
    assert attempts == [0, 1]
    assert run.meta["status"] == "complete"


@pytest.mark.thorough
def test_a_step_that_fails_is_made_again(cli: Cli) -> None:
    assert cli.faults is not None
    cli.faults |= {"t4": "refuse"}
    cli.ends(0, "run", cli.spec(SPEC))
    attempts = [trial["status"] for trial in cli.only_run().trials if trial["trial"] == "search:queues=1:0.3"]
    assert attempts == ["failed", "ok"]


@pytest.mark.thorough
def test_a_step_that_fails_again_and_again_fails_the_search(cli: Cli) -> None:
    assert cli.faults is not None
    cli.faults |= {f"t{number}": "refuse" for number in (4, 5, 6)}
    cli.ends(1, "run", cli.spec(SPEC), "--set", "factors.queues=[1]")
    search = last_attempts(cli.only_run())["maximum:queues=1:0"]
    assert search["status"] == "failed" and "search:queues=1:0.3: dut.burst: the node refused" in search["reason"]
    cli.faults = dict(LIMITS)
    cli.ran("--resume", cli.run_folders()[0])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("generator", [90_000, 100_500])
def test_a_search_limited_by_the_generator_is_reported_and_is_no_maximum(cli: Cli, generator: int) -> None:
    cli.faults = {"capacity": 100_000, "generator": generator}
    done = cli("run", cli.spec(SPEC), "--set", "factors.queues=[1]")
    assert done.returncode == 1, "what leans on the maximum cannot be measured"
    run = cli.only_run()
    (search,) = searches(run).values()
    assert search["outcome"] == "generator-bound" and search["goals"][0]["throughput_pps"] is None
    assert run.meta["maxima"] == {}
    assert "warning: no result of the search at 'queues=1', generator-bound: " in done.stdout
    failed = last_attempts(run)["measure:queues=1,load_of_max=0.5:0"]
    assert failed["status"] == "failed" and search["reason"] in failed["reason"]
    absent = current_table(run).set_index("trial")["absent.throughput_loss_0_pps"]["maximum:queues=1:0"]
    assert absent == f"the search found none: {search['reason']}"


def test_the_plan_says_how_long_searches_take(cli: Cli) -> None:
    shown = cli("plan", cli.spec(SPEC)).stdout
    assert "maximum:queues=1:0 (a search: about " in shown
    planned = json.loads(cli("plan", cli.spec(SPEC), "--json").stdout)
    steps = planned["trials"][0]["search_trials"]
    assert 10 < steps < 60
    assert planned["expected_s"] > 2 * steps * 0.01
    longer = json.loads(cli("plan", cli.spec(SPEC), "--json", "--set", "maximum.duration_sum=1 s").stdout)
    assert longer["trials"][0]["search_trials"] > 2 * steps


@pytest.mark.thorough
def test_the_report_shows_the_searches(cli: Cli) -> None:
    cli("run", cli.spec(SPEC), "--set", "maximum.repeats=2")
    run = read_run(cli.run_folders()[0])
    html = report_html([run])
    for each in throughputs(run):
        assert each.searches == 2 and each.bounds is not None and each.estimate is not None
        assert not each.estimate.has_interval, "two equal searches give none"
        low, high = (human_rate(bound) for bound in each.bounds)
        assert each.text == f"{human_rate(each.estimate.value)} (2 searches, bounds {low} to {high})"
    assert "Maximum throughput" in html and "queues 1" in html
    assert "exceed ratio 50 %" in html


@pytest.mark.thorough
@pytest.mark.measure
def test_maxima_of_notified_cores_are_searched_as_well(cli: Cli, build_dir: Path) -> None:
    """On a real node: each search ends with a result or a reason, however busy the machine is."""
    cli.node = build_dir / "pollscope-node"
    factors = "factors: {notification: [spin, qwait, qwait], idle: [pause, pause, sleep], load_of_max: [50 %]}"
    text = SPEC.replace("factors:\n  queues: [1, 2]\n  load_of_max: [50 %, 100 %]", factors)
    done = cli("run", cli.spec(text + "zip: [[notification, idle]]\n"), "--set", "maximum.at_most=200 ms")
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
    found = searches(cli.only_run())
    assert len(found) == 3
    for search in found.values():
        assert search["trials"] and search["outcome"] in ("found", "generator-bound", "out-of-time")
        assert all(goal["throughput_pps"] or goal["reason"] for goal in search["goals"])
