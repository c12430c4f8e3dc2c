# SPDX-License-Identifier: BSD-3-Clause
"""The loopback testbed: generator and DUT in one `pollscope-node` on this machine, joined by virtual NIC pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pollscope.collectors.knobs import Host
from pollscope.errors import HostError
from pollscope.host import cpus as processors
from pollscope.host.cpus import Roles
from pollscope.host.memory import hugepages, meminfo_bytes
from pollscope.host.waiting import lcore_waits_ns
from pollscope.hostlock import default_lock_path
from pollscope.knob_points import knob_refusal
from pollscope.node import NodeClient, NodeFailed
from pollscope.places import node_program
from pollscope.requests import Wiring, configure_request
from pollscope.testbeds.base import Measured, Params, State
from pollscope.testbeds.config import LoopbackConfig
from pollscope.testbeds.eal_folders import new_file_prefix, remove_folder, remove_stale_folders
from pollscope.units import human_size

HUGEPAGE_BYTES = 2 << 20
# One mbuf: 128 B of header, 128 B of headroom, 2048 B of data, 64 B of mempool header, rounded up by the allocator.
MBUF_BYTES = 2432
# LPM table, rings, descriptors, histograms and the mempools' caches.
FIXED_BYTES = 192 << 20
# Mbufs that are neither in a descriptor nor given by a parameter: caches of the lcores, bursts in flight.
SPARE_MBUFS = 8192
MAIN_LCORE, GENERATOR_LCORE, FIRST_DUT_LCORE = 0, 1, 2

# Limits of single requests. A node that takes longer is hung: configuring 1024 queues takes well below a second.
CONFIGURE_LIMIT_S = 30.0
CALIBRATE_LIMIT_S = 30.0
REQUEST_LIMIT_S = 5.0
# A trial may end this much later than planned before the node counts as hung.
GRACE_S = 5.0

# Parameters that are fixed when the ports are made, so that another value needs another process.
_AT_START = ("dma", "feed")
_AT_START_WHEN_FED = ("frame", "flows")


@dataclass(frozen=True)
class Memory:
    """Where the node's memory comes from, and how much there is."""

    huge: bool
    bytes: int


