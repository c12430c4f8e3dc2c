# SPDX-License-Identifier: BSD-3-Clause
"""The file of a `pair` testbed: two hosts, what runs on each, and the NIC ports that join them."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pollscope.host.files import parse_list
from pollscope.node.client import HELLO_LIMIT_S
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.testbeds.base import MOST_GENERATOR_LCORES, TestbedConfig
from pollscope.testbeds.page_size import SMALL, page_arguments
from pollscope.testbeds.pair.pktgen import PktgenConfig
from pollscope.testbeds.pair.ssh import Remote
from pollscope.testbeds.pair.trex import TrexConfig

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# As lspci prints it with a single domain, or in capitals.
_PCI_IN_SHORT = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


def _whole_address(port: str) -> str:
    found = _PCI_IN_SHORT.fullmatch(port.lower())
    return f"{found[1] or '0000'}:{found[2]}" if found else port


def _listed(cpus: object) -> object:
    """Return CPUs as the kernel lists them (`2-15`), or one number, as a list."""
    if isinstance(cpus, str):
        try:
            return parse_list(cpus)
        except ValueError as error:
            raise ValueError(f"{cpus!r} is not a list of CPUs, such as 2-15 or [2, 4]") from error
    return [cpus] if isinstance(cpus, int) else cpus


def _each_once(cpus: tuple[int, ...]) -> tuple[int, ...]:
    if twice := [cpu for cpu in cpus if cpus.count(cpu) > 1]:
        raise ValueError(f"names CPU {twice[0]} twice")
    return cpus


_PortName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9:._-]{0,62}$", examples=["0000:17:00.0"]),
    AfterValidator(_whole_address),
]
Cpus = Annotated[
    tuple[int, ...], Field(strict=False, min_length=1), BeforeValidator(_listed), AfterValidator(_each_once)
]
# `net_memif0,role=server`: a virtual device of EAL; EAL's options always begin with a dash.
_Vdev = Annotated[str, Field(pattern=r"^[A-Za-z][^\s]*$")]
Program = Annotated[str, Field(pattern=r"^/\S+$")]

# Device arguments of mlx5 (DPDK, NIC guide): never inline packets; always inline, however few the TX queues are.
_INLINE = {"default": "", "off": ",txq_inline_max=0,txq_inline_mpw=0", "on": ",txqs_min_inline=1"}
# Without hugepages EAL takes all of its memory at the start.
_SMALL_PAGES_MIB = 1024
# An agent takes 10 s to start on an emulated machine, and minutes while this host is busy with something else.
_HELLO_LIMIT_EMULATED_S = 300.0

_EndName = Literal["dut", "generator"]


class AtStart(NamedTuple):
    """The parameters that the DUT's node is given when it starts."""

    page_size: str | None = None
    tx_inline: Literal["default", "off", "on"] = "default"

    @classmethod
    def of(cls, params: Parameters) -> Self:
        """Return the start parameters of a point."""
        return cls(params.page_size, params.tx_inline)


class Ports(TestbedConfig):
    """The ports of a host, as DPDK names them: a NIC by its PCI address. One port may do both."""

    rx: _PortName
    tx: _PortName
    queues: int = Field(default=1024, ge=1, le=1024, description="maximum of RX queues of the receiving port")
    driver: Literal["mlx5"] | None = Field(default=None, description="of NICs whose device arguments specs may set")


