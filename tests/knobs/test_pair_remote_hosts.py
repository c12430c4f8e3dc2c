# SPDX-License-Identifier: BSD-3-Clause
"""Test collectors, knobs and metadata of the two hosts of a pair, over a real sshd."""

import os
import re
import signal
from pathlib import Path

import pandas as pd
import pytest
from knob_tree import Tree, wait_until
from pair_hosts import SPEC, pair_config, written
from run_helpers import Cli, assert_complete, last_attempts
from ssh_host import SshHost

from pollscope.analysis.collected import deliveries
from pollscope.host.boot_note import boot_note, write_boot_note
from pollscope.host.lock import HostLock
from pollscope.testbeds.pair.remote_host import Clock, Clocks

LOAD = "collectors:\n  - {name: kernel-load, interval: 50 ms}\n"
KNOBS = "knobs: {numa_balancing: off}\n"
# Long enough for agents that share their CPUs with other tests to record in some windows.
LONG = SPEC.replace("window: 100 ms", "window: 2 s")
SWEEP = SPEC.replace("burst: [8, 32]", "knob.governor: [performance, powersave]")
ENDLESS = SWEEP.replace("window: 100 ms", "window: 60 s") + KNOBS


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree")


@pytest.mark.thorough
def test_collectors_run_on_both_hosts_on_the_clock_of_the_run(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    testbed = written(tmp_path / "two.yaml", pair_config(sshd, tmp_path))
    done = cli("run", cli.spec(LONG + LOAD + "  - {name: cpu-settings, ends: [dut]}\n"), "--testbed", testbed)
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    assert_complete(run)
    names = {"dut/kernel-load", "generator/kernel-load", "dut/cpu-settings"}
    assert set(run.meta["collectors"]) == names
    for trial in last_attempts(run).values():
        assert {name: each["status"] for name, each in trial["collectors"].items()} == dict.fromkeys(names, "ok")
        table = pd.read_parquet(run.path / trial["samples"])
        assert {path.split("/")[0] for path in table["unit_path"]} == {"dut", "generator"}
        _start, window, drain = (phase["t_ns"] for phase in trial["phases"])
        load = table[table["source"] == "kernel-load"]
        for host in ("dut", "generator"):
            inside = load[load["unit_path"].str.startswith(f"{host}/") & load["t_ns"].between(window, drain - 1)]
            assert trial["collectors"][f"{host}/kernel-load"]["samples_in_window"] == len(inside) > 0
            assert trial["collectors"][f"{host}/kernel-load"]["means"]["context_switches"]["value"] > 0
        # Both hosts are this one, so the clocks differ only by the error of the comparison.
        clocks = [each["clock"] for each in trial["host"]["ends"].values()]
        assert all(abs(clock["offset_ns"]) <= clock["error_at_most_ns"] for clock in clocks)
    assert {each.name for each in deliveries(run)} == names
    assert not sshd.connections()


@pytest.mark.thorough
def test_metadata_and_noise_of_both_hosts(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    testbed = written(tmp_path / "two.yaml", pair_config(sshd, tmp_path))
    assert cli("run", cli.spec(SPEC), "--testbed", testbed).returncode == 0
    run = cli.only_run()
    assert run.meta["host"]["kernel"] == run.meta["generator"]["host"]["kernel"] == os.uname().release
    assert run.meta["conductor"]["kernel"] == os.uname().release
    for trial in last_attempts(run).values():
        assert trial["host"]["steal_ticks"] >= 0
        assert set(trial["host"]["ends"]) == {"dut", "generator"}
        assert trial["host"]["ends"]["dut"]["interrupts"].keys() == {"1"}
    with_table = pd.read_parquet(run.path / "results.parquet")
    assert with_table["metric.steal_ticks"].notna().all()


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", ["absent", "old"])
def test_a_host_without_pollscope_has_no_collectors(cli: Cli, sshd: SshHost, tmp_path: Path, wrong: str) -> None:
    config = pair_config(sshd, tmp_path)
    program = Path(config["generator"]["pollscope"])
    if wrong == "absent":
        program.unlink()
    else:
        hello = '{"event": "hello", "protocol": 3, "pollscope": "0.0.1"}'
        program.write_text(f"#!/bin/sh\necho '{hello}'\nexec cat\n")
    done = cli("run", cli.spec(LONG + LOAD), "--testbed", written(tmp_path / "two.yaml", config))
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    reason = {"absent": "there is no program", "old": "is pollscope 0.0.1"}[wrong]
    assert reason in run.meta["generator"]["host"]["absent"]
    for trial in last_attempts(run).values():
        assert trial["collectors"]["dut/kernel-load"]["status"] == "ok"
        assert trial["collectors"]["generator/kernel-load"]["status"] == "absent"
        assert reason in trial["collectors"]["generator/kernel-load"]["reason"]
        assert reason in trial["host"]["absent"]


def agents_of(folder: Path) -> list[int]:
    """Return agents whose state is in `folder`."""
    found = []
    for path in (process / "environ" for process in Path("/proc").glob("[0-9]*")):
        try:
            if f"POLLSCOPE_STATE_DIR={folder}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.thorough  # its journal: test_a_killed_agent_leaves_a_journal_that_the_next_run_finds
def test_an_agent_that_is_killed_costs_its_collectors_and_comes_back(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    testbed = written(tmp_path / "two.yaml", pair_config(sshd, tmp_path))
    spec = cli.spec(LONG.replace("window: 2 s", "window: 3 s") + LOAD)
    process = cli.start("run", spec, "--testbed", testbed)
    # The generator's are started once the DUT's run.
    wait_until(lambda: any(cli.folder.glob("results/*/*/collectors/*/generator")))
    for pid in agents_of(tmp_path / "dut" / "state"):
        os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=250)
    assert process.returncode == 0, [err, *(trial.get("reason") for trial in cli.only_run().trials)]
    first, second = last_attempts(cli.only_run()).values()
    assert first["collectors"]["dut/kernel-load"]["status"] == "failed"
    assert first["collectors"]["generator/kernel-load"]["status"] == "ok"
    assert second["collectors"]["dut/kernel-load"]["status"] == "ok"


def test_knobs_are_restored_after_a_lost_connection(cli: Cli, sshd: SshHost, tmp_path: Path, tree: Tree) -> None:
    before = tree.picture()
    testbed = written(tmp_path / "two.yaml", pair_config(sshd, tmp_path, {"knob_root": str(tree.root)}))
    spec = cli.spec((SWEEP + KNOBS).replace("window: 100 ms", "window: 3 s"))
    process = cli.start("run", spec, "--testbed", testbed)
    wait_until(lambda: tree.picture() != before)
    wait_until(lambda: len(sshd.connections()) >= 4)
    for pid in sshd.connections():
        os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=250)
    assert "Traceback" not in err
    assert tree.picture() == before


@pytest.mark.thorough
def test_a_killed_agent_leaves_a_journal_that_the_next_run_finds(
    cli: Cli, sshd: SshHost, tmp_path: Path, tree: Tree
) -> None:
    before = tree.picture()
    testbed = written(tmp_path / "two.yaml", pair_config(sshd, tmp_path, {"knob_root": str(tree.root)}))
    process = cli.start("run", cli.spec(ENDLESS), "--testbed", testbed)
    wait_until(lambda: tree.picture() != before)
    process.kill()
    for pid in agents_of(tmp_path / "dut" / "state"):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    if tree.picture() == before:
        pytest.skip("the agent was faster than the signal")
    refused = cli("run", cli.spec(SPEC, "plain.yaml"), "--testbed", testbed)
    assert refused.returncode == 3
    assert len(refused.stderr.splitlines()) == 1
    assert "did not restore: " in refused.stderr
    done = cli("run", cli.spec(SPEC, "plain.yaml"), "--testbed", testbed, "--restore-first")
    assert done.returncode == 0, done.stderr
    assert tree.picture() == before


@pytest.mark.thorough
@pytest.mark.parametrize("shared", ["dut", "generator"])
def test_two_controllers_on_one_pair(cli: Cli, sshd: SshHost, tmp_path: Path, tree: Tree, shared: str) -> None:
    """The second controller has another lock of its own: it is the host that both have that refuses it."""
    before = tree.picture()
    config = pair_config(sshd, tmp_path, {"knob_root": str(tree.root)})
    testbed = written(tmp_path / "two.yaml", config)
    process = cli.start("run", cli.spec(ENDLESS), "--testbed", testbed)
    wait_until(lambda: tree.picture() != before and cli.run_folders())
    turned = tree.picture()
    (tmp_path / "other").mkdir()
    other = Cli(tmp_path / "other")
    own = pair_config(sshd, tmp_path / "other") | {shared: config[shared]}
    refused = other("run", other.spec(SPEC), "--testbed", written(tmp_path / "other/two.yaml", own))
    assert tree.picture() == turned, "what the first has set stays"
    process.kill()
    process.communicate()
    assert refused.returncode == 3
    assert len(refused.stderr.splitlines()) == 1
    assert re.search(rf"this host is in use by pid \d+ \(run pair-ends by \S+@{os.uname().nodename}, ", refused.stderr)
    assert refused.stderr.startswith(f"pollscope: {shared} ")
    assert not other.run_folders()
    wait_until(lambda: tree.picture() == before)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("--restore-first",)])
def test_a_run_that_reboots_the_dut_is_not_taken_for_a_dead_one(
    cli: Cli, sshd: SshHost, tmp_path: Path, tree: Tree, options: tuple[str, ...]
) -> None:
    """Between the reboots of its sweep the run holds the generator alone; on the DUT there is its note."""
    write_boot_note(tree.host.state_dir, "run I-IOMMU")
    testbed = written(tmp_path / "two.yaml", pair_config(sshd, tmp_path, {"knob_root": str(tree.root)}))
    with HostLock("run I-IOMMU", tmp_path / "generator/state/host.lock"):
        refused = cli("run", cli.spec(SPEC), "--testbed", testbed, *options)
    assert refused.returncode == 3
    assert "generator" in refused.stderr
    assert "this host is in use by pid" in refused.stderr
    assert boot_note(tree.host.state_dir)


def test_clocks_that_drift_apart_are_joined() -> None:
    clocks = Clocks([Clock(1_000, 500, 1), Clock(11_000, 600, 1)])
    assert clocks.here_ns(1_500) == 1_000
    assert clocks.here_ns(11_600) == 11_000
    assert clocks.here_ns(6_550) == 6_000
