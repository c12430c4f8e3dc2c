# SPDX-License-Identifier: BSD-3-Clause
"""Test modelled sweeps on a Dask cluster: the same bits for any number of workers, and no loss when one dies."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import pollscope

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="Dask is not installed (pip install 'pollscope[dask]')"
)
SECONDS = 120  # seconds on a loaded machine
SWEEP = (
    *("run", "S-F9", "--quick", "--testbed", "model", "--set", "factors.queues=[1, 8, 64]"),
    *("--set", "trial.window=20 ms", "--set", "repeats={count: 4}"),
)
LOADS = (
    *("run", "S-F5", "--quick", "--testbed", "model", "--set", "factors.queues=[1]", "--set", "factors.lookups=[1]"),
    *("--set", "factors.load_of_max=[0 %, 50 %]", "--set", "trial.window=5 ms", "--set", "repeats={count: 2}"),
)


class Workers:
    """A scheduler and its workers, processes of this test."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self._host = host
        self._folder, self._file = folder, folder / "scheduler.json"
        self._processes = [
            self._started("distributed.cli.dask_scheduler", "--port", "0", "--scheduler-file", str(self._file))
        ]
        _until(self._file.exists)
        self.address = json.loads(self._file.read_text(encoding="utf-8"))["address"]

    def add(self) -> "subprocess.Popen[bytes]":
        """Add one worker with one thread, without a supervisor that restarts it."""
        options = ("--no-nanny", "--nthreads", "1", "--local-directory", str(self._folder))
        worker = self._started("distributed.cli.dask_worker", self.address, *options)
        self._processes.append(worker)
        return worker

    def _started(self, module: str, *options: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-W", "ignore", "-m", module, *options, "--no-dashboard", "--host", self._host]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)

    def end(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait(SECONDS)


def _until(true: Callable[[], bool]) -> None:
    for _ in range(SECONDS * 20):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it did not become true")


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    found = Workers(folder)
    yield found
    found.end()


def results(out: Path) -> dict[str, Any]:
    """Return trial -> result of the only run below a folder."""
    (path,) = out.glob("*/*/trials.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    return {record["trial"]: record["result"] for record in map(json.loads, lines)}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sweep", "numbers"),
    [(SWEEP, (1, 2)), (LOADS, (1,))],
    ids=["rates", "loads of a maximum"],
)
def test_a_cluster_gives_the_same_bits(
    tmp_path: Path, workers: Workers, sweep: tuple[str, ...], numbers: tuple[int, ...]
) -> None:
    assert pollscope(*sweep, "--out", "local", cwd=tmp_path).returncode == 0
    added = 0
    for number in numbers:
        while added < number:
            workers.add()
            added += 1
        done = pollscope(*sweep, "--out", f"{number}", "--dask", workers.address, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert results(tmp_path / "local") == results(tmp_path / f"{number}")


@pytest.mark.thorough
def test_a_lost_worker_loses_no_result(tmp_path: Path, workers: Workers) -> None:
    first, _second = workers.add(), workers.add()
    assert pollscope(*SWEEP, "--out", "local", cwd=tmp_path).returncode == 0
    command = [str(Path(sys.executable).with_name("pollscope")), *SWEEP, "--out", "there", "--dask", workers.address]
    with (tmp_path / "said").open("w", encoding="utf-8") as said:
        running = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said, env=os.environ | {"NO_COLOR": "1"})
    try:
        _until(
            lambda: sum(len(path.read_bytes().splitlines()) for path in tmp_path.glob("there/*/*/trials.jsonl")) >= 2
        )
        first.kill()
        assert running.wait(SECONDS) == 0, (tmp_path / "said").read_text(encoding="utf-8")
    finally:
        running.kill()
    assert results(tmp_path / "there") == results(tmp_path / "local")


@pytest.mark.thorough
def test_an_unusable_scheduler_is_refused_in_one_line(tmp_path: Path) -> None:
    nobody = pollscope(*SWEEP, "--dask", "tcp://127.0.0.1:9", cwd=tmp_path)
    said = [line for line in nobody.stderr.splitlines() if not line.startswith("quick: ")]
    assert (nobody.returncode, len(said)) == (3, 1)
    assert "--dask tcp://127.0.0.1:9" in said[0]
    measured = pollscope("run", "S-F9", "--quick", "--dask", "tcp://127.0.0.1:9", cwd=tmp_path)
    assert (measured.returncode, "is for modelled testbeds, and loopback is none" in measured.stderr) == (2, True)
    resumed = pollscope("run", "--resume", "latest", "--dask", "tcp://127.0.0.1:9", cwd=tmp_path)
    assert resumed.returncode == 2
    assert not (tmp_path / "results").exists()


def own_address() -> str | None:
    """Return an address of this host that others reach; None where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        return str(probe.getsockname()[0])


def test_a_scheduler_on_a_network_is_not_contacted(tmp_path: Path) -> None:
    """Its answers would be unpickled, which runs its code."""
    if (address := own_address()) is None:
        pytest.skip("this host has no address but the loopback's")
    with socket.create_server((address, 0)) as listener:
        listener.settimeout(1)
        asked = f"tcp://{address}:{listener.getsockname()[1]}"
        done = pollscope(*SWEEP, "--dask", asked, cwd=tmp_path)
        with pytest.raises(TimeoutError):
            listener.accept()
    assert done.returncode == 3
    assert "anyone who reaches" in done.stderr


@pytest.mark.thorough
def test_a_scheduler_on_all_addresses_is_refused(tmp_path: Path) -> None:
    everywhere = Workers(tmp_path, host="0.0.0.0")
    try:
        port = everywhere.address.rpartition(":")[2]
        everywhere.add()
        done = pollscope(*LOADS, "--dask", f"tcp://127.0.0.1:{port}", cwd=tmp_path)
        assert done.returncode == 3
        assert "anyone who reaches" in done.stderr
        vouched = pollscope(*LOADS, "--dask", f"private+{everywhere.address}", cwd=tmp_path)
        assert vouched.returncode == 0, vouched.stderr
    finally:
        everywhere.end()
