# SPDX-License-Identifier: BSD-3-Clause
"""Test an lcore that hangs before or after the end of its window: the node reports it in bounded time and stays usable.

Its thread is stopped as a debugger would do it; the others continue.
"""

import ctypes
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dut_node import DUT_LCORE, LIMIT_S, Node, configuration, running_node

PTRACE_ATTACH, PTRACE_DETACH, WALL = 16, 17, 0x40000000
# The node's tolerance beyond the planned end, its check once per second, and other work of the host.
OVERDUE_S, LOOK_S = 5.0, 20.0
DRAIN_NS = 100_000_000


def thread_of(node: Node, lcore: int) -> int:
    """Return the lcore's thread; its name differs between releases of DPDK."""
    for task in Path(f"/proc/{node.process.pid}/task").iterdir():
        if re.fullmatch(rf"\w+-worker-?{lcore}", (task / "comm").read_text().strip()):
            return int(task.name)
    raise AssertionError(f"no thread of lcore {lcore}")


@contextmanager
def hung(node: Node, lcore: int) -> Iterator[None]:
    """Keep the lcore from running inside the block."""
    libc, thread = ctypes.CDLL(None, use_errno=True), thread_of(node, lcore)
    if libc.ptrace(PTRACE_ATTACH, thread, None, None) < 0:
        pytest.skip(f"threads cannot be stopped here: ptrace: {os.strerror(ctypes.get_errno())}")
    try:
        os.waitpid(thread, WALL)
        yield
    finally:
        if libc.ptrace(PTRACE_DETACH, thread, None, None) < 0:  # it has ended with its process
            os.waitpid(thread, WALL)


@pytest.fixture(scope="module")
def node(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(build_dir, tmp_path_factory.mktemp("hung") / "log") as running:
        yield running


def start(node: Node, trial: str, window_s: float, **fields: Any) -> None:
    node.get("configure", **configuration())
    times = {"warmup_ns": 0, "window_ns": int(window_s * 1e9), "drain_max_ns": DRAIN_NS}
    node.get("start", trial=trial, rate={"pps": 1000}, **times, **fields)
    time.sleep(0.2)


def assert_failed(event: dict[str, Any], trial: str) -> None:
    assert (event["event"], event["trial"], event["hung"]) == ("failed", trial, [DUT_LCORE])
    assert f"{DUT_LCORE} (CPU 1)" in event["error"]


def assert_usable_again(node: Node) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not node.ask("configure", **configuration())["ok"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert node.trial(rate={"pps": 1000})["state"] == "done"


def test_a_window_that_is_never_closed(node: Node) -> None:
    start(node, "open", window_s=1)
    with hung(node, DUT_LCORE):
        assert_failed(node.line(1 + OVERDUE_S + LOOK_S), "open")
        assert node.get("read")["state"] == "failed"
        assert node.ask("configure", **configuration())["ok"] is False
        assert node.ask("start", trial="next", window_ns=10**6, rate={"pps": 0})["ok"] is False
        assert "failed" in node.ask("stop")["error"]
    assert_usable_again(node)


@pytest.mark.thorough
def test_stop_bounds_a_long_trial(node: Node) -> None:
    start(node, "long", window_s=3600)
    with hung(node, DUT_LCORE):
        node.get("stop")
        assert_failed(node.line(OVERDUE_S + LOOK_S), "long")
    assert_usable_again(node)


@pytest.mark.thorough
def test_an_lcore_that_hangs_after_its_window(node: Node) -> None:
    """The window of a held trial is closed, and `stop` is answered; the lcore never sees the end of the trial."""
    start(node, "held", window_s=0.05, hold=True)
    with hung(node, DUT_LCORE):
        node.get("stop")
        assert_failed(node.line(OVERDUE_S + LOOK_S), "held")
    assert_usable_again(node)


def test_a_node_with_a_hung_lcore_can_be_ended(build_dir: Path, tmp_path: Path) -> None:
    with running_node(build_dir, tmp_path / "log") as node:
        start(node, "t", window_s=3600)
        with hung(node, DUT_LCORE):
            node.get("quit")
            deadline = time.monotonic() + LIMIT_S
            while " Z " not in Path(f"/proc/{node.process.pid}/stat").read_text():  # only the thread is left
                assert time.monotonic() < deadline, "the node waits for its lcore"
                time.sleep(0.1)
        assert node.process.wait(LIMIT_S) == 1
    assert "an lcore hangs" in (tmp_path / "log").read_text()
