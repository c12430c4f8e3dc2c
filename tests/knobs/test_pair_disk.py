# SPDX-License-Identifier: BSD-3-Clause
"""Test a host of a pair whose disk is full or fills during a run: one line, and no setting stays incomplete."""

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from knob_tree import Tree, wait_until
from pair_hosts import SPEC, pair_config, written
from run_helpers import Cli, last_attempts
from ssh_host import SshHost
from test_pair_remote_hosts import SWEEP

from pollscope.collectors.interface import CollectorOutcome
from pollscope.collectors.polling import PollingCollector
from pollscope.collectors.sources.host import KernelLoad
from pollscope.run.agent import Agent

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which needs root")
DISK = "size=256k"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small disk where the DUT keeps its lock and its journal."""
    folder = tmp_path / "dut/state"
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)  # an agent may be about to end


@pytest.fixture
def tree(tmp_path: Path, disk: Path) -> Tree:
    made = Tree(tmp_path / "tree")
    (made.root / "state").symlink_to(disk)
    return made


def fill(disk: Path, but_bytes: int = 0) -> Path:
    """Take the rest of the disk, or leave some bytes of it."""
    path, usage = disk / "filler", os.statvfs(disk)
    path.write_bytes(bytes(usage.f_bavail * usage.f_frsize - but_bytes))
    return path


def two_hosts(sshd: SshHost, folder: Path, tree: Tree) -> Path:
    return written(folder / "two.yaml", pair_config(sshd, folder, {"knob_root": str(tree.root)}))


@pytest.mark.thorough
def test_a_disk_that_fills_during_a_run_stops_changes_but_not_the_restore(
    cli: Cli, sshd: SshHost, tmp_path: Path, tree: Tree, disk: Path
) -> None:
    before = tree.picture()
    # Enough changes for the journal to need another page of the disk.
    spec = cli.spec(SWEEP.replace("count: 1", "count: 8"))
    testbed = two_hosts(sshd, tmp_path, tree)
    process = cli.start("run", spec, "--testbed", testbed)
    wait_until(lambda: tree.picture() != before)
    filler = fill(disk)
    _, said = process.communicate(timeout=250)
    assert process.returncode == 1, said
    reasons = {trial["reason"] for trial in cli.only_run().trials if trial["status"] == "failed"}
    assert reasons
    assert all("the journal cannot be written: " in reason for reason in reasons), reasons
    assert tree.picture() == before
    assert not list(disk.glob("knobs/*.journal"))
    filler.unlink()
    done = cli("run", "--resume", cli.run_folders()[0], "--testbed", testbed)
    assert done.returncode == 0, done.stderr
    assert tree.picture() == before


@pytest.mark.thorough
def test_recordings_without_room_fail_the_collector_and_not_the_trial(
    cli: Cli, sshd: SshHost, tmp_path: Path, disk: Path
) -> None:
    fill(disk, but_bytes=32_768)
    config = pair_config(sshd, tmp_path, {"before": f"export TMPDIR={disk}"})
    collectors = "collectors: [{name: kernel-load, interval: 10 ms, ends: [dut]}]\n"
    spec = cli.spec(SPEC.replace("burst: [8, 32]", "burst: [8]") + collectors)
    done = cli("run", spec, "--testbed", written(tmp_path / "two.yaml", config))
    assert done.returncode == 0, done.stderr
    (trial,) = last_attempts(cli.only_run()).values()
    assert trial["status"] != "failed"
    outcome = trial["collectors"]["dut/kernel-load"]
    assert outcome["status"] == "failed", outcome
    assert "No space left on device" in outcome["reason"]
    assert not list(disk.glob("pollscope-agent-*")), "the agent takes its recordings with it"


def test_an_agent_restores_whatever_its_collectors_raise(
    tmp_path: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(collector: KernelLoad) -> CollectorOutcome:
        PollingCollector.stop(collector)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(KernelLoad, "stop", no_space)
    before, agent = tree.picture(), at_work(Agent(tmp_path), tree)
    with pytest.raises(OSError, match="No space left"):
        agent.__exit__()
    assert tree.picture() == before


def test_a_second_signal_to_an_agent_does_not_stop_the_restore(
    tmp_path: Path, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second signal comes when the restore begins."""

    class InterruptingDict(dict[str, Any]):
        def values(self) -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            return super().values()

    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))
    before, agent = tree.picture(), at_work(Agent(tmp_path), tree)
    monkeypatch.setattr(agent, "_collectors", InterruptingDict(agent._collectors))
    with pytest.raises(KeyboardInterrupt):
        agent.__exit__()
    assert tree.picture() == before


def at_work(agent: Agent, tree: Tree) -> Agent:
    before = tree.picture()
    for request in (
        {"cmd": "knobs_open", "what": "a run", "restore_first": False, "root": str(tree.root), "emulated": False},
        {"cmd": "knobs_apply", "settings": {"governor": "performance"}},
        {"cmd": "start", "name": "kernel-load", "options": {}, "interval_ns": 10**7},
    ):
        assert "failed" not in agent.answer(request)
    assert tree.picture() != before
    return agent
