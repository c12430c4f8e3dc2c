# SPDX-License-Identifier: BSD-3-Clause
"""Measure on this machine: generator and DUT in one `pollscope-node`, joined by virtual NIC pairs."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from pollscope.base.errors import HostError, UsageError
from pollscope.base.names import RECEIVE_NOTHING
from pollscope.base.paths import corunner_program, node_program
from pollscope.base.units import counted, human_number, human_size
from pollscope.host import cpus as processors
from pollscope.host.activity import read_activity
from pollscope.host.control_group import most_cpus
from pollscope.host.corunner_placement import CorunnerCpus, has_corunners, place_corunners
from pollscope.host.cpus import Cpu
from pollscope.host.eal_folders import new_file_prefix, remove_folder, remove_stale_folders
from pollscope.host.memory import available_bytes, hugepages, hugetlbfs_folder
from pollscope.host.metadata import build_metadata, cpu_flags, host_metadata
from pollscope.host.placement import Roles, Wanted, place
from pollscope.host.real_time import real_time_refusal
from pollscope.host.waiting import lcore_waits_ns, ran_instead, run_times_ns
from pollscope.knobs import KnobHost, KnobSession
from pollscope.knobs.points import knob_refusal
from pollscope.node.build import queues_refusal
from pollscope.node.client import NodeClient
from pollscope.node.clocks import clock_warnings, clocks
from pollscope.node.requests import Wiring, configure_request, floor_request
from pollscope.spec import lcores
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.testbeds.base import (
    MOST_GENERATOR_LCORES,
    Assignment,
    Opening,
    TestbedConfig,
    TestbedState,
    tcp_refusal,
)
from pollscope.testbeds.corunner import corunner_refusal
from pollscope.testbeds.halting import halt_refusal
from pollscope.testbeds.made_traces import is_made_when_needed, make_missing
from pollscope.testbeds.node_testbed import NodeTestbed
from pollscope.testbeds.page_size import PAGE_BYTES, SMALL, page_arguments
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.program import program_refusal
from pollscope.testbeds.session import Session, TrialRequest

_HUGEPAGE_BYTES = 2 << 20
# One mbuf: 128 B header, 128 B headroom, 2048 B data, 64 B mempool header, rounded up by the allocator.
MBUF_BYTES = 2432
# LPM table, rings, descriptors, histograms and the mempools' caches.
_FIXED_BYTES = 256 << 20
# Mbufs outside descriptors and rings: caches of the lcores, bursts in flight.
_SPARE_MBUFS = 6144
# With 64 B frames one generator lcore feeds about two DUT cores.
_DUT_CORES_PER_GENERATOR = 2
# Mbufs in flight per generator lcore.
_SENDER_MBUFS = 2048
_MAIN_LCORE = 0
# RTE_MAX_LCORE of a default build (config/rte_config.h).
_MOST_LCORES = 128

# Time limits of requests; a slower node counts as hung. Configuring 1024 queues takes well below a second.
CONFIGURE_LIMIT_S = 30.0
CALIBRATE_LIMIT_S = 30.0
REQUEST_LIMIT_S = 5.0
# Delay of a trial's end after which the node counts as hung. The node itself names a hung lcore within 6 s.
GRACE_S = 8.0

# Threads that take an lcore's CPU are looked for in trials that follow such a wait.
_NOTABLE_WAIT_NS = 1_000_000

# Parameters that the node reads only at its start; another value needs a new process.
_AT_START = ("node", "dma", "feed", "page_size")
_AT_START_WHEN_FED = ("frame", "flows")


class Cpus(TestbedConfig):
    """CPUs that the testbed file names."""

    main: int = Field(ge=0)
    generator: Annotated[
        tuple[int, ...],
        Field(strict=False, min_length=1, max_length=MOST_GENERATOR_LCORES, description="one, or a list of several"),
        BeforeValidator(lambda given: given if isinstance(given, list | tuple) else [given]),
    ]
    dut: Annotated[tuple[int, ...], Field(strict=False, min_length=1)]

    @model_validator(mode="after")
    def _spin_alone(self) -> Self:
        spinning = (*self.generator, *self.dut)
        twice = sorted({cpu for cpu in spinning if spinning.count(cpu) > 1})
        if twice:
            raise ValueError(f"CPU {twice[0]} is named twice: each lcore of generator and DUT needs its own CPU")
        return self


class LoopbackConfig(TestbedConfig):
    """The file of a loopback testbed."""

    kind: Literal["loopback"]
    # Choose the type by the form; otherwise an error in a table would be reported as a wrong word.
    cpus: Annotated[
        Annotated[Literal["auto"], Tag("word")] | Annotated[Cpus, Tag("table")],
        Discriminator(lambda given: "word" if isinstance(given, str) else "table"),
    ] = "auto"
    hugepages: Literal["auto", "always", "never"] = "auto"
    knob_root: str | None = Field(
        default=None,
        description="folder with sys, proc, dev and state, whose knobs are set instead of this host's; default: none",
    )


@dataclass(frozen=True)
class Lcores:
    """The lcores of a node: one per spinning CPU, the main lcore, and one for a generator that sleeps."""

    main_cpu: int
    by_cpu: Mapping[int, int]
    sleeper_cpu: int | None = None

    @classmethod
    def of(cls, roles: Roles, spare: Sequence[int], sleeps: bool = False) -> "Lcores":
        """Return lcores for these roles in their order, followed by lcores for spare CPUs."""
        by_cpu = {cpu: number for number, cpu in enumerate((*roles.measuring, *spare), _MAIN_LCORE + 1)}
        return cls(roles.main, by_cpu, roles.dut[0] if sleeps else None)

    @property
    def _sleeper(self) -> int:
        return _MAIN_LCORE + len(self.by_cpu) + 1

    @property
    def eal(self) -> str:
        """Return the value of EAL's --lcores."""
        pairs = [(_MAIN_LCORE, self.main_cpu), *((lcore, cpu) for cpu, lcore in self.by_cpu.items())]
        pairs += [] if self.sleeper_cpu is None else [(self._sleeper, self.sleeper_cpu)]
        return ",".join(f"{lcore}@{cpu}" for lcore, cpu in pairs)

    def wiring(self, roles: Roles) -> Wiring:
        """Return the lcores of these roles."""
        without = _MAIN_LCORE if self.sleeper_cpu is None else self._sleeper
        return Wiring(
            generator_lcores=[self.by_cpu[cpu] for cpu in roles.generators] or [without],
            dut_lcores=[self.by_cpu[cpu] for cpu in roles.dut],
            dispatcher_lcores=[self.by_cpu[cpu] for cpu in roles.dispatchers],
            gen_tx="net_crossover0_a",
            dut_rx="net_crossover0_b",
            dut_tx="net_crossover1_a",
            gen_rx="net_crossover1_b",
        )


