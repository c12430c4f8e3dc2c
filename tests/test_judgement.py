# SPDX-License-Identifier: BSD-3-Clause
"""Check that trials are judged from their records when a run is read, so that a better rule judges old runs again."""

from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic

from pollscope.analysis.claims import evaluate_run
from pollscope.analysis.quality import cautions, steadiness
from pollscope.analysis.report import report_html
from pollscope.base.errors import UsageError
from pollscope.base.names import Status
from pollscope.metrics import RULES, noise
from pollscope.metrics.judgement import Judgement, drift_flags, judge
from pollscope.spec.model import Noise
from pollscope.store.results_table import current_table, derive_table, flags_of, last_attempts
from pollscope.store.run_folder import read_run

QUIET = Noise()


def names(flags: Any) -> list[str]:
    return [flag["name"] for flag in flags]


def folders(checkout: Path) -> list[Path]:
    found = [file.parent for file in checkout.glob("data/runs/*/run.json")]
    assert len(found) >= 3
    return found


def test_recorded_runs_are_judged_as_when_they_were_made(checkout: Path) -> None:
    """But for trials that were flagged because a generator with nothing to send waited for its CPU, and for such whose
    tax was not known well enough to be held against the window.
    """
    for folder in folders(checkout):
        run = read_run(folder)
        records: dict[str, Any] = {str(record["trial"]): record for record in last_attempts(run.trials)}
        table = derive_table(run).set_index("trial")
        now = table["status"].to_dict()
        assert set(now) == set(records)
        for trial in (trial for trial, record in records.items() if now[trial] != record["status"]):
            if now[trial] == "flagged":
                assert str(table.loc[trial, "reason"]).startswith(
                    "the cost of busy polls and packets by timed intervals misses the window"
                )
                continue
            assert (now[trial], records[trial]["start"]["rate"]) == ("ok", {"pps": 0.0}), f"{folder}: {trial}"
            generators = (f"lcore {records[trial]['config']['gen']['lcore']} waited", "the generator's core was away")
            disturbed = [flag["text"] for flag in records[trial]["flags"] if flag["name"].startswith("noise:")]
            assert all(text.startswith(generators) for text in disturbed), trial


def test_stored_judgements_of_a_run_are_not_repeated(checkout: Path) -> None:
    for folder in folders(checkout):
        run = read_run(folder)
        noted = [each.text for each in cautions(run, derive_table(run)) if each.topic == "noted by the run"]
        assert not [text for text in noted if "trials are flagged (" in text or "expect flagged" in text], folder


@pytest.mark.parametrize(("waited", "said"), [(0.997, "100 %"), (0.65, "65 %"), (0.02, None)])
def test_a_corunner_that_waited_is_flagged_with_its_share(waited: float, said: str | None) -> None:
    record = synthetic.trial()
    record["start"] |= {"window_ns": 10**9}
    waited_ns = waited * 10**9
    record["corunner"] = {"result": {"workers": [{"name": "corunner", "cpu": 0, "waited_ns": waited_ns}]}}
    texts = [flag["text"] for flag in noise.noise_flags(QUIET, record, {}) if flag["name"] == "noise:corunner-waiting"]
    rest = "because something else ran there (limit 2 %)"
    assert texts == ([] if said is None else [f"corunner waited for CPU 0 for {said} of the window, {rest}"])


def test_a_corunner_that_waits_by_design_is_not_flagged() -> None:
    record = synthetic.trial()
    record["start"] |= {"window_ns": 10**9}
    worker = {"name": "corunner", "cpu": 0, "scheduling": "idle", "waited_ns": 0.9e9}
    record["corunner"] = {"result": {"workers": [worker]}}
    assert noise.noise_flags(QUIET, record, {}) == []


@pytest.mark.parametrize("recorded_status", ["ok", "flagged"])
def test_the_record_decides_and_not_the_recorded_status(tmp_path: Path, recorded_status: str) -> None:
    trials = [synthetic.trial("quiet"), synthetic.disturbed(synthetic.trial("noisy", repeat=1))]
    for trial in trials:
        trial |= {"status": recorded_status, "reason": "old", "flags": [{"name": "noise:old", "text": "old"}]}
    table = derive_table(synthetic.run_of(tmp_path, trials))
    assert table["status"].tolist() == ["ok", "flagged"]
    quiet, noisy = flags_of(table)
    assert (quiet, names(noisy)) == ([], ["noise:waiting"])
    assert "lcore 2 waited for its CPU for 25 % of the trial" in table["reason"].tolist()[1]


def test_a_flag_names_the_thread_that_ran_instead() -> None:
    record = synthetic.disturbed(synthetic.trial())
    record["host"]["ran_instead"] = {"2": "python3 (pid 123)"}
    (flag,) = noise.noise_flags(QUIET, record, {})
    assert "of the trial, because python3 (pid 123) ran there (limit 2 %)" in flag["text"]


