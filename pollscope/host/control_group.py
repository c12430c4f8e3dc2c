# SPDX-License-Identifier: BSD-3-Clause
"""Read what the control groups of this process leave of the host's memory, hugepages and CPU time (cgroups(7)).

A container sees the memory and the CPUs of its host, and its groups say how much of them it may use. Version 2 names a
limit and the use of it `.max` and `.current`, version 1 `.limit_in_bytes` and `.usage_in_bytes`.
"""

from collections.abc import Iterator
from pathlib import Path

from pollscope.host.files import PROC, SYS, read_int, read_text


def memory_left_bytes(proc: Path = PROC, sys: Path = SYS) -> int | None:
    """Return the memory that this process may still take; None without a limit."""
    return _left("memory", "memory", proc, sys)


def hugepages_left_bytes(page_bytes: int, proc: Path = PROC, sys: Path = SYS) -> int | None:
    """Return how much memory in pages of this size this process may still take; None without a limit."""
    size = f"{page_bytes >> 30}GB" if page_bytes >> 30 else f"{page_bytes >> 20}MB"
    return _left("hugetlb", f"hugetlb.{size}", proc, sys)


def most_cpus(proc: Path = PROC, sys: Path = SYS) -> float | None:
    """Return how many CPUs this process may use at a time on average; None without a limit."""
    found = []
    for group in _groups("cpu", proc, sys):
        quota, _, period = (read_text(group / "cpu.max") or "").partition(" ")
        quota = quota or read_text(group / "cpu.cfs_quota_us") or ""
        period = period or read_text(group / "cpu.cfs_period_us") or ""
        if quota.isdecimal() and period.isdecimal():  # no limit: `max`, in version 1 -1
            found.append(int(quota) / int(period))
    return min(found, default=None)


def _groups(controller: str, proc: Path, sys: Path) -> Iterator[Path]:
    """Yield the folders of this process's groups that may have this controller, and of those above them."""
    for line in (read_text(proc / "self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = sys / "fs/cgroup" / (controller if controllers else "")
        group = root / path.strip("/")
        # A container may see its own group as the root, and a path that its mount does not have.
        group = group if group.is_dir() and ".." not in group.parts else root
        yield from (each for each in (group, *group.parents) if each.is_relative_to(root))


def _left(controller: str, stem: str, proc: Path, sys: Path) -> int | None:
    found = []
    for group in _groups(controller, proc, sys):
        for limit_file, use_file in (("max", "current"), ("limit_in_bytes", "usage_in_bytes")):
            limit, used = read_int(group / f"{stem}.{limit_file}"), read_int(group / f"{stem}.{use_file}")
            if limit is not None and used is not None:  # no limit: `max`, in version 1 more than any host has
                found.append(max(0, limit - used + _cached_bytes(group, controller)))
    return min(found, default=None)


def _cached_bytes(group: Path, controller: str) -> int:
    """Return the use of a group's memory that the kernel gives back when memory is short."""
    lines = (read_text(group / "memory.stat") or "").splitlines() if controller == "memory" else []
    found = dict(line.split(" ", 1) for line in lines if " " in line)
    return int(found.get("total_inactive_file", found.get("inactive_file", "0")))
