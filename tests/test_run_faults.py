# SPDX-License-Identifier: BSD-3-Clause
"""Check the runner with a node that misbehaves in ways that a real node cannot be made to."""

import json
import platform
from pathlib import Path

import pytest
from recorded_trials import record
from run_helpers import SPEC, Cli, assert_complete, last_attempts

from pollscope.analysis.claims import VerdictKind, evaluate_run
from pollscope.store.results_table import current_table, flags_of
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.testbeds.loopback import LoopbackTestbed
from pollscope.testbeds.maxima import _not_the_duts

# With `randomise: false` the node's third trial is the second maximum of queues=1.
THIRD = "maximum:queues=1:1"


def test_a_good_run(cli: Cli) -> None:
    done = cli.ends(0, "run", cli.spec())
    run = cli.only_run()
    assert_complete(run)
    assert done.stdout.splitlines()[-1] == str(run.path.relative_to(cli.folder))
    assert len(run.trials) == 12
    assert (run.path / "results.parquet").exists()
    assert cli.nodes_alive() == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("hang", "hung: no reply to 'start' in time"),
        pytest.param("hang-read", "hung: no reply to 'read' in time", marks=pytest.mark.thorough),
        ("die", "the node ended with status 9"),
        ("garbage", "not JSON"),
        ("refuse", "dut.burst: the node refused 'start': refused on purpose"),
        ("give-up", "the node gave the trial up: gave up on purpose"),
        ("hung", "the node gave the trial up: lcores that hang: 2 (CPU 1)"),
        ("nonsense", "contradicts the protocol"),
    ],
)
def test_one_bad_trial_fails_and_the_run_goes_on(cli: Cli, fault: str, reason: str) -> None:
    cli.faults = {"t3": fault}
    done = cli.ends(1, "run", cli.spec(), "--set", "failures.tries=1")
    run = cli.only_run()
    failed = failed_trials(cli)
    assert failed.keys() == {THIRD} and reason in failed[THIRD]
    assert len(last_attempts(run)) == 12
    assert reason in done.stdout and reason in done.stderr
    assert f"failed: {THIRD}: " in done.stderr
    assert run.meta["status"] == "failed"
    assert cli.nodes_alive() == []


def tries_of(name: str, run: RunFolder) -> list[str]:
    """Return how the attempts of a trial ended."""
    tries = [trial for trial in run.trials if trial["trial"] == name]
    assert [trial["attempt"] for trial in tries] == list(range(len(tries)))
    return [trial["status"] for trial in tries]


def test_a_failed_trial_is_made_again_by_resume(cli: Cli) -> None:
    cli.faults = {"t3": "die"}
    cli("run", cli.spec(), "--set", "failures.tries=1")
    assert tries_of(THIRD, cli.resumed()) == ["failed", "ok"]


def test_a_run_is_not_resumed_on_another_testbed_or_machine(cli: Cli) -> None:
    testbed = cli.folder / "own.yaml"
    testbed.write_text("kind: loopback\n")
    cli.faults = {"t3": "die"}
    cli("run", cli.spec(), "--set", "failures.tries=1", "--testbed", testbed)
    run, cli.faults = cli.only_run(), None
    again = ("run", "--resume", run.path, "--testbed", testbed)
    testbed.write_text("kind: loopback\nhugepages: never\n")
    assert f"its testbed has changed: hugepages in {testbed}" in cli.ends(3, *again).stderr
    testbed.write_text("kind: loopback\n")
    file, meta = run.path / "run.json", json.loads((run.path / "run.json").read_text())
    file.write_text(json.dumps(meta | {"host": meta["host"] | {"hostname": "lab-7", "machine_id": "0123"}}))
    done = cli.ends(3, *again)
    assert f"hostname was lab-7, now {platform.node()}" in done.stderr
    # An older run lacks these keys.
    host = {key: value for key, value in meta["host"].items() if key not in ("hostname", "machine_id")}
    file.write_text(json.dumps(meta | {"host": host, "testbed": meta["testbed"] | {"config": {}}}))
    cli.ends(0, *again)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("fault", ["die", "give-up", "nonsense"])
def test_a_failed_trial_is_tried_again(cli: Cli, fault: str) -> None:
    cli.faults = {"t3": fault}
    assert tries_of(THIRD, cli.ran(cli.spec())) == ["failed", "ok"]


def failed_trials(cli: Cli) -> dict[str, str]:
    """Return the reason of each failed trial."""
    trials = last_attempts(cli.only_run()).items()
    return {name: record["reason"] for name, record in trials if record["status"] == "failed"}


