# SPDX-License-Identifier: BSD-3-Clause
"""Test what the control groups of a process leave of its host, and points that are left out for lack of it."""

import errno
import os
from pathlib import Path

import pytest

from pollscope.host.control_group import hugepages_left_bytes, memory_left_bytes, most_cpus
from pollscope.host.real_time import real_time_refusal
from pollscope.spec import load_text
from pollscope.spec.points import Point, all_points
from pollscope.testbeds import loopback
from pollscope.testbeds.config import make_testbed
from pollscope.testbeds.loopback import LoopbackTestbed

UNLIMITED = "9223372036854771712"
MIB = 1 << 20


def tree(root: Path, cgroup: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Return a proc and a sys in which these files of control groups exist."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root / "proc", root / "sys"


def test_the_tightest_group_above_a_process_counts(tmp_path: Path) -> None:
    files = {
        "pod/memory.max": str(100 * MIB),
        "pod/memory.current": str(60 * MIB),
        "pod/memory.stat": f"anon 5\ninactive_file {10 * MIB}",
        "pod/job/memory.max": "max",
        "pod/job/memory.current": "5",
        "pod/cpu.max": "250000 100000",
        "pod/job/cpu.max": "max 100000",
        "pod/hugetlb.2MB.max": "0",
        "pod/hugetlb.2MB.current": "0",
    }
    there = tree(tmp_path, "0::/pod/job\n", files)
    assert memory_left_bytes(*there) == 50 * MIB
    assert most_cpus(*there) == 2.5
    assert hugepages_left_bytes(2 * MIB, *there) == 0
    assert hugepages_left_bytes(1 << 30, *there) is None


def test_version_1_and_a_container_that_sees_its_group_as_the_root(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": str(100 * MIB),
        "memory/memory.usage_in_bytes": str(40 * MIB),
        "cpu/cpu.cfs_quota_us": "-1",
        "cpu/cpu.cfs_period_us": "100000",
        "hugetlb/hugetlb.1GB.limit_in_bytes": UNLIMITED,
        "hugetlb/hugetlb.1GB.usage_in_bytes": "0",
    }
    there = tree(tmp_path, "4:memory:/docker/1a2b\n3:hugetlb:/../x\n1:cpu,cpuacct:/docker/1a2b\n", files)
    assert memory_left_bytes(*there) == 60 * MIB
    assert most_cpus(*there) is None
    assert hugepages_left_bytes(1 << 30, *there) == int(UNLIMITED)


def test_without_groups_nothing_is_limited(tmp_path: Path) -> None:
    assert memory_left_bytes(tmp_path, tmp_path) is None
    assert most_cpus(tmp_path, tmp_path) is None


def here(parameters: str) -> tuple[LoopbackTestbed, Point]:
    testbed = make_testbed("loopback")
    assert isinstance(testbed, LoopbackTestbed)
    spec = load_text(f"format: 1\nname: x\ntitle: t\nparameters: {parameters}\n", "x.yaml").spec
    return testbed, next(iter(all_points(spec)))


def test_more_lcores_than_the_group_has_cpus_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "most_cpus", lambda: 1.5)
    testbed, point = here("{load_pps: 0}")
    assert (
        testbed.refusal(point) == "2 CPUs are busy at a time; the control group of this process may use 1.5 (cpu.max)"
    )
    other, _ = here("{load_pps: 0}")
    other.plan_for(2)
    assert other.refusal(point) is None


def test_a_generator_that_sleeps_needs_sched_fifo(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = "{saturate: true, cores: 2, generator_sleep: 200 us}"
    monkeypatch.setattr(loopback, "real_time_refusal", lambda: "Operation not permitted")
    testbed, point = here(parameters)
    said = testbed.refusal(point) or ""
    assert said.startswith("generator_sleep: this host refuses SCHED_FIFO: Operation not permitted (CAP_SYS_NICE or ")
    monkeypatch.setattr(loopback, "real_time_refusal", lambda: None)
    assert testbed.refusal(point) is None


def test_sched_fifo_is_tried_by_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    real_time_refusal.cache_clear()
    real_time_refusal()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    real_time_refusal.cache_clear()
    assert real_time_refusal() == "Operation not permitted"
    real_time_refusal.cache_clear()


def test_a_hugetlbfs_of_another_user_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "hugetlbfs_folder", lambda _: str(tmp_path / "gone"))
    testbed, point = here("{load_pps: 0, page_size: 1 GiB}")
    assert testbed.refusal(point) == f"page_size: this user may not write to {tmp_path / 'gone'}"
