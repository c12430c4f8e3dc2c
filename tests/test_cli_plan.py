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


MANY_CORES = ("S-F17a", "C-T2", "C-RIVALS", "H-F10")


def test_rows_are_planned_for_another_host(cli: Cli) -> None:
    done = cli("plan", "C-RIVALS", "--cpus", "16", "--summary")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("A plan for another host, not for this one: 16 CPUs, ")
    assert "All that can run there: " in done.stdout
    found = json.loads(cli("plan", *MANY_CORES, "--cpus", "16", "--summary", "--json").stdout)
    assert all(line["points"] and line["whole_s"] for line in found)
    assert all(line["other_host"].startswith("16 CPUs, ") for line in found)


def test_a_plan_for_another_host_names_it_per_spec(cli: Cli) -> None:
    spec = cli.spec("format: 1\nname: x\ntitle: t\nparameters: {load_pps: 0}\nfactors: {cores: [2, 3], queues: [3]}\n")
    done = cli("plan", spec, spec, "--cpus", "3")
    assert "x on another host (3 CPUs): t" in done.stdout
    assert "left out  queues=3,cores=3: needs 4 CPUs (3 workers, 1 generator)" in done.stdout
    assert "not ready" not in done.stderr
    planned = json.loads(cli("plan", spec, "--cpus", "4", "--json").stdout)
    assert (planned["left_out"], planned["other_host"].split(",")[0]) == ([], "4 CPUs")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--cpus", "0"), 2, "'--cpus'"),
        (("--cpus", "many"), 2, "'--cpus'"),
        (("--cpus", "1"), 3, "needs 2 CPUs"),
        (("--cpus", "8", "--testbed", "model"), 2, "--cpus: a testbed of kind model has CPUs of its own"),
        (("--cpus", "8", "--testbed", "mine.yaml"), 2, "--cpus: this testbed's file names the CPUs"),
    ],
)
def test_another_host_that_cannot_be_planned_for(cli: Cli, options: tuple[str, ...], code: int, said: str) -> None:
    (cli.folder / "mine.yaml").write_text("kind: loopback\ncpus: {main: 0, generator: 1, dut: [2]}\n")
    done = cli("plan", cli.spec(SPEC), *options)
    assert done.returncode == code
    assert said in done.stderr.splitlines()[-1]