def test_a_generator_that_has_nothing_to_send_disturbs_nothing() -> None:
    record = synthetic.trial()
    record["config"]["gen"] = {"lcores": [1]}
    record["host"] = {"waits_ns": {"1": 10**9}}
    gaps = {"generator_gaps_over_100us_per_s": 1e4}
    limits = Noise(max_gaps_over_100us_per_s=100)
    record["start"] |= {"warmup_ns": 0, "window_ns": 10**9, "rate": {"pps": 1.0}}
    sends = [flag["name"] for flag in noise.noise_flags(limits, record, gaps)]
    assert sends == ["noise:waiting", "noise:generator_gaps_over_100us_per_s"]
    record["start"]["rate"] = {"pps": 0.0}
    assert noise.noise_flags(limits, record, gaps) == []
    record["host"] = {"waits_ns": {"1": 10**9, "2": 10**9}}
    assert [flag["text"][:7] for flag in noise.noise_flags(limits, record, gaps)] == ["lcore 2"]


# A tick is 10 ms, whatever part of it was taken.
@pytest.mark.parametrize(
    ("cpus", "window_ns", "ticks"), [(2, 10**9, 5), (16, 10**9, 40), (2, 20_000_000, 1)], ids=["2", "16", "short"]
)
def test_steal_time_is_judged_per_cpu(cpus: int, window_ns: int, ticks: int) -> None:
    record = synthetic.trial()
    record["start"] |= {"warmup_ns": 0, "window_ns": window_ns}
    for more in (0, 1):
        record["host"] = {"steal_ticks": ticks + more, "interrupts": dict.fromkeys(map(str, range(cpus)), 0)}
        found = noise.noise_flags(Noise.model_validate({"max_steal": "2.5 %"}), record, {})
        assert [flag["name"] for flag in found] == ["noise:steal_ticks"] * more


def test_switches_are_judged_per_core_and_second() -> None:
    record = synthetic.trial()
    record["start"] |= {"warmup_ns": 0, "window_ns": 500_000_000}
    for switches, flags in ((25, 0), (26, 1)):
        cores = len(record["result"]["dut"]["lcores"])
        found = noise.noise_flags(Noise(max_switches_per_s=50), record, {"involuntary_switches": switches * cores})
        assert len(found) == flags


def test_no_core_waits_for_more_than_the_whole_trial(tmp_path: Path) -> None:
    trials = [synthetic.disturbed(synthetic.trial("noisy"), waited=1.1)]
    said = "lcore 2 waited for its CPU for 550 ms with set-up and drain, longer than its warm-up and window of 500 ms,"
    assert said in derive_table(synthetic.run_of(tmp_path / "a", trials))["reason"].tolist()[0]
    allowed = {"name": "synthetic", "noise": {"max_waiting": 1}}
    assert derive_table(synthetic.run_of(tmp_path / "b", trials, spec=allowed))["status"].tolist() == ["ok"]


def test_a_failed_trial_stays_failed_under_any_rule(tmp_path: Path) -> None:
    trial = synthetic.disturbed(synthetic.trial("t0")) | {"status": "failed", "reason": "the node hung"}
    table = derive_table(synthetic.run_of(tmp_path, [trial]))
    assert table[["status", "reason", "flags"]].values.tolist() == [["failed", "the node hung", "[]"]]


def test_limits_are_those_of_the_spec(tmp_path: Path) -> None:
    trials = [synthetic.disturbed(synthetic.trial("t0"), 0.25)]
    allowed = {"name": "synthetic", "noise": {"max_waiting": 0.3, "a_key_of_later": 1}}
    assert derive_table(synthetic.run_of(tmp_path / "a", trials, spec=allowed))["status"].tolist() == ["ok"]
    strict = {"name": "synthetic", "noise": {"max_waiting": 0.2}}
    assert derive_table(synthetic.run_of(tmp_path / "b", trials, spec=strict))["status"].tolist() == ["flagged"]
    broken = synthetic.run_of(tmp_path / "c", trials, spec={"name": "synthetic", "noise": {"max_waiting": "much"}})
    with pytest.raises(UsageError, match=r"run.json: spec.noise.max_waiting: is 'much', not a number"):
        derive_table(broken)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"host": {"waits_ns": {"2": "long"}}}, "trials.jsonl: host.waits_ns.2: is 'long', not a number"),
        ({"host": {"waits_ns": {"2": -1}}}, "trials.jsonl: host.waits_ns.2: is -1, allowed is 0"),
        ({"config": {"gen": 0.5}}, "trials.jsonl: config.gen: is 0.5"),
    ],
)
def test_records_that_contradict_the_format_are_refused_in_one_line(
    tmp_path: Path, broken: dict[str, Any], says: str
) -> None:
    trial = synthetic.disturbed(synthetic.trial("t0")) | broken
    with pytest.raises(UsageError, match=says.replace(".", r"\.")):
        derive_table(synthetic.run_of(tmp_path, [trial]))