class PairHost(TestbedConfig):
    """One of the two hosts."""

    ssh: Remote
    ports: Ports
    main_cpu: int = Field(ge=0, description="CPU of the lcore that speaks the protocol; it sleeps during trials")
    cpus: Cpus = Field(description="CPUs of the lcores that poll: a list, or in the kernel's form (2-15)")
    program: Program = "/opt/pollscope/current/bin/pollscope-node"
    pollscope: Program | None = Field(
        default="/opt/pollscope/current/bin/pollscope",
        description="program for collectors and knobs there, of this version; null: none",
    )
    knob_root: str | None = Field(
        default=None, description="a folder there with sys, proc, dev and state, whose knobs are set instead"
    )
    emulated: bool = Field(
        default=False, description="an emulated machine: also set knobs that it only pretends to have"
    )
    vdevs: Annotated[tuple[_Vdev, ...], Field(strict=False)] = ()
    memory_mib: int | None = Field(default=None, ge=256, description="take this much memory without hugepages")
    hugetlbfs: dict[Literal["2 MiB", "1 GiB"], Program] = Field(
        default={"2 MiB": "/dev/hugepages"}, description="page size -> mount point of its hugetlbfs there"
    )
    iova: Literal["auto", "pa", "va"] = "auto"

    @property
    def hello_limit_s(self) -> float:
        """Return how long a program there may take to start."""
        return _HELLO_LIMIT_EMULATED_S if self.emulated else HELLO_LIMIT_S

    @property
    def nics(self) -> tuple[str, ...]:
        """Return the PCI addresses of its ports."""
        return tuple(name for name in dict.fromkeys((self.ports.rx, self.ports.tx)) if _PCI.fullmatch(name))

    def knob_place(self) -> dict[str, object]:
        """Return the agent's settings for the host whose knobs it sets."""
        return {"root": self.knob_root, "emulated": self.emulated}

    def eal_arguments(self, prefix: str, cpus: int, at_start: AtStart) -> list[str]:
        """Return EAL arguments of a program with `cpus` lcores that poll (1, 2, ...); lcore 0 does not."""
        lcores = ",".join(f"{lcore}@{cpu}" for lcore, cpu in enumerate([self.main_cpu, *self.cpus[:cpus]]))
        command = ["--lcores", lcores, "--main-lcore", "0", "--file-prefix", prefix]
        command += self._devices(_INLINE[at_start.tx_inline])
        if self.iova != "auto":
            command += ["--iova-mode", self.iova]
        if at_start.page_size:
            folder = next((each for size, each in self.hugetlbfs.items() if size == at_start.page_size), "")
            return command + page_arguments(at_start.page_size, folder, self.memory_mib or _SMALL_PAGES_MIB)
        # --no-huge implies --legacy-mem, which EAL refuses beside --in-memory.
        memory = ["--in-memory"] if self.memory_mib is None else ["--no-huge", "-m", str(self.memory_mib)]
        return command + memory

    def start_refusal(self, point: Point) -> str | None:
        """Return why its node cannot be started for a point; None if it can."""
        params = point.params
        page_size = params.page_size
        if page_size not in (None, SMALL, *self.hugetlbfs):
            return f"page_size={page_size}: the testbed's file names no hugetlbfs of such pages"
        if page_size == SMALL and point.factors.get("knob.iommu") == "off":
            return "page_size=4 KiB: without an IOMMU a NIC needs memory in hugepages"
        if params.tx_inline != "default" and self.ports.driver != "mlx5":
            return f"tx_inline={params.tx_inline} is a device argument of mlx5, which the file does not name (driver)"
        return None

    def _devices(self, arguments: str) -> list[str]:
        # Only the NICs of the testbed are touched: others of the host may carry its management.
        allowed = [word for nic in self.nics for word in ("-a", nic + arguments)] or ["--no-pci"]
        return allowed + [word for vdev in self.vdevs for word in ("--vdev", vdev)]


def require_each_agent_once(hosts: Mapping[str, PairHost]) -> None:
    """Refuse hosts that are one machine, because a run would wait forever for its lock.

    Raises:
        ValueError: two hosts are one machine.
    """
    seen: dict[tuple[object, ...], str] = {}
    for name, host in hosts.items():
        place = f"{host.ssh.host}:{host.ssh.port}"
        other = seen.setdefault((place, host.pollscope or name), name)
        if other != name:
            what = f"{other} and {name} are one host ({place}), whose lock a run takes once"
            raise ValueError(f"{what}: say `pollscope: null` of one of them")


class PairConfig(TestbedConfig):
    """The file of a pair."""

    kind: Literal["pair"]
    dut: PairHost
    generator: PairHost
    driver: Literal["pollscope-node", "pktgen-dpdk", "trex"] = "pollscope-node"
    pktgen: PktgenConfig | None = Field(default=None, description="for the driver pktgen-dpdk")
    trex: TrexConfig | None = Field(default=None, description="for the driver trex")
    knobs: Annotated[tuple[_EndName, ...], Field(strict=False, description="the hosts whose knobs specs set")] = (
        "dut",
    )
    inventory: str | None = Field(
        default=None, description="playbook inventory with these hosts; the play `iommu` sets IOMMU modes"
    )

    @model_validator(mode="after")
    def _driver_is_described(self) -> Self:
        for driver, key in (("pktgen-dpdk", "pktgen"), ("trex", "trex")):
            if (self.driver == driver) != (getattr(self, key) is not None):
                raise ValueError(f"driver {driver} and the key {key} go together")
        return self

    @model_validator(mode="after")
    def _generator_has_room(self) -> Self:
        if self.generator_lcores > MOST_GENERATOR_LCORES:
            raise ValueError(f"generator.cpus: a generator has at most {MOST_GENERATOR_LCORES} lcores")
        if self.generator_lcores > len(self.generator.cpus):
            raise ValueError("generator.cpus: names one CPU; pktgen-dpdk needs one for each of its two ports")
        return self

    @property
    def generator_lcores(self) -> int:
        """Return how many lcores the generator has; pktgen-dpdk has one for each port, TRex its own."""
        ports = {self.generator.ports.rx, self.generator.ports.tx}
        return {"pollscope-node": len(self.generator.cpus), "pktgen-dpdk": len(ports)}.get(self.driver, 1)