@dataclass(frozen=True)
class Memory:
    """The kind and size of the memory for the node."""

    huge: bool
    bytes: int
    folder: str = ""  # hugetlbfs of one page size; empty: any page size


class LoopbackTestbed(NodeTestbed):
    """Measure on this machine, without a NIC: ports are virtual, and the set-up play reserves hugepages."""

    kind = "loopback"
    summary = "generator and DUT in one node on this machine, joined by virtual NICs"
    config_model = LoopbackConfig
    config: LoopbackConfig
    shared_tsc = True
    # Starting a node takes 0.2 s, several times a short trial. An idle one holds memory and sleeps.
    most_sessions = 8

    def __init__(self, file: Path, config: LoopbackConfig) -> None:
        super().__init__(file, config)
        self._hugepages_bytes = 0  # that were free when the run began
        self.knob_host = KnobHost.measuring(config.knob_root)

    def own_knobs(self, what: str, restore_first: bool) -> KnobSession:
        return KnobSession(what, self.knob_host, restore_first)

    def machine(self) -> dict[str, Any]:
        return {"host": host_metadata(), "build": build_metadata(node_program())}

    def plan_for(self, cpus: int) -> None:
        if self.config.cpus != "auto":
            raise UsageError("this testbed's file names the CPUs", "--cpus", f"write `cpus: auto` into {self.file}")
        self._cpus, self._most_at_a_time = processors.similar_cpus(self._cpus, cpus), None
        cores, nodes = len({cpu.physical for cpu in self._cpus}), len({cpu.node for cpu in self._cpus})
        parts = counted(cpus, "CPU"), counted(cores, "core"), counted(nodes, "NUMA node")
        self.other_host = f"{', '.join(parts)}; all else, also free memory, as here"

    def refusal(self, point: Point) -> str | None:
        """Return why this host cannot run a point: it lacks CPUs, memory for mbufs, a privilege, or a knob."""
        params = point.params
        try:
            roles = self._roles(params)
        except HostError as error:
            return error.what
        if (refused := self._time_refusal(params, len(roles.measuring) + lcores.spinning_beside(params))) is not None:
            return refused
        if params.trace is not None and not (is_made_when_needed(params.trace) or Path(params.trace).is_file()):
            return f"there is no trace {params.trace}; `pollscope trace {params.trace}` makes one"
        if params.feed == "infinite" and isinstance(params.frame, str):
            return "feed=infinite makes frames of one size only"
        alone = (
            tcp_refusal(params)
            or program_refusal(params)
            or corunner_refusal(params, lambda: _loopback_corunners(self._cpus, self._roles(params), params))
            or halt_refusal(params, cpu_flags)
        )
        if alone is not None:
            return alone
        if (too_many := _queues_refusal(params)) is not None:
            return too_many
        if params.tx_inline != "default":
            return f"tx_inline={params.tx_inline} needs an mlx5 NIC; the virtual NIC's descriptors hold no packets"
        try:
            memory, needed = self._memory(params), _needed_bytes(params, self._roles(params))
        except HostError as error:
            return error.what
        if needed > memory.bytes:
            kind = "hugepages" if memory.huge else "memory"
            return f"needs about {human_size(needed)} for mbufs; {human_size(memory.bytes)} of {kind} are free"
        return knob_refusal(self.knob_host, point.factors)

    def _time_refusal(self, params: Parameters, spinning: int) -> str | None:
        """Return why this process gets too little of the time of its CPUs; None if it gets enough."""
        most = self._most_at_a_time
        if most is not None and spinning > most:
            allowed = human_number(most, 3)
            return f"{spinning} CPUs are busy at a time; the control group of this process may use {allowed} (cpu.max)"
        if params.generator_sleep and (refused := real_time_refusal()) is not None:
            return f"generator_sleep: this host refuses SCHED_FIFO: {refused} (CAP_SYS_NICE or `ulimit -r 1` allows it)"
        return None

    def check(self) -> None:
        """Check that a node can be started.

        Raises:
            HostError: the program is not built, or there are fewer than two CPUs.
        """
        node_program()
        remove_stale_folders()  # their files hold hugepages that the plan counts
        if self._most_cores() < 1:
            raise HostError("the loopback testbed needs 2 CPUs: one for the generator and one for the DUT")

    def begin(self, assignment: Assignment) -> Opening:
        """Make missing traces that can be generated, then start the first session.

        Raises:
            HostError: the node does not start, or a trace cannot be written.
        """
        memory = self._own_memory()
        self._hugepages_bytes = memory.bytes if memory.huge else 0
        traces = dict.fromkeys(trial.point.params.trace for trial in assignment.plan.trials)
        self.warnings += make_missing(path for path in traces if path is not None)
        return super().begin(assignment)

    def open(self, params: Parameters, log: Path) -> "LoopbackSession":
        """Start the node for this configuration.

        Raises:
            HostError: the node does not start.
        """
        roles, memory = self._roles(params), self._memory(params)
        if self._hugepages_bytes and params.page_size is None and not memory.huge:
            # The first points had hugepages, and costs with small pages cannot be compared with theirs.
            raise HostError(
                "the hugepages that were free when the run began are taken", remedy="free them, then resume"
            )
        remove_stale_folders()
        prefix = new_file_prefix()
        places = Lcores.of(roles, self._spare_cpus(roles), params.generator_sleep > 0)
        client = NodeClient(eal_command(node_program(params.node), prefix, places, memory, params, roles), log)
        try:
            client.wait_hello()
        except HostError:
            remove_folder(prefix)
            raise
        kind: type[LoopbackSession] = LoopbackSession
        if params.command:
            from pollscope.testbeds.program_session import ProgramSession  # a LoopbackSession itself

            kind = ProgramSession
        return kind(client, prefix, places, self._roles, memory, params)

    def make_room(self, idle: Sequence[Session], chosen: Session | None, params: Parameters) -> int:
        """Return how many idle nodes have to end: together all nodes use the hugepages that were free at the start."""
        held = [session.held_bytes if isinstance(session, LoopbackSession) else 0 for session in idle]
        # Without hugepages a node takes its memory at its start, and twice what its first point needs.
        own = params.page_size is None
        left = self._hugepages_bytes - _needed_bytes(params, self._roles(params)) if own else 0
        count = super().make_room(idle, chosen, params)
        while count < len(idle) and sum(held[count:]) > left:
            count += 1
        return count

    def status(self) -> TestbedState:
        try:
            self.check()
            roles = self._place(Wanted(1))
        except HostError as error:
            return TestbedState(False, [str(error)])
        memory = self._own_memory()
        generators = ", ".join(map(str, roles.generators))
        cpus = f"CPU {generators} generator, CPU {roles.dut[0]} DUT, main lcore on CPU {roles.main}"
        return TestbedState(True, [cpus, *_cautions(roles, memory), f"up to {self._most_cores()} DUT cores"])

    @cached_property
    def _cpus(self) -> list[Cpu]:
        return processors.allowed_cpus()

    @cached_property
    def _most_at_a_time(self) -> float | None:
        return most_cpus()

    def _most_cores(self) -> int:
        if self.config.cpus != "auto":
            return len(self.config.cpus.dut)
        return processors.most_dut_cores(self._cpus)

    def _roles(self, params: Parameters) -> Roles:
        """Return the CPUs of a point; raise HostError if this host has too few."""
        generator = lcores.generator_spins(params)
        more = _generators(params) - 1
        return self._place(
            Wanted(params.cores, lcores.dispatchers(params), generator, params.placement, more_generators=more)
        )

    def _place(self, wanted: Wanted) -> Roles:
        if self.config.cpus == "auto":
            return place(self._cpus, wanted)
        given = self.config.cpus
        if wanted.placement != "separate":
            raise HostError(f"placement {wanted.placement}: this testbed's file names the CPUs by hand")
        if wanted.dut > len(given.dut):
            raise HostError(f"needs {wanted.text}; this testbed's file has {len(given.dut)} for the DUT")
        dut, others = given.dut[: wanted.workers], given.dut[wanted.workers : wanted.dut]
        return Roles(given.main, given.generator if wanted.generator else (), dut, others)

    def _spare_cpus(self, roles: Roles) -> list[int]:
        """Return CPUs that other points may need: an unused lcore only sleeps, but a new node takes time to
        start.
        """
        if self.config.cpus != "auto":
            given = self.config.cpus
            return [cpu for cpu in (*given.generator, *given.dut) if cpu not in roles.measuring]
        allowed = [cpu.cpu for cpu in self._cpus if cpu.cpu not in roles.measuring]
        # 2: the main lcore, and the lcore of a generator that sleeps.
        return allowed if len(allowed) + len(roles.measuring) + 2 <= _MOST_LCORES else []

    def _memory(self, params: Parameters) -> Memory:
        """Return the memory for a point; raise HostError if this host has no such pages."""
        size = params.page_size
        if size is None:
            return self._own_memory()
        if size == SMALL:
            return _small_pages()
        folder = hugetlbfs_folder(PAGE_BYTES[size])
        if folder is None:
            raise HostError(f"page_size: no hugetlbfs of {size} pages is mounted")
        if not os.access(folder, os.W_OK):
            raise HostError(f"page_size: this user may not write to {folder}")
        free = sum(pages.free_bytes for pages in hugepages() if pages.page_bytes == PAGE_BYTES[size])
        return Memory(True, free, folder)

    def cautions(self, point: Point) -> list[str]:
        """Return warnings about the effect of a point's memory and CPUs on its costs."""
        return _cautions(self._roles(point.params), self._memory(point.params))

    def _own_memory(self) -> Memory:
        free = sum(pages.free_bytes for pages in hugepages() if pages.page_bytes == _HUGEPAGE_BYTES)
        enough = self.config.hugepages == "always" or free >= _FIXED_BYTES + (_SPARE_MBUFS + _SENDER_MBUFS) * MBUF_BYTES
        if enough and self.config.hugepages != "never":
            return Memory(True, free)
        return _small_pages()