@pytest.mark.thorough
def test_more_failed_tries_than_allowed_end_the_run_and_resume_completes_it(cli: Cli) -> None:
    cli.faults = {"t3": "refuse", "t5": "refuse"}
    done = cli.ends(1, "run", cli.spec(), "--set", "failures={tries: 3, at_most: 1}")
    assert "2 tries have failed, failures.at_most allows 1; the last one, " in done.stderr
    assert "because: dut.burst: the node refused 'start'" in done.stderr and "--resume" in done.stderr
    cli.resumed()


@pytest.mark.thorough
def test_without_a_maximum_its_shares_fail_with_the_reason(cli: Cli) -> None:
    cli.faults = {"t1": "refuse", "t3": "refuse"}
    cli.ends(1, "run", cli.spec(), "--set", "failures={tries: 1, at_most: 2}")
    failed = failed_trials(cli)
    assert set(failed) == {
        "maximum:queues=1:0",
        "maximum:queues=1:1",
        "measure:queues=1,load_of_max=0.5:0",
        "measure:queues=1,load_of_max=0.5:1",
    }
    assert "the maximum of 'queues=1' could not be measured" in failed["measure:queues=1,load_of_max=0.5:0"]


def test_trials_in_a_row_that_fail_for_one_reason_end_the_run(cli: Cli) -> None:
    """The third trial is tried once: what failed twice at two others is the fault of neither."""
    cli.faults = {"t1": "refuse", "t2": "refuse", "t3": "refuse", "t4": "refuse", "t5": "refuse"}
    done = cli.ends(1, "run", cli.spec())
    last = done.stderr.splitlines()[-1]
    assert "3 trials in a row failed for one reason: dut.burst: the node refused 'start'" in last
    assert "(remove the cause, then pollscope run --resume results/faults/" in last
    run = cli.only_run()
    assert [trial["attempt"] for trial in run.trials] == [0, 1, 0, 1, 0]
    reason = run.meta["reason"]
    assert reason in done.stderr
    assert reason.endswith(run.trials[-1]["reason"])
    page = cli.ends(0, "report", run.path)
    assert "node.log: 3 trials in a row failed for one reason" in Path(page.stdout.strip()).read_text()
    assert cli.resumed().meta["reason"] is None


@pytest.mark.parametrize(
    ("faults", "settings", "failed"),
    [
        ({"t1": "refuse", "t2": "refuse", "t4": "refuse"}, "{tries: 1}", 3),  # the third trial succeeds between them
        ({"t1": "refuse", "t2": "give-up", "t3": "refuse"}, "{tries: 1}", 3),  # two reasons
        ({"t1": "refuse", "t2": "refuse", "t3": "refuse"}, "{tries: 1, in_a_row: 4}", 3),
    ],
)
def test_a_run_goes_on_after_other_failures(cli: Cli, faults: dict[str, str], settings: str, failed: int) -> None:
    cli.faults = faults
    cli.ends(1, "run", cli.spec(), "--set", f"failures={settings}", "--set", "factors.load_of_max=[0 %]")
    assert len(failed_trials(cli)) == failed
    assert last_attempts(cli.only_run()).keys() == set(cli.only_run().meta["plan"])


def test_a_point_that_failed_twice_for_one_reason_is_not_tried_a_third_time(cli: Cli) -> None:
    cli.faults = {"t1": "refuse", "t3": "refuse", "t6": "give-up"}  # t5 is the trial after the one that is left out
    options = "--set", "failures.tries=1", "--set", "factors.load_of_max=[0 %]", "--set", "repeats.count=4"
    cli.ends(1, "run", cli.spec(), *options)
    failed = failed_trials(cli)
    twice = [f"measure:queues=1,load_of_max=0.0:{repeat}" for repeat in range(4)]
    assert sorted(failed) == [*twice, "measure:queues=2,load_of_max=0.0:3"]
    reason = failed["measure:queues=1,load_of_max=0.0:2"]
    assert reason.startswith("not tried, because two trials of this point failed: dut.burst: the node refused 'start'")
    cli.resumed()


def test_a_point_that_fails_alone_ends_no_run(cli: Cli) -> None:
    cli.faults = {"t1": "refuse", "t2": "refuse", "t3": "refuse"}
    settings = {"failures.tries": "1", "factors.load_of_max": "[0 %]", "factors.queues": "[1]", "repeats.count": "4"}
    done = cli.ends(
        1, "run", cli.spec(), *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))
    )
    assert "in a row" not in done.stderr
    reasons = [record["reason"] for record in last_attempts(cli.only_run()).values()]
    assert [reason.startswith("not tried") for reason in reasons] == [False, False, True, True]


