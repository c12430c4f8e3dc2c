# SPDX-License-Identifier: BSD-3-Clause
"""Test `pollscope plan`: summaries, several specs, and what it prints before a measurement."""

import json
from pathlib import Path

import pytest
from run_helpers import SPEC, Cli

from pollscope.cli import missing as missing_module
from pollscope.cli.missing import missing
from pollscope.cli.plan import row_order
from pollscope.spec import load_file, load_text
from pollscope.spec.find import known_specs
from pollscope.testbeds import make_testbed

NO_PMU = "no hardware PMU (ENOENT)"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_the_summary_of_a_paper_has_one_line_per_spec(cli: Cli, checkout: Path) -> None:
    done = cli("plan", "--paper", "corec", "--summary")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["row", "points", "quick", "whole", "missing", "title"]
    rows = [line.split()[0].rstrip(",") for line in lines[1 : lines.index("")]]
    specs = [load_file(path).spec for path in (checkout / "experiments" / "corec").glob("*.yaml")]
    assert sorted(rows) == sorted(spec.all_rows[0] for spec in specs)


def test_rows_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["S-F10a", "S-F9", "S-T4.2", "S-F7b", "S-F7a"], key=row_order) == [
        "S-F7a",
        "S-F7b",
        "S-F9",
        "S-F10a",
        "S-T4.2",
    ]


def test_the_summary_says_what_is_missing_and_takes_specs(cli: Cli) -> None:
    found = json.loads(cli("plan", "S-F17a", "S-F8", "--summary", "--json").stdout)
    assert [line["rows"] for line in found] == [["S-F17a"], ["S-F8"]]
    if found[0]["points"] == 0:
        assert found[0]["whole_s"] is None
        assert "needs" in found[0]["missing"][-1]
    assert found[1]["points"] <= found[1]["of"] == 68
    assert found[1]["quick_s"] < found[1]["whole_s"]


def test_several_specs_are_planned_one_after_the_other(cli: Cli) -> None:
    done = cli("plan", cli.spec(SPEC), "SANITY")
    assert done.returncode == 0
    assert done.stdout.count(" trials, about ") == 2
    documents = json.loads(cli("plan", cli.spec(SPEC), "SANITY", "--json").stdout)
    assert [each["spec"] for each in documents][1] == "sanity-loopback"


def test_without_a_point_no_time_is_stated(cli: Cli) -> None:
    done = cli("plan", cli.spec(SPEC), "--set", "factors.cores=[128]")
    assert done.returncode == 3
    assert "no trial: no point is left" in done.stdout
    assert "about" not in done.stdout


def test_specs_or_a_paper(cli: Cli) -> None:
    for words in ((), ("SANITY", "--paper", "corec")):
        done = cli("plan", *words)
        assert (done.returncode, "give specs, or --paper" in done.stderr) == (2, True)


def test_a_metric_that_will_be_absent_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_module, "pmu_absence", lambda: NO_PMU)
    found = {each.what: each for each in missing(load_file(known_specs()["S-F6"]).spec, make_testbed("loopback"))}
    pmu = found["PMU"]
    assert "ipc" in pmu.metrics
    assert pmu.claims > 0
    assert f"will be absent, because {NO_PMU}; {pmu.claims} of {pmu.of_claims} claims cannot be judged" in str(pmu)
    monkeypatch.setattr(missing_module, "pmu_absence", lambda: None)
    assert "PMU" not in [each.what for each in missing(load_file(known_specs()["S-F6"]).spec, make_testbed("loopback"))]


def test_figures_of_an_own_question_count_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_module, "pmu_absence", lambda: NO_PMU)
    text = "format: 1\nname: x\ntitle: t\nparameters: {load_pps: 0}\nfactors: {queues: [1, 2]}\n"
    loopback = make_testbed("loopback")
    assert list(missing(load_text(text, "x.yaml").spec, loopback)) == []
    asked = load_text(text + "show: {x: queues, y: [ipc, rx_pps]}\n", "x.yaml").spec
    (only,) = missing(asked, loopback)
    assert only.metrics == ("ipc",)
    assert list(missing(asked, make_testbed("model"))) == []
