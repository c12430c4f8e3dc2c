# SPDX-License-Identifier: BSD-3-Clause
"""List the processors of this host; pollscope.host.placement gives them roles."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pollscope.base.names import PLACEMENTS
from pollscope.host.files import SYS, parse_list, read_int, read_text


@dataclass(frozen=True, order=True)
class Cpu:
    """One logical processor: its NUMA node, package, core in the die, number, and die in the package."""

    node: int
    package: int
    core: int
    cpu: int
    die: int = 0

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
    return Cpu(nodes[0] if nodes else 0, package or 0, core if core is not None else number, number, max(0, die or 0))


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
