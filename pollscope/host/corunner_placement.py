# SPDX-License-Identifier: BSD-3-Clause
"""Choose the CPUs of programs beside the DUT: a co-runner, spinning cores, or another program on the DUT's own core."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pollscope.base.errors import HostError
from pollscope.host.cpus import Cpu


class Wishes(Protocol):
    """The programs that a point runs beside its DUT (docs/reference-spec.md)."""

    @property
    def dut_core(self) -> str: ...
    @property
    def corunner(self) -> str: ...
    @property
    def corunner_place(self) -> str: ...
    @property
    def spinning_cores(self) -> int: ...


@dataclass(frozen=True)
class CorunnerCpus:
    """CPUs by the program on them; None where a point has no such program.

    Attributes:
        corunner: runs the co-runner.
        occupant: the DUT's core, when a program other than the DUT has it.
        spinning: run the spinning cores.
    """

    corunner: int | None = None
    occupant: int | None = None
    spinning: tuple[int, ...] = ()

    @property
    def cpus(self) -> tuple[int, ...]:
        """Return all these CPUs."""
        single = (cpu for cpu in (self.corunner, self.occupant) if cpu is not None)
        return (*single, *self.spinning)


def runs_dut(params: Wishes) -> bool:
    """Return whether the DUT itself runs on its core."""
    return params.dut_core == "dut"


def has_corunners(params: Wishes) -> bool:
    """Return whether a point has a co-runner, spinning cores, or another program in place of the DUT."""
    return bool(params.corunner != "none" or params.spinning_cores or not runs_dut(params))


def place_corunners(cpus: Sequence[Cpu], params: Wishes, dut: Sequence[int], others: Iterable[int]) -> CorunnerCpus:
    """Choose the CPUs of a point's co-runners.

    Args:
        cpus: those that may be used.
        params: of the point.
        dut: CPUs of the DUT's lcores; `corunner_place` refers to the first one.
        others: CPUs of other spinning programs (the generator).

    Raises:
        HostError: too few CPUs, or none of the requested kind.
    """
    place = _Place(cpus, dut, set(others))
    corunner = None if params.corunner == "none" else place.corunner(params.corunner_place)
    occupant = dut[0] if params.dut_core == "stress-ng" else None
    spinning = place.spinning(params.spinning_cores, corunner, () if params.dut_core == "idle" else dut)
    return CorunnerCpus(corunner, occupant, spinning)


class _Place:
    """The CPUs of a host, relative to the DUT's first one."""

    def __init__(self, cpus: Sequence[Cpu], dut: Sequence[int], others: set[int]) -> None:
        self._cpus = {cpu.cpu: cpu for cpu in cpus}
        self._dut, self._others = list(dut), others
        self._home = self._cpus[dut[0]]

    def corunner(self, place: str) -> int:
        """Return the co-runner's CPU: of several, the highest number, because the kernel uses mostly the first CPUs."""
        if place == "dut-cpu":
            return self._home.cpu
        found = {"smt-sibling": self._siblings, "other-core": self._other_cores, "same-llc": self._same_llc}[place]()
        return max(found, key=lambda cpu: (cpu.node == self._home.node, cpu.cpu)).cpu

    def _siblings(self) -> list[Cpu]:
        threads = [cpu for cpu in self._cpus.values() if cpu.physical == self._home.physical]
        free = [cpu for cpu in threads if cpu.cpu not in {*self._dut, *self._others}]
        if not free:
            why = "is taken" if len(threads) > 1 else "does not exist (or SMT is off)"
            raise HostError(f"smt-sibling needs an SMT sibling of the DUT core: that of CPU {self._home.cpu} {why}")
        return free

    def _free_cores(self, taken: Iterable[int]) -> list[Cpu]:
        """Return the CPUs of physical cores on which nothing runs."""
        busy = {self._cpus[cpu].physical for cpu in taken if cpu in self._cpus}
        return [cpu for cpu in self._cpus.values() if cpu.physical not in busy]

    def _other_cores(self) -> list[Cpu]:
        free = self._free_cores([*self._dut, *self._others])
        if not free:
            needed = f"{len(self._dut)} for the DUT and {len(self._others)} for the generator"
            cores = len({cpu.physical for cpu in self._cpus.values()})
            raise HostError(
                f"the co-runner needs a core of its own beside {needed}; this host has {cores} to give"
                + ("; feed infinite or none needs no generator" if self._others else "")
            )
        return free

    def _same_llc(self) -> list[Cpu]:
        free = [cpu for cpu in self._other_cores() if cpu.llc is not None and cpu.llc == self._home.llc]
        if not free:
            raise HostError(f"same-llc needs a free core that shares the last-level cache of CPU {self._home.cpu}")
        return free

    def spinning(self, count: int, corunner: int | None, dut: Sequence[int]) -> tuple[int, ...]:
        """Return one CPU on each of `count` free cores, first on the co-runner's package (one power budget)."""
        home = self._cpus[corunner] if corunner is not None else self._home
        taken = [*dut, *self._others, *([] if corunner is None else [corunner])]
        free: dict[tuple[int, ...], Cpu] = {}
        for cpu in sorted(self._free_cores(taken), key=lambda cpu: (cpu.package != home.package, -cpu.cpu)):
            free.setdefault(cpu.physical, cpu)
        if count > len(free):
            raise HostError(f"needs {count} cores to spin on beside everything else; this host has {len(free)} to give")
        return tuple(cpu.cpu for cpu in free.values())[:count]
