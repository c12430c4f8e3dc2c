# SPDX-License-Identifier: BSD-3-Clause
"""Test two measurements at once: the second is refused by name, or waits and names the holder."""

import fcntl
import grp
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_helpers import Cli

from pollscope.base.errors import HostError
from pollscope.host import lock
from pollscope.host.lock import HostLock
from pollscope.plan.plan import Plan, plan_parts
from pollscope.run import run

ALONE = Path(__file__).resolve().parent.parent / "benchmarks" / "alone.py"


def test_a_run_waits_for_the_host(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    holder = HostLock("run first-spec", tmp_path / "state" / "host.lock").acquire()
    process = cli.start("run", cli.spec(), "--wait", "--set", "factors.queues=[1]", "--set", "repeats.count=1")
    assert process.stderr is not None
    said = process.stderr.readline()
    assert (process.poll(), "waiting: this host is in use by pid" in said, "run first-spec" in said) == (
        None,
        True,
        True,
    )
    holder.release()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


@pytest.mark.thorough
def test_a_resumed_run_skips_trials_that_another_process_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process ends between the second's reading of the folder and its first trial."""
    cli = Cli(tmp_path)
    cli.ends(0, "run", cli.spec())
    (folder,) = cli.run_folders()
    files = {path: path.read_bytes() for path in folder.iterdir()}
    (folder / "trials.jsonl").write_bytes(b"".join(files[folder / "trials.jsonl"].splitlines(keepends=True)[:2]))
    (folder / "results.parquet").unlink()

    def ended(*given: Any) -> list[Plan]:
        for path, content in files.items():
            path.write_bytes(content)
        return plan_parts(*given)

    monkeypatch.setattr(run, "plan_parts", ended)
    cli.ends(0, "run", "--resume", folder)
    assert (folder / "trials.jsonl").read_bytes() == files[folder / "trials.jsonl"]


def test_a_benchmark_waits_and_names_the_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path))
    holder = HostLock("run first-spec").acquire()
    command = [sys.executable, str(ALONE), sys.executable, "-c", "import os; print(os.environ['POLLSCOPE_STATE_DIR'])"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
        assert waiting.poll() is None
        holder.release()
        out, _ = waiting.communicate(timeout=60)
    assert "waiting for pid" in said
    assert "run first-spec" in said
    assert waiting.returncode == 0
    assert out.strip() != str(tmp_path), "what the benchmark starts has a lock of its own"


def test_a_waiting_owner_takes_the_lock_when_it_is_free(tmp_path: Path) -> None:
    path, said = tmp_path / "host.lock", list[str]()
    first = HostLock("run first-spec", path).acquire()
    release = threading.Timer(0.2, first.release)
    release.start()
    with HostLock("second", path).wait(said.append):
        release.join()
    assert len(said) <= 1


def test_an_owner_that_ends_during_the_check_does_not_stop_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It held the lock when that was asked for, and is gone when its name is read."""
    path, answers = tmp_path / "host.lock", [False, False, False, True]
    HostLock("first", path).acquire().release()
    path.write_text(path.read_text().replace(f'"pid": {os.getpid()}', '"pid": 999999999'))
    monkeypatch.setattr(lock, "_try_lock", lambda *_: answers.pop(0))
    monkeypatch.setattr(lock, "_DYING_S", 0.0)
    monkeypatch.setattr(lock, "_ASK_EVERY_S", 0.0)
    with pytest.raises(HostError, match="which died"):  # a program that it started keeps the lock
        HostLock("second", path).wait(print)
    HostLock("third", path).wait(print).release()
    assert not answers


NOBODY = 65534


@pytest.fixture
def system_lock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a host's lock whose folder every user can reach, like that of the system."""
    if os.geteuid() != 0:
        pytest.skip("files of root and of another user need root")
    with tempfile.TemporaryDirectory(prefix="pollscope-run-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(lock, "HOST_LOCK", Path(folder) / "run/host.lock")
        monkeypatch.delenv(lock.STATE_VARIABLE, raising=False)
        yield lock.HOST_LOCK


def as_nobody(work: Callable[[], str], group: int = NOBODY) -> str:
    """Return a function's result, or the error that it raises, in a process of another user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(NOBODY)
            said = work()
        except (HostError, OSError) as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answer:
        return answer.read()


def taken() -> str:
    with HostLock("of a user") as held:
        return str(held.path)


def test_no_other_user_can_keep_the_hosts_lock(system_lock: Path) -> None:
    def block() -> str:
        fcntl.flock(os.open(system_lock, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "blocked"

    HostLock("the first").acquire().release()
    assert as_nobody(block).startswith("PermissionError")
    said = as_nobody(taken)
    assert "the host lock cannot be opened: Permission denied" in said
    assert "group pollscope" in said


def test_members_of_the_group_share_the_hosts_lock(system_lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = grp.getgrnam("users")
    monkeypatch.setattr(lock, "GROUP", users.gr_name)
    with HostLock("run S-F5"):
        assert "in use by" in as_nobody(taken, users.gr_gid)
    assert as_nobody(taken, users.gr_gid) == str(system_lock)
    assert stat.S_IMODE(system_lock.stat().st_mode) == 0o660


def test_without_a_lock_of_root_a_user_gets_their_own_lock(system_lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = system_lock.parent.with_name("user")
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    assert as_nobody(taken) == str(own / f"pollscope-{NOBODY}.lock")
    HostLock("of root").acquire().release()
    assert "Permission denied" in as_nobody(taken)
    assert as_nobody(lambda: str(lock.conductor_lock_path("lab"))) == str(own / f"pollscope-{NOBODY}-lab.lock")


def test_another_user_cannot_take_a_users_lock_beforehand(system_lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /tmp everybody can make `pollscope-UID.lock` first, hold it, and write the name of any process into it."""
    home = system_lock.parent.with_name("home")
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("HOME", str(home))
    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o1777)
        monkeypatch.setattr(tempfile, "tempdir", shared)
        with HostLock("of an attacker", Path(shared) / f"pollscope-{NOBODY}.lock"):
            assert as_nobody(taken) == str(home / f".local/state/pollscope/{socket.gethostname()}.lock")
