# SPDX-License-Identifier: BSD-3-Clause
"""Memory of this host: RAM and the hugepages that are reserved."""

from dataclasses import dataclass
from pathlib import Path

from pollscope.host.files import read_int, read_text


@dataclass(frozen=True)
class Hugepages:
    """Reserved hugepages of one size."""

    page_bytes: int
    total: int
    free: int

    @property
    def free_bytes(self) -> int:
        """What a new process can still get."""
        return self.page_bytes * self.free


def hugepages(sys: Path = Path("/sys")) -> list[Hugepages]:
    """Hugepages of every size that this kernel knows, smallest first."""
    found = []
    for folder in (sys / "kernel/mm/hugepages").glob("hugepages-*kB"):
        size = int(folder.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        total, free = read_int(folder / "nr_hugepages"), read_int(folder / "free_hugepages")
        found.append(Hugepages(size, total or 0, free or 0))
    return sorted(found, key=lambda pages: pages.page_bytes)


def meminfo_bytes(key: str, proc: Path = Path("/proc")) -> int | None:
    """A line of /proc/meminfo in bytes; None when it is not there."""
    for line in (read_text(proc / "meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name == key:
            return int(rest.split()[0]) * 1024
    return None
