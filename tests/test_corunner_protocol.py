# SPDX-License-Identifier: BSD-3-Clause
"""Check the conversation with `pollscope-corunner`: counts, windows, bad input, its end."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dut_node import Program
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CPU = min(os.sched_getaffinity(0))
NEEDS_STRESS_NG = pytest.mark.skipif(shutil.which("stress-ng") is None, reason="stress-ng is not installed")


@pytest.fixture
def corunner(build_dir: Path) -> Iterator[Program]:
    program = Program([build_dir / "pollscope-corunner"])
    yield program
    program.end()


def test_a_silent_client_ends_the_program(corunner: Program) -> None:
    corunner.get("heartbeat_timeout", silent_s=1)
    assert corunner.process.wait(60) == 0


def worker(work: str = "matmul", **more: Any) -> dict[str, Any]:
    return {"name": "corunner", "cpu": CPU, "work": work, **more}


def measured(corunner: Program, *workers: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a short trial with its own window."""
    corunner.get("configure", workers=list(workers))
    corunner.get("start", trial="t", warmup_ns=20_000_000, window_ns=100_000_000)
    assert corunner.line() == {"event": "done", "trial": "t"}
    return corunner.get("read")


def test_hello_says_what_is_missing_and_why(corunner: Program) -> None:
    hello = corunner.hello
    assert (hello["event"], hello["protocol"], hello["program"]) == ("hello", 3, "pollscope-corunner")
    assert set(hello["cpus"]) == os.sched_getaffinity(0)
    assert all(len(reason) > 10 for reason in hello["absent"].values())
    assert ("stress-ng" in hello["absent"]) == (shutil.which("stress-ng") is None)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("work", "unit", "footprint"),
    [
        (worker(footprint_bytes=20_000), "iterations", 3 * 8 * 28**2),
        (worker("pointer-chase", footprint_bytes=1_000_000, seed=3), "hops", 1_000_000 // 64 * 64),
        (worker("memory-stream", footprint_bytes=1 << 20, operation="read"), "bytes", 1 << 20),
        (worker("memory-stream", footprint_bytes=1 << 20, operation="write"), "bytes", 1 << 20),
        (worker("memory-stream", footprint_bytes=1 << 20), "bytes", 1 << 20),
        (worker("spin"), "polls", 64),
    ],
)
def test_each_work_is_counted_in_its_unit(corunner: Program, work: dict[str, Any], unit: str, footprint: int) -> None:
    result = measured(corunner, work)
    (found,) = result["workers"]
    assert (found["name"], found["cpu"], found["work"]) == ("corunner", CPU, work["work"])
    assert (found["unit"], found["footprint_bytes"]) == (unit, footprint)
    assert found["done"] > 1
    assert found["longest_step_ns"] > 0
    window = result["window"]
    assert window["end_tsc"] - window["start_tsc"] >= 0.1 * window["tsc_hz"] * 0.999
    # Each is a number, or absent with a reason.
    for value in (found["frequency_hz"], found["pmu"], found["waited_ns"]):
        assert not isinstance(value, dict) or "absent" not in value or len(value["absent"]) > 10


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("more", "policy"), [({}, os.SCHED_OTHER), ({"scheduling": "idle"}, os.SCHED_IDLE)])
def test_a_worker_may_wait_until_its_cpu_is_idle(corunner: Program, more: dict[str, Any], policy: int) -> None:
    (made,) = corunner.get("configure", workers=[worker("spin", **more)])["workers"]
    assert made["scheduling"] == more.get("scheduling", "normal")
    corunner.get("start")
    threads = {int(thread.name) for thread in Path(f"/proc/{corunner.process.pid}/task").iterdir()}
    (thread,) = threads - {corunner.process.pid}
    assert os.sched_getscheduler(thread) == policy
    corunner.get("stop")


def test_windows_that_lie_side_by_side_add_up(corunner: Program) -> None:
    result = measured(corunner, worker())
    start, end, whole = result["window"]["start_tsc"], result["window"]["end_tsc"], result["workers"][0]["done"]

    @settings(max_examples=50, deadline=None)
    @given(st.integers(min_value=start + 1, max_value=end - 1))
    def check(middle: int) -> None:
        parts = [(start, middle), (middle, end)]
        done = [corunner.get("read", start_tsc=a, end_tsc=b)["workers"][0]["done"] for a, b in parts]
        assert min(done) >= 0
        assert sum(done) == pytest.approx(whole, rel=1e-9)

    check()