def test_one_failure_is_no_row(cli: Cli) -> None:
    assert "failures.in_a_row" in cli.ends(2, "run", cli.spec(), "--set", "failures.in_a_row=1").stderr


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("fault", "message"), [("die", "did not start"), ("garbage", "not JSON"), ("old", "speaks protocol 99")]
)
def test_a_node_that_does_not_start_ends_with_exit_code_3(cli: Cli, fault: str, message: str) -> None:
    cli.faults = {"hello": fault}
    assert message in cli.ends(3, "run", cli.spec()).stderr.strip().splitlines()[-1]
    assert cli.nodes_alive() == []


def test_a_missing_node_program_is_reported(cli: Cli) -> None:
    cli.node = cli.folder / "nowhere"
    assert "pollscope-node is not built" in cli.ends(3, "run", cli.spec()).stderr
    assert cli.run_folders() == []


def test_a_generator_that_is_the_limit_is_named(cli: Cli) -> None:
    cli.faults = {"missed": "none"}
    cli("run", cli.spec())
    run = cli.only_run()
    assert run.meta["maxima"]["queues=1"]["generator_bound"] is True
    assert "generator-bound maximum at 'queues=1': of 52.4 Mpps the DUT missed only 0 %" in run.meta["warnings"][0]


def test_a_path_that_loses_what_is_sent_is_not_called_the_generator() -> None:
    said = _not_the_duts("p", rate_pps=1_700, missed=0.0, sent_pps=190_000)
    assert said.startswith("maximum of the path at 'p': of 190 kpps that were sent 1.7 kpps came to the DUT")
    assert _not_the_duts("p", rate_pps=95, missed=0.0, sent_pps=100).startswith("generator-bound maximum at 'p'")


def test_shares_are_of_the_measured_maximum(cli: Cli) -> None:
    result = record(None)["result"]
    window = result["window"]
    seconds = (window["end_tsc"] - window["start_tsc"]) / window["tsc_hz"]
    maximum_pps = result["dut"]["lcores"][0]["rx_packets"] / seconds
    cli("run", cli.spec())
    for trial in last_attempts(cli.only_run()).values():
        if trial["kind"] == "measure" and trial["factors"]["load_of_max"] == 0.5:
            assert trial["maximum_pps"] == pytest.approx(maximum_pps, rel=1e-3)
            assert trial["start"]["rate"] == {"pps": trial["maximum_pps"] / 2}


