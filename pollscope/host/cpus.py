# SPDX-License-Identifier: BSD-3-Clause
"""Processors of this host, and which of them play which role."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pollscope.errors import HostError
from pollscope.host.files import parse_list, read_int, read_text

SYS = Path("/sys")


@dataclass(frozen=True, order=True)
class Cpu:
    """One logical processor: its NUMA node, package, core in the package, and number."""

    node: int
    package: int
    core: int
    cpu: int


@dataclass(frozen=True)
class Roles:
    """Which CPU runs what.

    Attributes:
        main: EAL's main lcore; sleeps while a window is open, so it may share the generator's CPU.
        generator: the generator's lcore.
        dut: the DUT's lcores.
        shared_core: generator and DUT share physical cores (hardware threads), which disturbs what is measured.
    """

    main: int
    generator: int
    dut: tuple[int, ...]
    shared_core: bool

    @property
    def measuring(self) -> tuple[int, ...]:
        """The CPUs on which lcores spin, generator first."""
        return (self.generator, *self.dut)


def online_cpus(sys: Path = SYS) -> list[Cpu]:
    """The processors that are online, sorted by node, package, core."""
    base = sys / "devices/system/cpu"
    numbers = parse_list(read_text(base / "online") or "0")
    return sorted(_cpu(base / f"cpu{number}", number) for number in numbers)


def _cpu(folder: Path, number: int) -> Cpu:
    nodes = [int(path.name[4:]) for path in folder.glob("node[0-9]*")]
    package = read_int(folder / "topology/physical_package_id")
    core = read_int(folder / "topology/core_id")
    return Cpu(nodes[0] if nodes else 0, package or 0, core if core is not None else number, number)


def allowed_cpus(sys: Path = SYS) -> list[Cpu]:
    """The online processors on which this process may run (cpuset, taskset)."""
    allowed = os.sched_getaffinity(0)
    return [cpu for cpu in online_cpus(sys) if cpu.cpu in allowed]


def most_dut_cores(cpus: Sequence[Cpu]) -> int:
    """How many DUT lcores there can be beside one generator, each with a CPU of its own."""
    return max(0, len(cpus) - 1)


def choose(cpus: Iterable[Cpu], dut_cores: int) -> Roles:
    """Gives every spinning lcore a physical core of its own when there are enough, on one NUMA node when it has enough.

    The DUT gets the cores with the highest numbers: the kernel keeps most of its own work on the first ones.

    Raises:
        HostError: fewer CPUs than spinning lcores.
    """
    every = sorted(cpus)
    needed = dut_cores + 1
    cores = _one_per_core(_node_with(every, needed))
    if len(cores) < needed:
        cores = _one_per_core(every)
    shared = len(cores) < needed
    if shared:
        cores = [cpu.cpu for cpu in every]
    if len(cores) < needed:
        raise HostError(
            f"{dut_cores} DUT lcore(s) and a generator need {needed} CPUs; this process may use {len(every)}"
        )
    dut, generator, rest = cores[-dut_cores:], cores[-needed], cores[:-needed]
    return Roles(rest[0] if rest else generator, generator, tuple(dut), shared)


def _node_with(cpus: list[Cpu], needed: int) -> list[Cpu]:
    # The first node whose physical cores suffice: traffic between the roles then stays inside one node.
    for node in sorted({cpu.node for cpu in cpus}):
        there = [cpu for cpu in cpus if cpu.node == node]
        if len(_one_per_core(there)) >= needed:
            return there
    return cpus


def _one_per_core(cpus: Iterable[Cpu]) -> list[int]:
    first: dict[tuple[int, int], int] = {}
    for cpu in cpus:
        first.setdefault((cpu.package, cpu.core), cpu.cpu)
    return list(first.values())