def test_a_window_of_another_program_is_cut_afterwards(corunner: Program) -> None:
    corunner.get("configure", workers=[worker("spin")])
    corunner.get("start")
    assert corunner.get("read")["state"] == "running"
    assert corunner.ask("configure", workers=[])["error"] == "configure is refused while a trial is running"
    corunner.get("stop")
    no_window = corunner.ask("read")
    assert (no_window["ok"], no_window["where"]) == (False, "start_tsc")
    outside = corunner.ask("read", start_tsc=1, end_tsc=2)
    assert outside["error"] == "corunner did not work through all of the window"
    assert corunner.ask("stop")["error"] == "no trial is running"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("workers", "where", "error"),
    [
        ("matmul", "workers", "must be a list"),
        ([7], "workers[0]", "must be an object"),
        ([{"name": "a", "cpu": CPU}], "workers[0].work", "is required"),
        ([{"name": "a", "work": "spin"}], "workers[0].cpu", "is required"),
        ([{"cpu": CPU, "work": "spin"}], "workers[0].name", "is required"),
        ([worker("sleep")], "workers[0].work", "must be one of: matmul, pointer-chase"),
        ([worker(cpu=1023)], "workers[0].cpu", "there is no CPU 1023 here"),
        ([worker(cpu=-1)], "workers[0].cpu", "must be from 0"),
        ([worker(operation="read")], "workers[0].operation", "unknown key"),
        ([worker("memory-stream", operation="erase")], "workers[0].operation", "must be one of: read, write, copy"),
        ([worker(footprint_bytes=1535)], "workers[0].footprint_bytes", "at least 1536 bytes, not 1535"),
        ([worker("pointer-chase", footprint_bytes=127)], "workers[0].footprint_bytes", "at least 128 bytes, not 127"),
        ([worker(footprint_bytes=1 << 42)], "workers[0].footprint_bytes", "more than three quarters"),
        ([worker(), worker("spin")], "workers[1]", f"CPU {CPU} has a worker already (corunner)"),
        ([worker("stress-ng", stressor="--help")], "workers[0].stressor", "must be made of a-z"),
        ([worker("stress-ng", stressor="cpu; ls")], "workers[0].stressor", "must be made of a-z"),
    ],
)
def test_bad_workers_are_refused_by_place(corunner: Program, workers: Any, where: str, error: str) -> None:
    corunner.get("configure", workers=[worker("spin")])
    reply = corunner.ask("configure", workers=workers)
    assert (reply["ok"], reply["where"]) == (False, where)
    assert error in reply["error"]
    corunner.get("start")  # the workers before are still there
    (found,) = corunner.get("read")["workers"]
    assert found["work"] == "spin"


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(min_size=1, max_size=80).filter(lambda line: b"\n" not in line),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
        st.fixed_dictionaries(
            {"cmd": st.sampled_from(["configure", "start", "read", "stop"])},
            optional={
                "workers": st.lists(st.none() | st.integers() | st.just({"work": "spin"}), min_size=1, max_size=2),
                "window_ns": st.integers(max_value=0) | st.text(max_size=3),
                "start_tsc": st.integers(),
            },
        ).map(lambda request: json.dumps(request).encode()),
    )
)
def test_any_line_has_exactly_one_reply(corunner: Program, line: bytes) -> None:
    corunner.send(line + b"\n")
    reply = corunner.line()
    assert isinstance(reply["ok"], bool)
    assert reply["ok"] or reply["error"]
    assert corunner.ask("nothing", id=41)["id"] == 41


def test_arguments_are_bad_usage(build_dir: Path) -> None:
    done = subprocess.run([build_dir / "pollscope-corunner", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown argument --help" in done.stderr


def gone(pid: int, limit_s: float = 20) -> bool:
    """Return whether a process ends; a zombie counts as ended."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def children(pid: int) -> list[int]:
    found = []
    for stat in (process / "stat" for process in Path("/proc").glob("[0-9]*")):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("work", ["matmul", pytest.param("stress-ng", marks=NEEDS_STRESS_NG)])
def test_it_ends_at_the_end_of_input(corunner: Program, work: str) -> None:
    corunner.get("configure", workers=[worker(work)])
    corunner.get("start")
    beneath = children(corunner.process.pid)
    assert corunner.process.stdin is not None
    corunner.process.stdin.close()
    assert corunner.process.wait(20) == 0
    assert all(gone(pid) for pid in beneath)


@NEEDS_STRESS_NG
def test_stress_ng_counts_bogo_operations(corunner: Program) -> None:
    (found,) = measured(corunner, worker("stress-ng"))["workers"]
    assert (found["unit"], found["stressor"]) == ("bogo_ops", "cpu")
    assert found["bogo_ops_per_s"] == pytest.approx(found["bogo_ops"] / found["run_s"], rel=0.01)


@pytest.mark.one_in(2)
@NEEDS_STRESS_NG
@pytest.mark.parametrize("after_s", [0, 1])
def test_stress_ng_is_ended_with_a_killed_corunner(corunner: Program, after_s: float) -> None:
    corunner.get("configure", workers=[worker("stress-ng")])
    corunner.get("start")
    time.sleep(after_s)  # at once: while it starts; later: with its own child at work
    (stress,) = children(corunner.process.pid)
    beneath = [stress, *children(stress)]
    corunner.process.send_signal(signal.SIGKILL)
    corunner.process.wait()
    assert all(gone(pid) for pid in beneath)


@NEEDS_STRESS_NG
def test_a_stress_ng_that_dies_is_reported(corunner: Program) -> None:
    corunner.get("configure", workers=[worker("stress-ng")])
    corunner.get("start", trial="t9")
    (stress,) = children(corunner.process.pid)
    os.kill(stress, signal.SIGKILL)
    assert corunner.line() == {"event": "failed", "trial": "t9", "error": "stress-ng was ended by signal 9"}
    reply = corunner.ask("read", start_tsc=1, end_tsc=2)
    assert (reply["ok"], reply["error"]) == (False, "stress-ng was ended by signal 9")
