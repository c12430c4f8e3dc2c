# SPDX-License-Identifier: BSD-3-Clause
"""Read RAM and reserved hugepages of this host."""

from dataclasses import dataclass
from pathlib import Path

from pollscope.host.control_group import hugepages_left_bytes, memory_left_bytes
from pollscope.host.files import PROC, SYS, read_int, read_text

# Sizes of hugepages that EAL uses on x86-64.
HUGEPAGE_BYTES = (2 << 20, 1 << 30)


@dataclass(frozen=True)
class HugepagePool:
    """Reserved hugepages of one size."""

    page_bytes: int
    total: int
    free: int

    @property
    def free_bytes(self) -> int:
        """Return the bytes that a new process can still get."""
        free, left = self.page_bytes * self.free, hugepages_left_bytes(self.page_bytes)
        return free if left is None else min(free, left)


def hugepages(sys: Path = SYS) -> list[HugepagePool]:
    """Return the hugepages of each size that this kernel supports, smallest first."""
    found = []
    for folder in (sys / "kernel/mm/hugepages").glob("hugepages-*kB"):
        size = int(folder.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        total, free = read_int(folder / "nr_hugepages"), read_int(folder / "free_hugepages")
        found.append(HugepagePool(size, total or 0, free or 0))
    return sorted(found, key=lambda pages: pages.page_bytes)


_SCALES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def hugetlbfs_folder(page_bytes: int, proc: Path = PROC) -> str | None:
    """Return the mount point of a hugetlbfs with pages of this size; None if there is none."""
    for line in (read_text(proc / "mounts") or "").splitlines():
        _, folder, kind, options, *_ = [*line.split(), "", "", "", ""]
        size = dict(option.partition("=")[::2] for option in options.split(",")).get("pagesize", "")
        if kind == "hugetlbfs" and size and int(size[:-1]) * _SCALES[size[-1].lower()] == page_bytes:
            return folder
    return None


def available_bytes() -> int:
    """Return the memory that a new process can get without swapping; 0 if the kernel does not say."""
    free, left = meminfo_bytes("MemAvailable") or 0, memory_left_bytes()
    return free if left is None else min(free, left)


def meminfo_bytes(key: str, proc: Path = PROC) -> int | None:
    """Return a line of /proc/meminfo in bytes; None if it is missing."""
    for line in (read_text(proc / "meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name == key:
            return int(rest.split()[0]) * 1024
    return None