def test_a_defect_of_the_program_ends_the_run_and_its_nodes(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    end = LoopbackTestbed.end

    def fails(*_given: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(LoopbackTestbed, "measure", fails)

    def ends(testbed: LoopbackTestbed) -> None:
        ended.append("ended")
        end(testbed)

    monkeypatch.setattr(LoopbackTestbed, "end", ends)
    with pytest.raises(ValueError, match="a defect"):
        cli("run", cli.spec())
    meta = cli.only_run().meta
    assert (meta["status"], meta["reason"], ended) == ("failed", "ValueError: a defect", ["ended"])


def test_noise_flags_and_repeats(cli: Cli) -> None:
    cli.faults = {"t2": "noisy"}
    text = SPEC + "noise: {max_gaps_over_100us_per_s: 100, repeat_flagged: 2}\n"
    cli.ends(0, "run", cli.spec(text))
    run = cli.only_run()
    assert tries_of("maximum:queues=2:0", run) == ["flagged", "ok"]
    (flagged,) = [record for record in run.trials if record["status"] == "flagged"]
    assert "away for more than 100 us 1000 times per second; the spec allows 100" in flagged["flags"][0]["text"]
    assert sorted(record["trial"] for record in run.trials) == sorted([*run.meta["plan"], "maximum:queues=2:0"])
    table = current_table(run).set_index("trial")
    assert table["status"].to_dict() == {name: record["status"] for name, record in last_attempts(run).items()}


@pytest.mark.thorough
def test_a_flagged_trial_whose_repeat_fails_stays_data(cli: Cli) -> None:
    cli.faults = {"t2": "noisy", "t3": "give-up"}
    text = SPEC + "noise: {max_gaps_over_100us_per_s: 100, repeat_flagged: 1}\nfailures: {tries: 1}\n"
    run = cli.ran(cli.spec(text))
    assert tries_of("maximum:queues=2:0", run) == ["flagged", "failed"]
    table = current_table(run).set_index("trial")
    assert (table.loc["maximum:queues=2:0", "status"], run.meta["status"]) == ("flagged", "complete")


@pytest.mark.thorough
def test_nothing_is_repeated_for_the_noise_of_emulated_machines(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopbackTestbed, "emulated", True)
    cli.faults = {"t2": "noisy"}
    text = SPEC + "noise: {max_gaps_over_100us_per_s: 100, repeat_flagged: 2}\n"
    run = cli.ran(cli.spec(text))
    assert [record["trial"] for record in run.trials] == run.meta["plan"]
    assert last_attempts(run)["maximum:queues=2:0"]["status"] == "flagged"


@pytest.mark.thorough
def test_repeat_until_stops_early_or_says_that_it_could_not(cli: Cli) -> None:
    until = "repeats: {until: {metric: rx_pps, within: 1 %, at_least: 2, at_most: 12}}"
    text = SPEC.replace("repeats: {count: 2}", until).replace("load_of_max: [0 %, 50 %]", "load_pps: [1000000]")
    cli.ends(0, "run", cli.spec(text))
    assert len(cli.only_run().trials) == 2 * 8, "so many equal values make an interval"
    cli.faults = {"jitter": "on"}
    cli.ends(0, "run", cli.spec(text))
    jittery = max(cli.run_folders(), key=lambda path: path.stat().st_mtime)
    meta = read_run(jittery).meta
    assert len(meta["plan"]) == 2 * 12
    said = "after 12 trials, 12 of which gave rx_pps, its 98.5 % interval is still +-"
    assert any(said in warning for warning in meta["warnings"])


@pytest.mark.thorough
def test_repeats_until_a_metric_that_no_trial_has_say_so(cli: Cli) -> None:
    until = "repeats: {until: {metric: package_power_w, within: 1 %, at_least: 2, at_most: 3}}"
    text = SPEC.replace("repeats: {count: 2}", until).replace("load_of_max: [0 %, 50 %]", "load_pps: [1000000]")
    cli.ends(0, "run", cli.spec(text))
    said = "after 3 trials, 0 of which gave package_power_w, it has no 98.5 % interval (asked for +-1 %)"
    assert any(said in warning for warning in cli.only_run().meta["warnings"])


@pytest.mark.thorough
def test_drift_of_the_baseline_is_a_warning(cli: Cli) -> None:
    cli.faults = {"jitter": "on"}
    text = SPEC.replace("load_of_max: [0 %, 50 %]", "load_pps: [1000000]")
    text += "baseline: {point: {queues: 1, load_pps: 1000000}, metric: rx_pps, every: 2, drift: 2 %}\n"
    done = cli("run", cli.spec(text))
    run = cli.only_run()
    table = current_table(run)
    flags = zip(table["kind"], flags_of(table), strict=True)
    assert {kind for kind, own in flags if "drift" in [flag["name"] for flag in own]} == {"baseline"}
    assert "warning: drift: " in done.stdout and "the baseline's rx_pps moved by" in done.stdout


def test_two_runs_at_once_are_refused(cli: Cli) -> None:
    cli.faults = {"t2": "hang"}
    first = cli.start("run", cli.spec())
    try:
        assert first.stderr is not None
        first.stderr.readline()  # the run has begun
        second = cli.ends(3, "run", cli.spec())
        assert f"in use by pid {first.pid}" in second.stderr
        assert "run faults" in second.stderr
    finally:
        first.terminate()
        first.communicate(timeout=30)
    assert first.returncode == 130


def test_points_beyond_this_host_are_left_out_and_listed(cli: Cli) -> None:
    text = SPEC.replace("factors:", "factors:\n  cores: [1, 100]")
    done = cli.ends(0, "run", cli.spec(text))
    run = cli.only_run()
    assert len(run.meta["left_out"]) == 4
    assert "100 polling lcores need as many RX queues" in run.meta["left_out"][0]["reason"]
    assert "left out: queues=1,cores=100" in done.stdout
    nothing = cli.ends(3, "run", cli.spec(SPEC.replace("factors:", "factors:\n  cores: [99, 100]")))
    assert "no point is left" in nothing.stderr


@pytest.mark.thorough
def test_a_row_that_cannot_be_hosted_is_a_run_with_verdicts(cli: Cli) -> None:
    """Beside a row that can be hosted it is no failure, and its claims say why they were not measured."""
    impossible = SPEC.replace("name: faults", "name: many").replace("factors:", "factors:\n  cores: [100]")
    cli.ends(0, "run", cli.spec(), cli.spec(impossible, "many.yaml"))
    (folder,) = [path for path in cli.run_folders() if path.parent.name == "many"]
    run = read_run(folder)
    assert (run.meta["status"], run.trials) == ("complete", [])
    reason = "100 polling lcores need as many RX queues, not 1"
    for verdict in evaluate_run(run):
        assert verdict.kind is VerdictKind.NOT_MEASURABLE
        assert reason in verdict.finding.sentence
    cli.ends(0, "report", str(folder))
    assert reason in (folder / "report.html").read_text()


def test_a_complete_run_says_so_and_measures_nothing(cli: Cli) -> None:
    first = cli.ends(0, "run", cli.spec())
    assert first.stderr.strip().splitlines()[-1].startswith("next: pollscope report results/faults/")
    before = cli.only_run()
    done = cli.ends(0, "run", "--resume", "latest")
    assert "is complete; nothing is left to measure" in done.stderr
    assert cli.only_run().trials == before.trials
