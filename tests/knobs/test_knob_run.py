# SPDX-License-Identifier: BSD-3-Clause
"""Test runs that sweep knobs of a made tree: set before each point, restored at the end, also after SIGKILL."""

import json
import random
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest
from knob_tree import Tree, wait_until
from run_helpers import Cli, assert_complete

SPEC = """\
format: 1
name: knobs
row: S-F5
title: t
parameters: {generator_receives: false, load_pps: 0}
knobs: {numa_balancing: off}
factors:
  knob.governor: [performance, powersave]
  knob.hugepages@node1/2048kB: [0, 512, 1024]
trial: {warmup: 0 ms, window: 10 ms, drain: 0 ms}
repeats: {count: 4}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "host")


@pytest.fixture
def testbed(tmp_path: Path, tree: Tree) -> Path:
    path = tmp_path / "on-a-tree.yaml"
    path.write_text(f"kind: loopback\nknob_root: {tree.root}\n")
    return path


def test_knobs_are_set_and_restored(cli: Cli, tree: Tree, testbed: Path) -> None:
    before = tree.picture()
    done = cli("run", cli.spec(SPEC), "--testbed", testbed)
    assert done.returncode == 0, done.stderr
    assert tree.picture() == before
    run = cli.only_run()
    assert_complete(run)
    assert run.meta["knobs_before"] == run.meta["knobs_after"]
    levels = [json.dumps(trial["factors"]) for trial in run.trials]
    assert len(set(levels)) == 6
    assert sum(first != second for first, second in pairwise(levels)) == 4 * 5


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
def test_sigkill_stops_the_next_run_until_it_is_restored(cli: Cli, tree: Tree, testbed: Path, seed: int) -> None:
    before = tree.picture()
    # 36 windows of 10 ms: the run lasts until the kill.
    process = cli.start("run", cli.spec(SPEC), "--testbed", testbed, "--set", "repeats.count=6")
    kill_when_set(process, tree, random.Random(seed).uniform(0, 0.5))
    assert tree.picture() != before
    resume = ("run", "--resume", cli.run_folders()[0], "--testbed", testbed)
    refused = cli(*resume)
    assert refused.returncode == 3
    assert len(refused.stderr.splitlines()) == 1
    assert "run knobs of" in refused.stderr
    assert "--restore-first" in refused.stderr
    resumed = cli(*resume, "--restore-first")
    assert resumed.returncode == 0, resumed.stderr
    assert "restored first: numa_balancing host: on again" in resumed.stderr
    assert tree.picture() == before
    assert_complete(cli.only_run())


# A knob's session at each signal: test_knob_session.py.
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(other, marks=pytest.mark.thorough) for other in (signal.SIGTERM, signal.SIGHUP))],
)
def test_a_signal_restores_and_leaves_a_run_to_resume(cli: Cli, tree: Tree, testbed: Path, number: int) -> None:
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip(f"{signal.Signals(number).name} is ignored here (nohup), and a run leaves that so")
    before = tree.picture()
    process = cli.start("run", cli.spec(SPEC), "--testbed", testbed, "--set", "repeats.count=500")
    kill_when_set(process, tree, 0.2, number)
    assert process.returncode == 130
    assert tree.picture() == before
    assert not journal(tree).exists()
    run = cli.only_run()
    assert run.meta["status"] == "interrupted"
    assert run.meta["knobs_before"] == run.meta["knobs_after"]


def test_points_with_knobs_that_the_host_lacks_are_left_out(cli: Cli, tree: Tree, testbed: Path) -> None:
    levels = "factors.knob.governor=[performance, schedutil]"
    done = cli("run", cli.spec(SPEC), "--testbed", testbed, "--set", levels, "--set", "repeats.count=1")
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    assert {trial["factors"]["knob.governor"] for trial in run.trials} == {"performance"}
    assert len(run.meta["left_out"]) == 3
    assert "the driver offers" in run.meta["left_out"][0]["reason"]


@pytest.mark.thorough
def test_a_knob_changed_by_others_fails_its_trials_and_is_not_overwritten(cli: Cli, tree: Tree, testbed: Path) -> None:
    spec = "\n".join(line for line in SPEC.splitlines() if "governor" not in line)
    process = cli.start("run", cli.spec(spec), "--testbed", testbed, "--set", "repeats.count=200")
    file = "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
    wait_until(lambda: cli.run_folders() != [] and len(read_lines(cli.run_folders()[0])) > 5)
    tree.write(file, "77\n")
    process.communicate(timeout=60)
    assert process.returncode == 3  # a value was not restored
    assert (tree.root / file).read_text() == "77\n"
    failed = [trial for trial in cli.only_run().trials if trial["status"] == "failed"]
    assert failed
    assert all("its knobs could not be set" in trial["reason"] for trial in failed)
    assert all("changed by someone else" in trial["reason"] for trial in failed)


def journal(tree: Tree) -> Path:
    return tree.root / "state/knobs/run.journal"


def read_lines(folder: Path) -> list[str]:
    path = folder / "trials.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def kill_when_set(
    process: subprocess.Popen[str], tree: Tree, later_s: float = 0.0, number: int = signal.SIGKILL
) -> None:
    """Send a signal once the run has set a knob."""
    wait_until(lambda: process.poll() is not None or (journal(tree).exists() and '"done"' in journal(tree).read_text()))
    time.sleep(later_s)
    process.send_signal(number)
    process.communicate(timeout=60)