@pytest.mark.parametrize("missing", [("host",), ("start",), ("start", "window_ns"), ("start", "warmup_ns")])
def test_a_value_absent_from_a_record_exceeds_no_limit(missing: tuple[str, ...]) -> None:
    trial = synthetic.disturbed(synthetic.trial("t0"))
    place = trial
    for key in missing[:-1]:
        place = place[key]
    del place[missing[-1]]
    assert judge(trial, QUIET).status == "ok"


def test_a_better_rule_judges_an_old_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Table, report and verdicts follow and name the rules; the run folder does not change."""
    trials = [synthetic.trial("t0"), synthetic.trial("t1", repeat=1)]
    trials[1]["result"]["dut"]["lcores"][0]["event_cycles"] += round(0.015 * synthetic.WINDOW_CYCLES)
    run = synthetic.run_of(tmp_path, trials)
    before = (tmp_path / "trials.jsonl").read_bytes()
    assert current_table(run)["status"].tolist() == ["ok", "ok"]
    monkeypatch.setattr(noise, "MISFIT_SHARE", 0.01)
    assert current_table(run)["status"].tolist() == ["ok", "ok"]  # the table of these rules exists
    monkeypatch.setattr("pollscope.store.results_table.RULES", RULES + 1)
    assert current_table(run)["status"].tolist() == ["ok", "flagged"]
    assert current_table(run).attrs["rules"] == RULES + 1
    assert "1 of 2 trials is flagged" in report_html([run])
    assert evaluate_run(run)
    assert (tmp_path / "trials.jsonl").read_bytes() == before


@pytest.mark.thorough
def test_the_report_names_the_rules(tmp_path: Path) -> None:
    trials = [synthetic.trial("t0")]
    old = report_html([synthetic.run_of(tmp_path / "old", trials)])
    assert f"<td>{RULES}; 1 when the run decided which trials to repeat</td>" in old
    assert f"<td>{RULES}</td>" in report_html([synthetic.run_of(tmp_path / "new", trials, rules=RULES)])


def test_points_without_their_shape_are_reported_in_one_sentence(tmp_path: Path) -> None:
    """However many there are: neighbours differ in numbers only."""
    points = ["p", "q", "q", "r", "s", "u"]
    trials = [synthetic.trial(f"t{n}", point, n) for n, point in enumerate(points)]
    for trial in trials:
        trial["params"] = {"shape": "FB", "organisation": "scale-out"}
        trial["result"]["feed"] = {"hot": [0], "probability": 0}
        trial["result"]["dut"]["lcores"][0]["source"] = "rx-queues"
    run = synthetic.run_of(tmp_path, trials)
    (text,) = [each.text for each in cautions(run, current_table(run)) if each.topic == "shape"]
    assert text.startswith(
        "6 trials at 5 points had not the shape that was asked for: 'q' (2), 'p' (1), 'r' (1), 's' (1) and 1 more; "
        "the first of 'q': FB: "
    )
    assert f"shape: {text}" in steadiness(run, current_table(run))


def judged(value: float | None, status: Status = "ok") -> Judgement:
    return Judgement(status, "", (), {} if value is None else {"rx_pps": value}, {})


@pytest.mark.parametrize(
    ("baselines", "moved"),
    [
        ([judged(100), judged(102), judged(111)], [2]),
        ([judged(50, "flagged"), judged(100), judged(102)], []),  # the disturbed one is no reference
        ([judged(100), judged(150, "flagged"), judged(101)], []),  # and is not judged
        ([judged(100), judged(None, "failed"), judged(None), judged(90)], [3]),
        ([judged(100, "flagged")], []),
        ([judged(0), judged(5)], []),
        ([], []),
    ],
)
def test_drift_is_judged_among_baselines_that_nothing_disturbed(baselines: list[Judgement], moved: list[int]) -> None:
    found = drift_flags(baselines, "rx_pps", 0.05)
    assert [number for number, flags in enumerate(found) if flags] == moved
    assert {name for flags in found for name in names(flags)} <= {"drift"}


def test_each_pair_has_baselines_of_its_own(tmp_path: Path) -> None:
    trials = [
        synthetic.trial(f"b{n}@{pair}", "p", n, pps=rate) | {"kind": "baseline", "pair": pair}
        for n, pair, rate in [(0, "one", 1e6), (0, "two", 2e6), (1, "one", 1.01e6), (1, "two", 2.4e6)]
    ]
    spec = {"name": "synthetic", "baseline": {"metric": "rx_pps", "drift": 0.05}}
    run = synthetic.run_of(tmp_path, trials, spec=spec)
    table = current_table(run)
    assert [names(flags) for flags in flags_of(table)] == [[], [], [], ["drift"]]
    (text,) = [each.text for each in cautions(run, table) if each.topic == "drift"]
    assert "1 of 4 baselines without noise moved; the first, b1@two: the baseline's rx_pps moved by +20.0 %" in text


def test_a_trial_made_again_stands_where_it_was_measured(tmp_path: Path) -> None:
    trials = [synthetic.trial(name) for name in ("t0", "t1", "t0")]
    assert derive_table(synthetic.run_of(tmp_path, trials))["trial"].tolist() == ["t1", "t0"]
