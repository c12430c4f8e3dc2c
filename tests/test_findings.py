# SPDX-License-Identifier: BSD-3-Clause
"""Test the sentences and the table that sum up runs: numbers with intervals, verdicts, and unmeasurable claims."""

import dataclasses
import re
from pathlib import Path

import pytest
import synthetic_run as synthetic
from command_line import pollscope
from markupsafe import escape

from pollscope.analysis.claims import VerdictKind, evaluate_run
from pollscope.analysis.findings import MOST_FINDINGS, findings, folded, run_command, verdict_lines
from pollscope.analysis.point_values import by_point, measured
from pollscope.analysis.report import report_html
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder, read_run


@pytest.fixture(scope="module")
def recorded(checkout: Path) -> list[RunFolder]:
    return [read_run(path) for path in sorted((checkout / "data" / "runs").glob("s-*"))]


def test_findings_are_few_and_state_numbers_of_the_runs(recorded: list[RunFolder]) -> None:
    sentences = findings(recorded)
    assert 3 <= len(sentences) <= MOST_FINDINGS
    assert all(re.search(r"\d.*\(n = \d+.*\)\.$", sentence) for sentence in sentences)
    tax = read_run(recorded[1].path)
    (point,) = (
        each
        for each in by_point(measured(current_table(tax)), "tax_share_running")
        if each.levels["queues"] == 8 and each.levels["load_of_max"] == 0.5
    )
    assert f"With 50 % load on 8 queues, {100 * point.estimate.value:.2f} ± " in sentences[0]


def test_a_run_of_something_else_has_no_finding(recorded: list[RunFolder]) -> None:
    without = [run for run in recorded if run.meta["row"] == "S-F8"]
    assert not any("load on" in sentence for sentence in findings(without))


def test_unmeasurable_claims_are_one_line_per_cause(recorded: list[RunFolder]) -> None:
    verdicts = [verdict for run in recorded for verdict in evaluate_run(run)]
    absent = [verdict for verdict in verdicts if verdict.kind is VerdictKind.NOT_MEASURABLE]
    text = folded(verdicts)
    assert "5 claims need a PMU" in text and "1 claim needs a NIC with PCIe" in text
    assert sum(int(count) for count in re.findall(r"(\d+) claims? need", text)) == len(absent)
    assert folded([verdict for verdict in verdicts if verdict not in absent]) == ""
    assert {claim for _, claim, _ in verdict_lines(verdicts)}.isdisjoint(verdict.claim.id for verdict in absent)


def test_a_slow_link_is_named_and_not_a_nic(checkout: Path) -> None:
    run = read_run(checkout / "data/runs/whole/c-f8-many-tcp-flows")
    assert folded(evaluate_run(run)) == "6 claims need a link of 10 Gbit/s"


def test_claims_begins_with_the_table_and_folds_what_is_absent(recorded: list[RunFolder], tmp_path: Path) -> None:
    run = recorded[0].path
    lines = pollscope("claims", run, cwd=tmp_path).stdout.splitlines()
    assert lines[0].startswith("Verdicts: 1 agrees, 1 disagrees, 1 inconclusive, ")
    assert lines[1].split()[:2] == ["agrees", "S-F10a.falls-from-64"]
    assert lines[4].startswith("Not measurable here: ") and lines[4].endswith("`pollscope claims --all`")
    assert lines[5].startswith("3 claims were tested at 5 %: if all were true, chance alone would make up to 0.15 ")
    assert not any(line.startswith("NOT MEASURABLE") for line in lines)
    whole = pollscope("claims", run, "--all", cwd=tmp_path).stdout.splitlines()
    assert sum(line.startswith("NOT MEASURABLE") for line in whole) == 4
    short = pollscope("claims", run, "--summary", cwd=tmp_path).stdout
    assert short.startswith("Findings\n- With all traffic in one queue, 512 queues instead of 1 leave ")
    assert "  finding:" not in short


def test_a_report_has_the_command_of_each_run(recorded: list[RunFolder], tmp_path: Path) -> None:
    run = recorded[1]
    assert run_command(run).startswith("pollscope run S-F5 --quick")
    other = dataclasses.replace(
        run,
        meta=run.meta
        | {
            "rows": [],
            "row": None,
            "spec_name": "mine",
            "testbed": {"name": "lab", "file": "beds/lab.yaml"},
            "overrides": {"quick": False, "set": ["factors.queues=[1, 8]"]},
        },
    )
    assert run_command(other) == "pollscope run mine.yaml --testbed beds/lab.yaml --set 'factors.queues=[1, 8]'"
    renamed = dataclasses.replace(run, meta=run.meta | {"rows": ["Q"], "row": "Q", "overrides": None})
    assert run_command(renamed) == "pollscope run s-f5-polling-tax"
    small = synthetic.run_of(tmp_path / "small", [synthetic.trial()])
    assert f"<code>{escape(run_command(small))}</code>" in report_html([small])


def test_findings_of_two_groups_name_them(tmp_path: Path) -> None:
    levels = [{"queues": queues, "rx_desc": rx_desc} for rx_desc in (64, 512) for queues in (1, 8)]
    trials = [trial for each in levels for trial in synthetic.repeated(each, pps=0.0, useful_share=0.0)]
    found = findings([synthetic.run_of(tmp_path / "run", trials)])
    assert len(set(found)) == 4
    assert found[-1].startswith("Without traffic, at rx_desc 512, one core makes ")


def test_a_tax_that_is_unknown_at_light_load_is_testpmds(tmp_path: Path) -> None:
    trials = [each for load in (0.1, 0.5) for each in synthetic.repeated({"load_of_max": load}, useful_share=load)]
    for trial in trials[:3]:
        del trial["result"]["dut"]["lcores"][0]["timed_intervals"]
    first = findings([synthetic.run_of(tmp_path / "run", trials)])[0]
    assert first.startswith("With 10 % load on 1 queue, ") and " polling tax as testpmd counts it (n = 3" in first
