# SPDX-License-Identifier: BSD-3-Clause
"""Runs look at the ground under them: canaries around blocks, blocks made again when it changed, and what is said."""

import json
from collections import Counter
from pathlib import Path

import pytest
from run_helpers import Cli, assert_complete

from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.testbeds.loopback import LoopbackTestbed

# Two blocks of maxima, two of four points; each canary is the node's next ground, the last holds for all others.
BLOCKS = ["maximum 0", "maximum 1", "measure 0", "measure 1"]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "nodes").touch()
    return Cli(tmp_path)


def with_grounds(cli: Cli, *cycles: int) -> None:
    cli.faults = {"grounds": list(cycles)}


def extra_trials(run: RunFolder) -> list[str]:
    return [trial["trial"] for trial in run.trials if trial["kind"] == "measure" and trial["repeat"] >= 2]


def on_main(run: RunFolder) -> Counter[str]:
    table = current_table(run)
    rows = table[(table["kind"] == "measure") & ~table["other_ground"]]
    assert rows["ground"].nunique() == 1
    return Counter(rows["point"])


def test_a_canary_stands_before_each_block_and_at_the_end(cli: Cli) -> None:
    done = cli("run", cli.spec())
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    assert_complete(run)
    assert [canary["canary"] for canary in run.canaries] == list(range(5))
    assert [canary["why"] for canary in run.canaries] == ["start", "block", "block", "block", "end"]
    assert [canary["block"] for canary in run.canaries] == [*BLOCKS, BLOCKS[-1]]
    assert [trial["ground"] for trial in run.trials] == [0] * 2 + [1] * 2 + [2] * 4 + [3] * 4
    assert set(current_table(run)["ground"]) == {"A"}
    assert "ground" not in done.stdout


def test_blocks_are_made_again_on_the_same_ground(cli: Cli) -> None:
    """The line changes before the second block of measured points: that before it lies between two grounds."""
    with_grounds(cli, 300, 301, 302, 900, 901)
    done = cli("run", cli.spec())
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    assert_complete(run)
    assert run.canaries[4]["why"] == "again", "a canary that differs is taken once more"
    assert len(extra_trials(run)) == 4
    assert "CPU 0 - CPU 1: 301 cycles in 3, 901 cycles in 3 of 6 canaries): extra block 1 of" in done.stderr
    assert on_main(run) == dict.fromkeys(on_main(run), 2)
    assert len(on_main(run)) == 4
    assert "warning: ground: The ground under the run changed" in done.stdout
    assert run.meta["warnings"] == []
    assert run.meta["plan"][-4:] == extra_trials(run)


def test_extra_blocks_are_few_and_what_they_did_not_reach_is_said(cli: Cli) -> None:
    with_grounds(cli, *[300, 300, 900, 900] * 10)
    done = cli("run", cli.spec())
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    assert_complete(run)
    assert len(extra_trials(run)) == 8
    (warning,) = [text for text in run.meta["warnings"] if "ground" in text]
    assert "after 2 extra blocks 4 of 4 points" in warning
    assert not current_table(run)["other_ground"].any()
    assert "all trials are pooled" in done.stdout


def test_a_spec_may_forbid_extra_blocks(cli: Cli) -> None:
    with_grounds(cli, 300, 301, 302, 900, 901)
    assert cli("run", cli.spec(), "--set", "noise.extra_blocks=0").returncode == 0
    assert extra_trials(cli.only_run()) == []
    assert "after 0 extra blocks" in cli.only_run().meta["warnings"][0]


def test_emulated_machines_have_no_ground_to_wait_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopbackTestbed, "emulated", True)
    with_grounds(cli, 300, 301, 302, 900, 901)
    assert cli("run", cli.spec()).returncode == 0
    assert extra_trials(cli.only_run()) == []
    assert cli.only_run().meta["warnings"] == []


