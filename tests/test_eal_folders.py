# SPDX-License-Identifier: BSD-3-Clause
"""Test EAL folders: which ones are removed, and how a collection chooses one of several applications."""

import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from command_line import pollscope

from pollscope.host import eal_folders
from pollscope.host.eal_folders import new_file_prefix, remove_folder, remove_stale_folders


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder with a short path: the path of a Unix socket holds 107 bytes at most."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("RUNTIME_DIRECTORY", folder)
        monkeypatch.setenv("POLLSCOPE_STATE_DIR", f"{folder}/state")
        yield Path(folder) / "dpdk"


@contextmanager
def application(folder: Path) -> Iterator[None]:
    """Answer on a telemetry socket, as a DPDK application with one lcore and no port."""
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / "dpdk_telemetry.v2"))
        listener.listen(1)

        def serve() -> None:
            while True:
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                with connection, suppress(OSError):  # a probe closes without reading
                    connection.send(json.dumps({"max_output_len": 16384}).encode())
                    while request := connection.recv(1024).decode():
                        usage = {"lcore_ids": [1], "total_cycles": [100], "busy_cycles": [50]}
                        answer = usage if request.startswith("/eal/lcore") else []
                        connection.send(json.dumps({request.partition(",")[0]: answer}).encode())

        threading.Thread(target=serve, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def test_folders_of_ended_nodes_are_removed(runtime: Path) -> None:
    own = new_file_prefix()
    for name in (own, "pollscope-1-1-abcdef", "pollscope-lab-77-dut", "another-program"):
        (runtime / name).mkdir(parents=True)
    (runtime / "pollscope-lab-79-dut").mkdir()
    for name, age_s in (("pollscope-lab-77-dut", 90), ("another-program", 90), ("pollscope-lab-79-dut", 0)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as ended:
            ended.bind(str(runtime / name / "dpdk_telemetry.v2"))
        os.utime(runtime / name / "dpdk_telemetry.v2", (time.time() - age_s,) * 2)
    with application(runtime / "pollscope-lab-78-dut"):
        remove_stale_folders()
        left = {path.name for path in runtime.iterdir()}
    assert left == {own, "pollscope-lab-78-dut", "pollscope-lab-79-dut", "another-program"}


def test_collect_chooses_one_of_several_applications(runtime: Path) -> None:
    short = ("collect", "dpdk-telemetry", "--seconds", "0.2", "--interval", "0.1")
    with application(runtime / "first"), application(runtime / "second"):
        refused = pollscope(*short, cwd=runtime)
        assert refused.returncode == 3
        assert "several DPDK applications run (first, second): choose one with --file-prefix NAME" in refused.stderr
        chosen = pollscope(*short, "--file-prefix", "second", cwd=runtime)
        assert chosen.returncode == 0, chosen.stderr
        assert "dpdk-telemetry: ok" in chosen.stderr
    wrong = pollscope("collect", "kernel-load", "--file-prefix", "second", cwd=runtime)
    assert wrong.returncode == 2


def test_the_memory_of_an_ended_program_is_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {2 << 20: str(tmp_path)}
    monkeypatch.setattr(eal_folders, "hugetlbfs_folder", folders.get)
    for name in ("pollscope-1-2-abcdefmap_0", "pollscope-1-2-abcdefmap_17", "rtemap_0"):
        (tmp_path / name).touch()
    remove_folder("pollscope-1-2-abcdef")
    assert [path.name for path in tmp_path.iterdir()] == ["rtemap_0"]
