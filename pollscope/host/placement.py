# SPDX-License-Identifier: BSD-3-Clause
"""Give CPUs roles: apply the placement policies of specs to the topology of a host.

Each spinning lcore gets its own CPU. A placement that the host cannot provide raises a HostError with the reason; it is
never replaced by a similar one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from pollscope.base.errors import HostError
from pollscope.base.units import counted
from pollscope.host.cpus import Cpu, listed_cpus
from pollscope.host.files import format_list


@dataclass(frozen=True)
class Wanted:
    """The lcores that need CPUs.

    Attributes:
        workers, dispatchers: the DUT's lcores.
        generator: whether a generator lcore sends from this host.
        placement: policy, or CPUs `2,3`, workers first.
        nic_node: NUMA node of the NIC; None where a generator's core plays the NIC, or where it is not known.
        more_generators: further generator lcores, as far as cores are free.
    """

    workers: int
    dispatchers: int = 0
    generator: bool = True
    placement: str = "separate"
    nic_node: int | None = None
    more_generators: int = 0

    @property
    def dut(self) -> int:
        """Return the number of the DUT's lcores."""
        return self.workers + self.dispatchers

    @property
    def needed(self) -> int:
        """Return the number of all spinning lcores."""
        return self.dut + self.generator

    @property
    def text(self) -> str:
        """Return the counts in words: `5 CPUs (2 workers, 2 dispatchers, 1 generator)`."""
        counts = {"worker": self.workers, "dispatcher": self.dispatchers, "generator": int(self.generator)}
        parts = [counted(count, role) for role, count in counts.items() if count]
        return f"{counted(self.needed, 'CPU')} ({', '.join(parts)})"


@dataclass(frozen=True)
class Roles:
    """The CPUs by role.

    Attributes:
        main: EAL's main lcore; sleeps during a window, so it may share a CPU.
        generators: the generator's lcores; empty if no generator runs on this host.
        dut: the DUT's workers.
        dispatchers: lcores that hand packets on to the workers.
        shared_core: generator and DUT share physical cores (hardware threads), which disturbs the measurement.
    """

    main: int
    generators: tuple[int, ...]
    dut: tuple[int, ...]
    dispatchers: tuple[int, ...] = ()
    shared_core: bool = False

    @property
    def measuring(self) -> tuple[int, ...]:
        """Return the CPUs on which lcores spin, generator first."""
        return (*self.generators, *self.dut, *self.dispatchers)


def place(cpus: Iterable[Cpu], wanted: Wanted) -> Roles:
    """Give each spinning lcore its own CPU according to the placement.

    The DUT gets the cores with the highest numbers: the kernel keeps most of its own work on the first ones.

    Raises:
        HostError: this host cannot give that, and why.
    """
    every = sorted(cpus)
    if len(every) < wanted.needed:
        raise HostError(f"needs {wanted.text}; this host has {len(every)} to give")
    if listed_cpus(wanted.placement):
        return _listed(every, wanted)
    return _POLICIES[wanted.placement](every, wanted)


def room_beside(allowed: Set[int], busy: Sequence[int]) -> Set[int]:
    """Return the CPUs for collectors: those that are not busy, otherwise the first busy one, which is the generator's.

    A delayed generator catches up later, but time that the DUT loses is part of the measurement. Without a generator,
    only one lcore is disturbed.
    """
    return (allowed - set(busy)) or (allowed - set(busy[1:])) or allowed


def _separate(cpus: Sequence[Cpu], wanted: Wanted) -> Roles:
    """Choose one physical core per lcore, on one NUMA node if possible; the generator shares a core if necessary."""
    for there in (*_nodes(cpus, wanted.nic_node).values(), cpus):
        cores = _physical(there)
        if len(cores) >= wanted.needed:
            return _from_cores(cpus, cores, wanted)
    cores = _physical(cpus)
    if len(cores) < wanted.dut:
        raise HostError(
            f"separate: needs {wanted.dut} physical cores for the DUT's lcores; this host has {len(cores)} "
            f"with {len(cpus)} hardware threads"
        )
    chosen = [threads[0] for threads in cores[-wanted.dut :]]
    generator = next(cpu for cpu in cpus if cpu not in chosen)
    return _roles(cpus, chosen, generator, wanted, shared_core=True)


def _same_node(cpus: Sequence[Cpu], wanted: Wanted) -> Roles:
    nodes = _nodes(cpus, wanted.nic_node)
    if wanted.nic_node is not None:
        nodes = {node: there for node, there in nodes.items() if node == wanted.nic_node}
    for there in nodes.values():
        cores = _physical(there)
        if len(cores) >= wanted.needed:
            return _from_cores(cpus, cores, wanted)
    raise HostError(f"same-node: needs {wanted.needed} physical cores on one NUMA node; {_largest(nodes)}")


def _remote_node(cpus: Sequence[Cpu], wanted: Wanted) -> Roles:
    """Place the DUT on another NUMA node than the NIC, or than the generator whose core plays the NIC."""
    nodes = _nodes(cpus, wanted.nic_node)
    if len(nodes) < 2:
        raise HostError(f"remote-node: this host has {len(nodes)} NUMA node")
    if wanted.nic_node is None and not wanted.generator:
        raise HostError("remote-node: there is no generator that the DUT could be remote from")
    near = wanted.nic_node if wanted.nic_node is not None else next(iter(nodes))
    others = {node: there for node, there in nodes.items() if node != near}
    for there in others.values():
        cores = _physical(there)
        if len(cores) >= wanted.dut:
            generator = _physical(nodes[near])[-1][0] if wanted.generator else None
            return _roles(cpus, [threads[0] for threads in cores[-wanted.dut :]], generator, wanted)
    raise HostError(
        f"remote-node: needs {wanted.dut} physical cores on another NUMA node than {near}; {_largest(others)}"
    )