def test_a_moment_divides_nothing(cli: Cli) -> None:
    with_grounds(cli, 300, 900, 300)
    done = cli("run", cli.spec())
    assert extra_trials(cli.only_run()) == []
    assert set(current_table(cli.only_run())["ground"]) == {"A"}
    assert "ground" not in done.stdout


def test_a_node_without_canaries_runs_as_before(cli: Cli) -> None:
    cli.faults = {"ground": "refuse"}
    done = cli("run", cli.spec())
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    assert_complete(run)
    assert all("refused on purpose" in canary["absent"] for canary in run.canaries)
    assert set(current_table(run)["ground"]) == {""}


def test_a_node_that_dies_in_a_canary_costs_no_trial(cli: Cli) -> None:
    cli.faults = {"ground": "die"}
    done = cli("run", cli.spec())
    assert done.returncode == 0, done.stderr
    assert_complete(cli.only_run())
    assert all("ended with status 9" in canary["absent"] for canary in cli.only_run().canaries)
    assert cli.nodes_alive() == []


def test_resume_goes_on_with_the_canaries(cli: Cli) -> None:
    with_grounds(cli, 300)
    assert cli("run", cli.spec()).returncode == 0
    (folder,) = cli.run_folders()
    lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
    (folder / "trials.jsonl").write_text("".join(lines[:-3]))
    whole = (folder / "ground.jsonl").read_text()
    (folder / "ground.jsonl").write_text(whole[: whole.rindex("hosts")])  # cut off in the last line
    with_grounds(cli, 900)
    done = cli("run", "--resume", folder)
    assert done.returncode == 0, done.stderr
    run = read_run(folder)
    assert_complete(run)
    assert [canary["canary"] for canary in run.canaries] == list(range(len(run.canaries)))
    assert "extra block 1 of at most 2" in done.stderr
    before = (folder / "trials.jsonl").read_bytes(), (folder / "ground.jsonl").read_bytes()
    assert cli("run", "--resume", folder).returncode == 0
    assert ((folder / "trials.jsonl").read_bytes(), (folder / "ground.jsonl").read_bytes()) == before


def test_a_broken_canary_is_named(cli: Cli) -> None:
    assert cli("run", cli.spec()).returncode == 0
    (folder,) = cli.run_folders()
    text = (folder / "ground.jsonl").read_text().splitlines()
    (folder / "ground.jsonl").write_text("\n".join([text[0], "{}", *text[2:]]) + "\n")
    done = cli("claims", folder)
    assert done.returncode == 2
    assert "ground.jsonl: line 2: has no 'canary'" in done.stderr


LOOPBACK = """\
format: 1
name: canaries
row: S-F5
title: t
parameters: {generator_receives: false, load_pps: 100 kpps}
factors:
  queues: [1, 8]
trial: {warmup: 10 ms, window: 50 ms, drain: 20 ms}
repeats: {count: 3}
"""


@pytest.mark.measure
def test_a_run_on_the_real_node_records_canaries(tmp_path: Path, build_dir: Path) -> None:
    (tmp_path / "nodes").touch()
    cli = Cli(tmp_path, build_dir / "pollscope-node")
    done = cli("run", cli.spec(LOOPBACK))
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    assert_complete(run)
    assert len(run.canaries) >= 4
    # The least: a host that takes the CPU away makes any of them longer.
    assert min(canary["hosts"][0]["took_ns"] for canary in run.canaries) < 100_000_000
    for canary in run.canaries:
        (host,) = canary["hosts"]
        assert [core["cpu"] for core in host["cores"]] == host["lines"][0]["cpus"]
        assert len(host["lines"][0].get("cycles", range(32))) == 32
    assert all(trial["ground"] in range(len(run.canaries)) for trial in run.trials)
    table = current_table(run)
    assert set(table["ground"]) <= {"between", *map(chr, range(ord("A"), ord("Z")))}
    page = tmp_path / "r.html"
    assert cli("report", run.path, "--out", page).returncode == 0
    assert "The ground under the run (it" in page.read_text()
    assert json.loads((run.path / "ground.jsonl").read_text().splitlines()[0])["why"] == "start"
