# SPDX-License-Identifier: BSD-3-Clause
"""Check that every byte of the host is restored, whenever a run is killed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from knob_tree import PORT, Command, Tree

from pollscope.host.lock import HostLock
from pollscope.knobs import Knob, KnobSession, LeftBehind, NotRestored, Policy, knobs_of, restore_all
from pollscope.knobs.session import left_behind, run_journal
from pollscope.knobs.sysfs import NumaBalancing

pytestmark = pytest.mark.skipif(shutil.which("setpci") is None, reason="setpci is not installed (pciutils)")

SWEEPER = Path(__file__).with_name("knob_sweeper.py")
LATEST_S = 0.15


@dataclass
class Sweeper:
    """Sweeps in processes that are killed; `forker` forks them."""

    tree: Tree
    forker: subprocess.Popen[str]

    def kill_at_random(self, seed: int) -> None:
        """Start a sweep and kill it, and nothing that it started, at a random moment.

        Four of five are killed after their first entry in the journal: on a busy host the others may not have come so
        far.
        """
        assert self.forker.stdin is not None and self.forker.stdout is not None
        self.forker.stdin.write(f"{seed}\n")
        self.forker.stdin.flush()
        pid = int(self.forker.stdout.readline())
        deadline = time.monotonic() + 60
        while seed % 5 and not run_journal(self.tree.host).exists():
            assert time.monotonic() < deadline, "the sweep does not begin"
            time.sleep(0.001)
        time.sleep(random.Random(seed).uniform(0.0, LATEST_S))
        os.kill(pid, signal.SIGKILL)
        assert int(self.forker.stdout.readline()) == -signal.SIGKILL


@pytest.fixture
def sweeper(tree: Tree) -> Iterator[Sweeper]:
    pipe = subprocess.PIPE
    command = [sys.executable, str(SWEEPER), str(tree.root)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as forker:
        yield Sweeper(tree, forker)
        assert forker.communicate() == ("", "")


@pytest.mark.parametrize("kills", [15, pytest.param(50, marks=pytest.mark.thorough)])
def test_sigkill_at_any_moment(tree: Tree, sweeper: Sweeper, kills: int) -> None:
    before = tree.picture()
    left, outcomes = 0, []
    for seed in range(kills):
        sweeper.kill_at_random(seed)
        with HostLock("test", tree.host.lock_path):
            left += bool(left_behind(tree.host))
            outcomes += restore_all(tree.host, knobs_of(tree.host))
            assert left_behind(tree.host) == ""
        assert tree.picture() == before, f"seed {seed}"
        assert not run_journal(tree.host).exists()
    assert all(outcome.restored for outcome in outcomes), [str(outcome) for outcome in outcomes if not outcome.restored]
    assert left >= kills // 2  # else the kills came at moments at which there was nothing to lose


@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.thorough)])
def test_sigkill_of_the_restore_itself(tree: Tree, sweeper: Sweeper, kills: int) -> None:
    before = tree.picture()
    program = (
        "import sys; from pathlib import Path\n"
        "from pollscope.knobs import *; from pollscope.host.lock import HostLock\n"
        "host = KnobHost.at(Path(sys.argv[1])); print('restoring', flush=True)\n"
        "with HostLock('restore', host.lock_path): restore_all(host, knobs_of(host))"
    )
    for seed in range(kills):
        sweeper.kill_at_random(1000 + seed)
        command = [sys.executable, "-c", program, str(tree.root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(random.Random(seed).uniform(0.0, 0.02))
            process.kill()
        with KnobSession("test", tree.host, restore_first=True):
            assert tree.picture() == before, f"seed {seed}"


def test_a_left_behind_journal_stops_the_next_run(tree: Tree, sweeper: Sweeper, knob: Command) -> None:
    for seed in range(100):
        sweeper.kill_at_random(2000 + seed)
        if left_behind(tree.host):
            break
    with pytest.raises(LeftBehind, match=r"sweep \d+ of .* did not restore: .*knob restore.*--restore-first"):
        KnobSession("next run", tree.host).__enter__()
    done = knob("set", "numa_balancing", "off")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "did not restore" in done.stderr
    assert "did not restore" in knob("list").stderr
    assert knob("restore").returncode == 0
    with KnobSession("next run", tree.host):
        pass


def test_restore_waits_for_a_tool_that_outlived_its_run(tree: Tree) -> None:
    lock = HostLock("dying run", tree.host.lock_path).acquire()
    orphan = subprocess.Popen(["sleep", "0.5"], pass_fds=(lock.descriptor,))
    lock.release()
    holder = '{"pid": 4194304, "start_ticks": 1, "what": "dying run", "since_utc": "2026-01-01T00:00:00+00:00"}'
    tree.host.lock_path.write_text(holder)
    began = time.monotonic()
    with HostLock("restore", tree.host.lock_path):
        waited_s = time.monotonic() - began
    orphan.wait()
    assert 0.2 < waited_s < 5


def test_a_register_write_that_outlives_its_run_is_undone(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree.picture()
    slow = tree.root / "bin/setpci"
    slow.parent.mkdir()
    began = tree.root / "began"
    real = shutil.which("setpci")
    slow.write_text(
        f'#!/bin/sh\nfor last; do :; done\ncase "$last" in *=0:*) : > {began}; sleep 0.6;; esac\nexec {real} "$@"\n'
    )
    slow.chmod(0o755)
    program = (
        "import sys; from pathlib import Path; from pollscope.knobs import KnobHost, KnobSession\n"
        "with KnobSession('run', KnobHost.at(Path(sys.argv[1]))) as session: session.set('ddio', None, 'off')"
    )
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(slow.parent), prepend=":")
        run = subprocess.Popen([sys.executable, "-c", program, str(tree.root)])
    while not began.exists():
        assert run.poll() is None
        time.sleep(0.005)
    run.kill()
    run.wait()
    with KnobSession("next run", tree.host, restore_first=True) as session:
        assert [str(outcome) for outcome in session.restored_first] == [f"ddio {PORT}: on again"]
    time.sleep(0.7)
    assert tree.picture() == before


def test_a_restore_that_tore_a_file_is_repeated(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree.picture()
    file = tree.root / "proc/sys/kernel/numa_balancing"
    session = KnobSession("test", tree.host).__enter__()
    session.set("numa_balancing", None, "off")
    session.lock.release()  # leave it like a killed run

    def tear(_knob: Knob, _target: str, _state: str) -> None:
        file.write_text("")
        raise SystemExit

    with monkeypatch.context() as patch, pytest.raises(SystemExit):  # noqa: PT012 - the error comes out of the restore
        patch.setattr(NumaBalancing, "write", tear)
        restore_all(tree.host, knobs_of(tree.host))
    assert [str(each) for each in restore_all(tree.host, knobs_of(tree.host))] == ["numa_balancing host: on again"]
    assert tree.picture() == before


def test_keep_accepts_what_cannot_be_restored(tree: Tree) -> None:
    with pytest.raises(NotRestored, match="changed by someone else"), KnobSession("test", tree.host) as session:  # noqa: PT012 - the error comes when the session ends
        session.set("numa_balancing", None, "off")
        session.set("turbo", None, "off")
        tree.write("proc/sys/kernel/numa_balancing", "2\n")
    outcomes = restore_all(tree.host, knobs_of(tree.host), Policy.KEEP)
    assert [outcome.restored for outcome in outcomes] == [True]
    assert (tree.root / "proc/sys/kernel/numa_balancing").read_text() == "2\n"
    assert not run_journal(tree.host).exists()
