# SPDX-License-Identifier: BSD-3-Clause
"""List the processors of this host; pollscope.host.placement gives them roles."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pollscope.base.names import PLACEMENTS
from pollscope.host.files import SYS, parse_list, read_int, read_text


@dataclass(frozen=True, order=True)
class Cpu:
    """One logical processor: its NUMA node, package, core in the die, number, and die in the package.

    `llc` is the first CPU of those that share its last-level cache; None if the kernel does not list them.
    """

    node: int
    package: int
    core: int
    cpu: int
    die: int = 0
    llc: int | None = field(default=None, compare=False)

    @property
    def physical(self) -> tuple[int, int, int]:
        """Return package, die and core, which the hardware threads of one physical core share."""
        return self.package, self.die, self.core


def online_cpus(sys: Path = SYS) -> list[Cpu]:
    """Return the online processors, sorted by node, package, core."""
    base = sys / "devices/system/cpu"
    numbers = parse_list(read_text(base / "online") or "0")
    return sorted(_cpu(base / f"cpu{number}", number) for number in numbers)


def _cpu(folder: Path, number: int) -> Cpu:
    nodes = [int(path.name[4:]) for path in folder.glob("node[0-9]*")]
    package = read_int(folder / "topology/physical_package_id")
    core = read_int(folder / "topology/core_id")
    die = read_int(folder / "topology/die_id")  # core numbers start again in each die (admin-guide/cputopology.rst)
    core = number if core is None else core
    return Cpu(nodes[0] if nodes else 0, package or 0, core, number, max(0, die or 0), _last_level_cache(folder))


def _last_level_cache(folder: Path) -> int | None:
    caches = folder.glob("cache/index*")
    levels = [(read_int(cache / "level") or 0, read_text(cache / "shared_cpu_list") or "") for cache in caches]
    return min(parse_list(max(levels)[1]), default=None) if levels else None


def similar_cpus(cpus: Sequence[Cpu], count: int) -> list[Cpu]:
    """Return the CPUs of another host: as many threads per core and as many NUMA nodes, one package and cache each."""
    threads = max(Counter(cpu.physical for cpu in cpus).values())
    cores, nodes = -(-count // threads), len({cpu.node for cpu in cpus})
    found = []
    for number in range(count):
        core = number // threads
        node = core * nodes // cores
        found.append(Cpu(node, node, core, number, llc=node))
    return found


def allowed_cpus() -> list[Cpu]:
    """Return the online processors on which this process may run (cpuset, taskset)."""
    allowed = os.sched_getaffinity(0)
    return [cpu for cpu in online_cpus() if cpu.cpu in allowed]


def most_dut_cores(cpus: Sequence[Cpu]) -> int:
    """Return the largest number of DUT lcores beside one generator, each on its own physical core."""
    return max(0, min(len({cpu.physical for cpu in cpus}), len(cpus) - 1))


def listed_cpus(placement: str) -> tuple[int, ...]:
    """Return the CPUs of a resolved placement that is a list; empty for a policy."""
    return () if placement in PLACEMENTS else tuple(int(cpu) for cpu in placement.split(","))