def _small_pages() -> Memory:
    # Use half of the available memory, so that the host does not swap during a trial.
    return Memory(False, available_bytes() // 2)


def _loopback_corunners(cpus: Sequence[Cpu], roles: Roles, params: Parameters) -> CorunnerCpus:
    """Return the co-runners beside the DUT on this host; raise HostError if there is no room."""
    return place_corunners(cpus, params, [*roles.dut, *roles.dispatchers], roles.generators)


def _generators(params: Parameters) -> int:
    """Return how many generator lcores the DUT of a point needs: one if it is an agent, or beside a co-runner."""
    if has_corunners(params) or lcores.has_agent(params):
        return 1
    wanted = min(-(-params.cores // _DUT_CORES_PER_GENERATOR), MOST_GENERATOR_LCORES)
    return wanted if params.trace is not None else min(wanted, params.flows)


def _needed_bytes(params: Parameters, roles: Roles) -> int:
    """Return an estimate of the memory for a configuration; mbufs dominate it."""
    senders = max(1, len(roles.generators))
    descriptors = params.rx_desc * (params.queues + 2 + senders) + params.tx_desc * (params.cores + 2 + senders)
    rings = params.ring_size * lcores.dispatchers(params)
    mbuf_bytes = MBUF_BYTES * max(1, -(-params.mtu // 2048))
    return int(_FIXED_BYTES + (descriptors + rings + _SPARE_MBUFS + senders * _SENDER_MBUFS) * mbuf_bytes)


def _at_start(params: Parameters) -> dict[str, Any]:
    """Return what the node reads only at its start: some parameters, and whether an agent plays its ports' NIC."""
    names = (*_AT_START, *_AT_START_WHEN_FED) if params.feed == "infinite" else _AT_START
    return params.only(names) | {"agent": lcores.has_agent(params)}


def eal_command(
    program: Path, prefix: str, places: Lcores, memory: Memory, params: Parameters, roles: Roles
) -> list[str]:
    """Return program and EAL arguments; the node has its own file prefix, so that it shares nothing with others."""
    command = [str(program), "--lcores", places.eal, "--main-lcore", str(_MAIN_LCORE), "--no-pci"]
    command += ["--file-prefix", prefix]
    command += ["--vdev", f"net_crossover0,{_feed(params)}", "--vdev", f"net_crossover1,{_back(params)}"]
    # --no-huge implies --legacy-mem, which EAL refuses with --in-memory; --no-huge creates no files either.
    if memory.huge and not memory.folder:
        return [*command, "--in-memory"]
    return [*command, *page_arguments(params.page_size or SMALL, memory.folder, _no_huge_mib(params, roles))]


def _queues_refusal(params: Parameters) -> str | None:
    try:
        return queues_refusal(node_program(params.node), params.queues)
    except HostError as error:  # not built; a plan needs only those builds that the spec names
        return f"{error.where}: {error.what}" if params.node else None


def _feed(params: Parameters) -> str:
    if params.feed == "infinite":  # the port makes the frames itself, without a DMA engine
        return f"feed=infinite,size={params.frame},flows={min(params.flows, 65535)}"
    return _back(params)


def _back(params: Parameters) -> str:
    return "feed=external" if lcores.has_agent(params) else f"dma={params.dma}"


def _no_huge_mib(params: Parameters, roles: Roles) -> int:
    # Without hugepages EAL takes all its memory at the start; twice the estimate lets later points fit.
    return max(512, 2 * _needed_bytes(params, roles) >> 20)


def _cautions(roles: Roles, memory: Memory) -> list[str]:
    cautions = []
    if not memory.huge:
        cautions.append("no hugepages: 4 KiB pages add TLB misses, which raise the cost per packet and per poll")
    if roles.shared_core:
        cautions.append("generator and DUT are hardware threads of one core and slow each other down")
    return cautions


class LoopbackSession:
    """A running node that is both generator and DUT."""

    hosts: Sequence[RemoteHost] = ()  # collectors run here
    _has_waited = True  # in the trial before; the first one is looked at

    def __init__(
        self,
        client: NodeClient,
        prefix: str,
        places: Lcores,
        roles_of: Callable[[Parameters], Roles],
        memory: Memory,
        first: Parameters,
    ) -> None:
        self._client, self._prefix, self._places, self._roles_of = client, prefix, places, roles_of
        # Select this node among the DPDK applications of the host.
        self.collector_options = {"dpdk-telemetry": {"file_prefix": prefix}}
        self._memory, self._at_start = memory, _at_start(first)
        # Without hugepages EAL cannot take more memory later.
        self._taken_bytes = None if memory.huge else _no_huge_mib(first, roles_of(first)) << 20
        self._configured: dict[str, Any] = {}
        self._take(first)

    @property
    def held_bytes(self) -> int:
        """Return an estimate of the memory that the present configuration holds."""
        return self._taken_bytes or self._held_bytes

    def _take(self, params: Parameters) -> None:
        self._roles = self._roles_of(params)
        self._held_bytes = _needed_bytes(params, self._roles)
        self._wiring = self._places.wiring(self._roles)

    @property
    def _spinning(self) -> dict[int, int]:
        """Return CPU -> lcore of the spinning lcores, generator first."""
        return {cpu: self._places.by_cpu[cpu] for cpu in self._roles.measuring}

    @property
    def hello(self) -> dict[str, Any]:
        return self._client.hello

    @property
    def pid(self) -> int:
        """Return the process id of the node."""
        return self._client.pid

    @property
    def measuring_cpus(self) -> tuple[int, ...]:
        """Return the CPUs on which lcores spin, generator first."""
        return self._roles.measuring

    @property
    def metadata(self) -> list[str]:
        return [*_cautions(self._roles, self._memory), *clock_warnings(self.hello)]

    def suits(self, params: Parameters) -> bool:
        """Return whether the ports have these parameters and the memory suffices."""
        roles = self._roles_of(params)
        if self._taken_bytes is not None and _needed_bytes(params, roles) > self._taken_bytes:
            return False
        if params.generator_sleep and self._places.sleeper_cpu != roles.dut[0]:
            return False
        return _at_start(params) == self._at_start and set(roles.measuring) <= set(self._places.by_cpu)

    def watch(self) -> Callable[[], dict[str, Any]]:
        cpus = self.measuring_cpus
        ran = run_times_ns() if self._has_waited else {}
        before, waited = read_activity(cpus), self._waits_ns()

        def record() -> dict[str, Any]:
            host = read_activity(cpus).since(before)
            waits = {lcore: ns - waited.get(lcore, 0) for lcore, ns in self._waits_ns().items()}
            long = {lcore: ns for lcore, ns in waits.items() if ns > _NOTABLE_WAIT_NS}
            self._has_waited = bool(long)
            if long and ran:
                host["ran_instead"] = {
                    str(lcore): name for lcore, name in ran_instead(ran, long, [*self._lcores]).items()
                }
            return {**host, "waits_ns": {str(lcore): ns for lcore, ns in waits.items()}}

        return record

    @property
    def _lcores(self) -> Mapping[int, tuple[int, ...]]:
        """Return the spinning lcores by process."""
        return {self._client.pid: tuple(self._spinning.values())}

    def _waits_ns(self) -> dict[int, int]:
        return {lcore: ns for pid, own in self._lcores.items() for lcore, ns in lcore_waits_ns(pid, own).items()}

    def configure(self, params: Parameters) -> dict[str, Any]:
        """Configure the node unless it already has this configuration; return the request."""
        self._take(params)
        request = configure_request(params, self._wiring)
        self._configure(request)
        return request

    def _configure(self, request: dict[str, Any]) -> None:
        if request != self._configured:
            self._configured = {}
            self._client.request("configure", CONFIGURE_LIMIT_S, **request)
            self._configured = request

    def corunner_cpus(self, params: Parameters) -> CorunnerCpus:
        return _loopback_corunners(processors.allowed_cpus(), self._roles_of(params), params)

    def open_corunner(self, log: Path) -> NodeClient:
        return NodeClient([str(corunner_program())], log, "the co-runner")

    def least_warmup_ns(self, _params: Parameters) -> int:
        """Return 0: one request starts generator and DUT."""
        return 0

    def calibrate(self, params: Parameters) -> dict[str, Any]:
        """Return the costs of the configuration, measured without traffic; absent if traffic never stops."""
        if params.feed == "infinite":
            return {"absent": "feed=infinite: packets are always there, so an empty poll cannot be measured"}
        if params.workload in RECEIVE_NOTHING:
            return {"absent": f"the workload {params.workload} polls no RX queue"}
        reply = self._client.request("calibrate", CALIBRATE_LIMIT_S)
        return dict(reply["costs"])

    def noise(self, duration_ns: int) -> list[dict[str, Any]]:
        """Return the gaps in which each measuring CPU was away from its lcore."""
        limit_s = duration_ns / 1e9 + REQUEST_LIMIT_S
        spinning = list(self._spinning.values())
        reply = self._client.request("noise", limit_s, lcores=spinning, duration_ns=duration_ns)
        return list(reply["noise"])

    def host_state(self) -> list[dict[str, Any]]:
        """Check all lcores of the node, because all host-state checks of a run must cover the same lcores."""
        reply = self._client.request("host_state", REQUEST_LIMIT_S, lcores=list(self._places.by_cpu.values()))
        return [dict(reply["host_state"])]

    def floor(self, params: Parameters, request: TrialRequest) -> dict[str, Any] | str:
        """Measure the latency of one NIC pair alone; the generator's lcore sends and receives."""
        if lcores.has_agent(params):
            return "an agent reads only what a DUT sends"
        self._take(params)
        self._configure(floor_request(params, self._wiring))
        return self.measure(request)

    def measure(self, request: TrialRequest) -> dict[str, Any]:
        """Measure one trial.

        Raises:
            NodeRefused, NodeFailed: the node does not start the trial, or abandons it.
            NodeLost: the node hung or died.
        """
        self._client.request("start", REQUEST_LIMIT_S, **request.to_json())
        self._client.wait_trial(request.trial, request.planned_s + GRACE_S)
        result = self._client.request("read", REQUEST_LIMIT_S)
        found = clocks(self.hello, self.measuring_cpus)
        return {**result, "clocks": found} if found else result

    def selftest(self, limit_s: float) -> list[dict[str, Any]]:
        """Return the distortion by each accounting mode; the node must be configured."""
        return list(self._client.request("selftest", limit_s)["rows"])

    def close(self) -> None:
        self._client.close()
        remove_folder(self._prefix)

    def end(self) -> None:
        self._client.end()
        remove_folder(self._prefix)
