# SPDX-License-Identifier: BSD-3-Clause
"""Two that measure at once: the second is refused by name, or waits and says for whom."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from run_helpers import Cli

from pollscope.host.lock import HostLock

ALONE = Path(__file__).resolve().parent.parent / "benchmarks" / "alone.py"


def test_a_second_run_is_refused_by_name(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    with HostLock("run first-spec", tmp_path / "state" / "host.lock"):
        done = cli("run", cli.spec())
    assert done.returncode == 3
    assert "(run first-spec, since " in done.stderr.strip().splitlines()[-1]
    assert cli("run", cli.spec()).returncode == 0


def test_a_benchmark_waits_and_says_for_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