class LoopbackTestbed:
    """This machine, no NIC needed."""

    kind = "loopback"
    shared_tsc = True
    modelled = False

    def __init__(self, file: Path, config: LoopbackConfig) -> None:
        self.name, self.file, self.config = file.stem, file, config
        root = config.knob_root
        # Whatever tree is turned, it is this host that measures: its lock keeps runs apart.
        self.knob_host = replace(Host.at(Path(root)), lock_path=default_lock_path()) if root else Host()

    def describe(self) -> dict[str, Any]:
        """For run.json."""
        return {"name": self.name, "kind": self.kind, "shared_tsc": self.shared_tsc, "file": str(self.file)}

    def refusal(self, params: Params) -> str | None:
        """Why this host cannot take a point: too few CPUs, not enough memory for the mbufs, or a knob it lacks."""
        cores = self._most_cores()
        if params["cores"] > cores:
            return f"needs {params['cores']} DUT cores and 1 for the generator; this host has {cores + 1} to give"
        if params["feed"] == "infinite" and isinstance(params["frame"], str):
            return "feed=infinite makes frames of one size only"
        memory, needed = self._memory(), needed_bytes(params)
        if needed > memory.bytes:
            kind = "hugepages" if memory.huge else "memory"
            return f"needs about {human_size(needed)} for mbufs; {human_size(memory.bytes)} of {kind} are free"
        return knob_refusal(self.knob_host, params)

    def check(self) -> None:
        """Checks that a node can be started.

        Raises:
            HostError: the program is not built, or there are fewer than two CPUs.
        """
        node_program()
        if self._most_cores() < 1:
            raise HostError("the loopback testbed needs 2 CPUs: one for the generator and one for the DUT")

    def open(self, params: Params, most_cores: int, log: Path) -> "LoopbackSession":
        """Starts the node for this configuration.

        Raises:
            HostError: it does not start.
        """
        roles, memory = self._roles(most_cores), self._memory()
        remove_stale_folders()
        prefix = new_file_prefix()
        client = NodeClient(eal_command(node_program(), prefix, roles, memory, params), log)
        try:
            client.wait_hello()
        except HostError:
            remove_folder(prefix)
            raise
        at_start = {name: params[name] for name in start_parameters(params)}
        return LoopbackSession(client, prefix, roles, memory, at_start)

    def up(self) -> State:
        """Nothing has to be prepared: ports are virtual, and hugepages are reserved by the set-up play."""
        return self.status()

    def down(self) -> State:
        """Nothing was prepared, so nothing is given back."""
        return self.status()

    def status(self) -> State:
        """Whether a node could be started now, with which CPUs and memory."""
        try:
            self.check()
            roles = self._roles(1)
        except HostError as error:
            return State(False, [str(error)])
        memory = self._memory()
        cpus = f"CPU {roles.generator} generator, CPU {roles.dut[0]} DUT, main lcore on CPU {roles.main}"
        return State(True, [cpus, *_cautions(roles, memory), f"up to {self._most_cores()} DUT cores"])

    def _most_cores(self) -> int:
        if self.config.cpus != "auto":
            return len(self.config.cpus.dut)
        return processors.most_dut_cores(processors.allowed_cpus())

    def _roles(self, dut_cores: int) -> Roles:
        if self.config.cpus == "auto":
            return processors.choose(processors.allowed_cpus(), dut_cores)
        given = self.config.cpus
        return Roles(given.main, given.generator, given.dut[:dut_cores], shared_core=False)

    def _memory(self) -> Memory:
        free = sum(pages.free_bytes for pages in hugepages() if pages.page_bytes == HUGEPAGE_BYTES)
        enough = self.config.hugepages == "always" or free >= FIXED_BYTES + SPARE_MBUFS * MBUF_BYTES
        if enough and self.config.hugepages != "never":
            return Memory(True, free)
        # Half of what is available: the rest belongs to the host, which would otherwise start to swap under the trial.
        return Memory(False, (meminfo_bytes("MemAvailable") or 0) // 2)


def needed_bytes(params: Params) -> int:
    """About how much memory a configuration needs; mbufs are by far the most of it."""
    descriptors = params["rx_desc"] * (params["queues"] + 3) + params["tx_desc"] * (params["cores"] + 3)
    mbuf_bytes = MBUF_BYTES * max(1, -(-params["mtu"] // 2048))
    return int(FIXED_BYTES + (descriptors + SPARE_MBUFS) * mbuf_bytes)


def start_parameters(params: Params) -> tuple[str, ...]:
    """The parameters that are given to the node when it starts."""
    return (*_AT_START, *_AT_START_WHEN_FED) if params["feed"] == "infinite" else _AT_START


def eal_command(program: Path, prefix: str, roles: Roles, memory: Memory, params: Params) -> list[str]:
    """Program and EAL arguments; the file prefix is this node's own, so that nothing is shared with others."""
    dut = (f"{FIRST_DUT_LCORE + index}@{cpu}" for index, cpu in enumerate(roles.dut))
    lcores = ",".join([f"{MAIN_LCORE}@{roles.main}", f"{GENERATOR_LCORE}@{roles.generator}", *dut])
    command = [str(program), "--lcores", lcores, "--main-lcore", str(MAIN_LCORE), "--no-pci"]
    command += ["--file-prefix", prefix]
    command += ["--vdev", f"net_crossover0,{_feed(params)}", "--vdev", f"net_crossover1,dma={params['dma']}"]
    # --no-huge implies --legacy-mem, which EAL refuses beside --in-memory; it makes no files of its own either.
    return [*command, "--in-memory"] if memory.huge else [*command, "--no-huge", "-m", str(_no_huge_mib(params))]


def _feed(params: Params) -> str:
    if params["feed"] == "infinite":  # the port makes the frames itself: no DMA engine, hence no `dma`
        return f"feed=infinite,size={params['frame']},flows={min(params['flows'], 65535)}"
    return f"dma={params['dma']}"


def _no_huge_mib(params: Params) -> int:
    # Without hugepages EAL takes all of its memory at the start; twice the estimate, so that later points fit as well.
    return max(512, 2 * needed_bytes(params) >> 20)


def _cautions(roles: Roles, memory: Memory) -> list[str]:
    cautions = []
    if not memory.huge:
        cautions.append(
            "no hugepages: 4 KiB pages add TLB misses, so that costs per packet and per poll are higher than with them"
        )
    if roles.shared_core:
        cautions.append("generator and DUT are hardware threads of one core and slow each other down")
    return cautions


class LoopbackSession:
    """A running node that plays both roles."""

    def __init__(self, client: NodeClient, prefix: str, roles: Roles, memory: Memory, at_start: Params) -> None:
        self._client, self._prefix = client, prefix
        self._roles, self._memory, self._at_start = roles, memory, dict(at_start)
        self._configured: dict[str, Any] = {}
        lcores = [FIRST_DUT_LCORE + index for index in range(len(roles.dut))]
        self._wiring = Wiring(
            generator_lcore=GENERATOR_LCORE,
            dut_lcores=lcores,
            gen_tx="net_crossover0_a",
            dut_rx="net_crossover0_b",
            dut_tx="net_crossover1_a",
            gen_rx="net_crossover1_b",
        )

    @property
    def hello(self) -> dict[str, Any]:
        """The node's hello."""
        return self._client.hello

    @property
    def pid(self) -> int:
        """The node's process."""
        return self._client.pid

    @property
    def measuring_cpus(self) -> tuple[int, ...]:
        """CPUs on which lcores spin, generator first."""
        return self._roles.measuring

    @property
    def facts(self) -> list[str]:
        """What the reader of the results has to know."""
        return _cautions(self._roles, self._memory)

    @property
    def collector_options(self) -> Mapping[str, Mapping[str, object]]:
        """The node among all DPDK applications of the host."""
        return {"dpdk-telemetry": {"file_prefix": self._prefix}}

    def suits(self, params: Params) -> bool:
        """Whether the ports that were made at the start have these parameters, and the memory suffices."""
        wanted = {name: params[name] for name in start_parameters(params)}
        return wanted == self._at_start and params["cores"] <= len(self._roles.dut)

    def waits_ns(self) -> dict[int, int]:
        """How long generator and DUT lcores have had to wait for their CPUs so far."""
        return lcore_waits_ns(self._client.pid, (self._wiring.generator_lcore, *self._wiring.dut_lcores))

    def configure(self, params: Params) -> dict[str, Any]:
        """Configures the node when it is not configured so already; returns the request."""
        request = configure_request(params, self._wiring)
        if request != self._configured:
            self._configured = {}
            self._client.request("configure", CONFIGURE_LIMIT_S, **request)
            self._configured = request
        return request

    def calibrate(self, params: Params) -> dict[str, Any]:
        """Costs of the present configuration, measured with no traffic; absent where traffic never stops."""
        if params["feed"] == "infinite":
            return {"absent": "feed=infinite: packets are always there, so an empty poll cannot be measured"}
        reply = self._client.request("calibrate", CALIBRATE_LIMIT_S, queues=params["queues"])
        return dict(reply["costs"])

    def noise(self, duration_ns: int) -> list[dict[str, Any]]:
        """Gaps of each measuring CPU."""
        lcores: Sequence[int] = [self._wiring.generator_lcore, *self._wiring.dut_lcores]
        limit_s = duration_ns / 1e9 + REQUEST_LIMIT_S
        reply = self._client.request("noise", limit_s, lcores=list(lcores), duration_ns=duration_ns)
        return list(reply["noise"])

    def measure(self, name: str, times: Mapping[str, int], rate: Mapping[str, Any]) -> Measured:
        """One trial.

        Raises:
            NodeRefused, NodeFailed: the node does not start it, or gives it up.
            NodeLost: the node hung or died.
        """
        start = {"trial": name, **times, "rate": dict(rate)}
        self._client.request("start", REQUEST_LIMIT_S, **start)
        event = self._client.wait_event(("done", "failed"), sum(times.values()) / 1e9 + GRACE_S)
        if event["event"] == "failed":
            raise NodeFailed(f"the node gave the trial up: {event.get('error')}")
        return Measured(start, self._client.request("read", REQUEST_LIMIT_S))

    def selftest(self, limit_s: float) -> list[dict[str, Any]]:
        """Distortion of each accounting mode; the node has to be configured."""
        return list(self._client.request("selftest", limit_s)["rows"])

    def close(self) -> None:
        """Ends the node in order."""
        self._client.close()
        remove_folder(self._prefix)

    def end(self) -> None:
        """Ends the node at once."""
        self._client.end()
        remove_folder(self._prefix)
