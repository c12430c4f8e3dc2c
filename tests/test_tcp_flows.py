# SPDX-License-Identifier: BSD-3-Clause
"""TCP through cores that share a receive queue (benchmarks/tcp_flows.py), in network namespaces that vanish again."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))
from tcp_flows import WAYS, Case, measure, percentile_99
from tcp_namespaces import Namespaces

PROGRAM = "benchmarks/tcp_flows.py"


def may_have_namespaces() -> bool:
    """Whether this user may make one: asked by making one."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None:
        return False
    name = f"pollscope-{os.getpid()}-asked"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    return made and subprocess.run(["ip", "netns", "delete", name], check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not may_have_namespaces(), reason="no network namespaces for this user")


def namespaces() -> set[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines()}


@pytest.fixture(scope="module")
def tcp_path(build_dir: Path) -> Path:
    program = build_dir / "tcp-path"
    assert program.exists()
    return program


@needs_namespaces
def test_a_flow_comes_through_one_core_and_two_at_one_queue(tcp_path: Path, checkout: Path) -> None:
    before = namespaces()
    command = [sys.executable, str(checkout / PROGRAM), "--rounds", "1", "--huge", "300000", "--only", "huge"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[2] for line in lines if line.startswith("flows")] == ["one_core:", "corec_two_cores:"]
    assert any(line.startswith("ratio huge_1_corec_two_cores_over_one_core ") for line in lines)
    assert "tcp_reordering" in lines[-1]
    assert namespaces() == before


@needs_namespaces
@pytest.mark.parametrize("name", ["corec_two_cores", "queue_each_two_cores"])
def test_all_flows_arrive_in_segments_of_one_mtu(tcp_path: Path, name: str) -> None:
    """Without offloads there are at least so many frames as the payload needs; RSS gives each core some flows."""
    with Namespaces("100mbit") as three:
        found = measure(three, WAYS[name], Case(32, 20_000))
    assert len(found["flows"]) == 32
    assert all(flow["completion_s"] > 0 and flow["reordering"] >= 3 for flow in found["flows"])
    pump, *workers = (int(line.split()[2]) for line in found["path"])
    assert pump >= 32 * 20_000 / 1448
    assert sum(workers) == pump and len(workers) == 2
    assert name == "corec_two_cores" or all(each > 0 for each in workers)


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(tcp_path: Path, checkout: Path, number: signal.Signals) -> None:
    before = namespaces()
    command = [sys.executable, str(checkout / PROGRAM), "--rounds", "1", "--huge", "2000000000", "--only", "huge"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        while len(namespaces() - before) < 3:
            assert running.poll() is None, running.stderr
            time.sleep(0.05)
        running.send_signal(number)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and "Traceback" not in said
    assert namespaces() == before


def test_without_root_it_says_so(checkout: Path) -> None:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("no way to be somebody else")
    become = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    command = [*become, sys.executable, str(checkout / PROGRAM), "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3 and "root" in done.stderr and "Traceback" not in done.stderr


def test_the_99th_percentile_is_a_value_that_99_percent_do_not_exceed() -> None:
    assert percentile_99([3.0]) == 3.0
    assert percentile_99([float(each) for each in range(1, 101)]) == 99.0
    assert percentile_99([float(each) for each in range(1, 65)]) == 64.0


@pytest.mark.parametrize("words", [["--rounds", "0"], ["--only", "1MB"], ["--huge", "-3"]])
def test_bad_words_are_refused(checkout: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(checkout / PROGRAM), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