def _smt_pairs(cpus: Sequence[Cpu], wanted: Wanted) -> Roles:
    """Place workers in pairs on the threads of a physical core, dispatchers likewise, the generator on its own core."""
    cores, needed = _physical(cpus), -(-wanted.workers // 2) + -(-wanted.dispatchers // 2)
    if all(len(threads) < 2 for threads in cores):
        raise HostError("smt-pairs: this host shows no SMT: each of its CPUs is a core of its own")
    for there in (*_nodes(cpus, wanted.nic_node).values(), cpus):
        found = _pairs(_physical(there), needed, wanted)
        if found is not None:
            return _roles(cpus, *found, wanted)
    paired = sum(len(threads) > 1 for threads in cores)
    beside = " and one for the generator" if wanted.generator else ""
    raise HostError(
        f"smt-pairs: needs {needed} physical cores with two hardware threads{beside}; "
        f"this host has {len(cores)}, {paired} of them with two"
    )


def _pairs(cores: Sequence[Sequence[Cpu]], needed: int, wanted: Wanted) -> tuple[list[Cpu], Cpu | None] | None:
    """Return roles on these physical cores: the DUT's CPUs, workers first, and the generator's."""
    paired = [threads for threads in cores if len(threads) > 1][-needed:]
    others = [threads for threads in cores if threads not in paired]
    if len(paired) < needed or (wanted.generator and not others):
        return None
    workers = -(-wanted.workers // 2)
    in_twos = [[cpu for threads in part for cpu in threads[:2]] for part in (paired[:workers], paired[workers:])]
    dut = [*in_twos[0][: wanted.workers], *in_twos[1][: wanted.dispatchers]]
    return dut, others[-1][0] if wanted.generator else None


def _listed(cpus: Sequence[Cpu], wanted: Wanted) -> Roles:
    numbers = listed_cpus(wanted.placement)[: wanted.dut]
    known = {cpu.cpu: cpu for cpu in cpus}
    missing = [number for number in numbers if number not in known]
    if missing:
        raise HostError(f"placement: this host has no CPU {missing[0]} to give, only {format_list(known)}")
    chosen = [known[number] for number in numbers]
    if not wanted.generator:
        return _roles(cpus, chosen, None, wanted)
    busy = {cpu.physical for cpu in chosen}
    free = [cpu for cpu in cpus if cpu not in chosen]
    generator = next((cpu for cpu in reversed(free) if cpu.physical not in busy), free[-1])
    return _roles(cpus, chosen, generator, wanted, shared_core=generator.physical in busy)


_POLICIES: Mapping[str, Callable[[Sequence[Cpu], Wanted], Roles]] = {
    "separate": _separate,
    "same-node": _same_node,
    "remote-node": _remote_node,
    "smt-pairs": _smt_pairs,
}


def _from_cores(cpus: Sequence[Cpu], cores: Sequence[Sequence[Cpu]], wanted: Wanted) -> Roles:
    generator = cores[-wanted.needed][0] if wanted.generator else None
    return _roles(cpus, [threads[0] for threads in cores[-wanted.dut :]], generator, wanted)


def _roles(
    cpus: Sequence[Cpu], dut: Sequence[Cpu], generator: Cpu | None, wanted: Wanted, shared_core: bool = False
) -> Roles:
    generators = [] if generator is None else [generator, *_further(cpus, [*dut, generator], wanted.more_generators)]
    taken = {*dut, *generators}
    busy = {cpu.physical for cpu in taken}
    free = [cpu for cpu in cpus if cpu not in taken]
    # The main lcore sleeps in a window: a free core is best, then a free thread, then a CPU that is used already.
    main = next((cpu for cpu in free if cpu.physical not in busy), next(iter(free), generator or dut[-1]))
    return Roles(
        main.cpu,
        tuple(cpu.cpu for cpu in generators),
        tuple(cpu.cpu for cpu in dut[: wanted.workers]),
        tuple(cpu.cpu for cpu in dut[wanted.workers :]),
        shared_core,
    )


def _further(cpus: Sequence[Cpu], taken: Sequence[Cpu], count: int) -> list[Cpu]:
    """Return at most `count` CPUs on free cores of the node of the last one taken; one free core stays free."""
    busy = {cpu.physical for cpu in taken}
    free = _physical(cpu for cpu in cpus if cpu.physical not in busy)
    near = [threads[0] for threads in reversed(free) if threads[0].node == taken[-1].node]
    return near[: max(0, min(count, len(free) - 1))]


def _nodes(cpus: Sequence[Cpu], first: int | None) -> dict[int, list[Cpu]]:
    """Return NUMA node -> its CPUs, the node `first` before all others."""
    order = sorted({cpu.node for cpu in cpus}, key=lambda node: (node != first, node))
    return {node: [cpu for cpu in cpus if cpu.node == node] for node in order}


def _physical(cpus: Iterable[Cpu]) -> list[list[Cpu]]:
    """Return the hardware threads of each physical core."""
    cores: dict[tuple[int, int, int], list[Cpu]] = {}
    for cpu in cpus:
        cores.setdefault(cpu.physical, []).append(cpu)
    return list(cores.values())


def _largest(nodes: Mapping[int, Sequence[Cpu]]) -> str:
    most = max((len(_physical(there)) for there in nodes.values()), default=0)
    return f"the largest has {most}" if len(nodes) > 1 else f"there are {most}"
