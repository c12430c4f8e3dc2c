# SPDX-License-Identifier: BSD-3-Clause
"""Test swapping, throttling and kernel errors beside every trial: how they are read and which flags they set."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic

from pollscope.host.activity import Activity, activity_of
from pollscope.host.kernel_log_check import KernelLogCheck, LogTail, read_kernel_log_check
from pollscope.metrics.judgement import judge
from pollscope.spec.model import Noise

OLD = "6,99,1000,-;usb 1-1: new device\n SUBSYSTEM=usb\n"
ERROR = "3,100,2000,-;mlx5_core 0000:4b:00.0: poll_health: Fatal error 1 detected\n"
DAEMON = "28,101,2100,-;systemd: a warning of a daemon, priority 4 of facility 3\n"
WORSE = "0,102,2200,-;Kernel panic - not syncing; not really\n"


def host(folder: Path, swapped: int = 0, core: int = 0, package: int = 0) -> Path:
    """Return four CPUs in two packages."""
    texts = {"proc/vmstat": f"pgpgin 7\npswpin {swapped}\npswpout {2 * swapped}\n"}
    for cpu in range(4):
        base = f"sys/devices/system/cpu/cpu{cpu}"
        texts[f"{base}/thermal_throttle/core_throttle_count"] = f"{core}\n"
        texts[f"{base}/thermal_throttle/package_throttle_count"] = f"{package}\n"
        texts[f"{base}/topology/physical_package_id"] = f"{cpu // 2}\n"
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def look(folder: Path, log: str) -> KernelLogCheck:
    """Read as from the kernel, one record per read: a pipe in packet mode does the same (pipe(2), O_DIRECT)."""
    out, into = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    for record in log.splitlines(keepends=True):
        if not record.startswith(" "):
            os.write(into, record.encode())
    try:
        found = read_kernel_log_check([0, 1, 2], folder / "proc", folder / "sys", LogTail(Path(f"/proc/self/fd/{out}")))
    finally:
        os.close(into)
        os.close(out)
    return found


def test_differences_over_a_trial(tmp_path: Path) -> None:
    before = look(host(tmp_path, swapped=5, core=1, package=10), OLD)
    assert before == KernelLogCheck(15, 3 + 20, 99, {})
    after = look(host(tmp_path, swapped=7, core=2, package=11), OLD + ERROR + DAEMON + WORSE)
    assert after.since(before) == {
        "swapped_pages": 6,
        "throttle_events": 3 + 2,
        "kernel_errors": [
            "mlx5_core 0000:4b:00.0: poll_health: Fatal error 1 detected",
            "Kernel panic - not syncing; not really",
        ],
    }
    assert after.since(after) == {"swapped_pages": 0, "throttle_events": 0, "kernel_errors": []}


def test_a_log_is_read_on_from_where_it_ended() -> None:
    out, into = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    log = LogTail(Path(f"/proc/self/fd/{out}"))
    found = []
    for record in (ERROR, DAEMON, WORSE):
        os.write(into, record.encode())
        found.append(log.read())
    os.close(into)
    os.close(out)
    assert [last for last, _ in found] == [100, 101, 102]
    assert [list(errors) for _, errors in found] == [[100], [100], [100, 102]]


def test_values_that_the_host_does_not_show_are_left_out(tmp_path: Path) -> None:
    found = read_kernel_log_check([0], tmp_path / "proc", tmp_path / "sys", LogTail(tmp_path / "kmsg"))
    assert found == KernelLogCheck()
    assert found.since(KernelLogCheck(1, 1, 1, {})) == {}


@pytest.mark.parametrize("log", ["", "rubbish\n", "3;no number\n", "x,y,z;t\n", "3,,;\n"])
def test_a_log_of_rubbish_is_no_error(tmp_path: Path, log: str) -> None:
    found = look(host(tmp_path), log)
    assert (found.log_end, found.errors) == (0, {})


def test_an_agents_reply_is_the_same_activity() -> None:
    there = Activity(1, 2, {3: 4}, 5, KernelLogCheck(6, None, 7, {7: "bad"}))
    assert activity_of(json.loads(json.dumps(asdict(there)))) == there
    before = {"steal_ticks": 1, "context_switches": 2, "interrupts": {"3": 4}, "softirqs": 5}
    assert activity_of(before).kernel_log_check == KernelLogCheck()  # a reply of an older agent


def judged(host_part: dict[str, Any]) -> tuple[str, dict[str, str]]:
    trial = synthetic.trial("a", "p", 0, {"queues": 1})
    trial["host"] = {**trial["host"], **host_part}
    judgement = judge(trial, Noise())
    return judgement.status, {flag["name"]: flag["text"] for flag in judgement.flags}


def test_each_kernel_event_flags_the_trial() -> None:
    assert judged({"swapped_pages": 0, "throttle_events": 0, "kernel_errors": []})[0] == "ok"
    assert judged({})[0] == "ok"
    status, flags = judged({"swapped_pages": 12, "throttle_events": 3, "kernel_errors": ["Fatal error 1", "again"]})
    assert status == "flagged"
    assert flags["noise:swapped_pages"].startswith("the host swapped 12 pages in or out")
    assert flags["noise:throttle_events"].startswith("the processor throttled itself 3 times")
    assert flags["noise:kernel_errors"] == "the kernel logged 2 errors, first: Fatal error 1"


def test_on_a_pair_the_host_is_named() -> None:
    quiet = {"swapped_pages": 0, "kernel_errors": []}
    status, flags = judged({"ends": {"dut": quiet, "generator": {**quiet, "throttle_events": 1}}})
    assert (status, list(flags)) == ("flagged", ["noise:throttle_events"])
    assert flags["noise:throttle_events"].startswith("the processor of the generator throttled itself 1 times")
