# SPDX-License-Identifier: BSD-3-Clause
"""The `pair` testbed: DUT and generator on two hosts, each node started over SSH."""

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError, UsageError
from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.host.corunner_placement import has_corunners
from pollscope.host.lock import HostLock, conductor_lock_path
from pollscope.host.metadata import absent, host_metadata
from pollscope.knobs.points import knob_settings
from pollscope.node.client import DID_NOT_START, NodeClient
from pollscope.spec import lcores
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.testbeds.base import Assignment, HostFinding, Opening, TestbedState, generator_refusal, tcp_refusal
from pollscope.testbeds.collecting import Options
from pollscope.testbeds.halting import halt_refusal
from pollscope.testbeds.node_testbed import NodeTestbed
from pollscope.testbeds.pair import boot_mode
from pollscope.testbeds.pair.boot_mode import boot_modes, inventory_variables, one_treatment
from pollscope.testbeds.pair.build import build_on, pack_sources
from pollscope.testbeds.pair.config import AtStart, PairConfig, PairHost
from pollscope.testbeds.pair.host_check import check_host, inventory_findings
from pollscope.testbeds.pair.knobs import PairKnobs
from pollscope.testbeds.pair.other_generator import OtherGenerator
from pollscope.testbeds.pair.other_generator import refusal as other_refusal
from pollscope.testbeds.pair.pktgen import Pktgen
from pollscope.testbeds.pair.placement import DutCorunners
from pollscope.testbeds.pair.plays import conductor
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.pair.session import PairSession
from pollscope.testbeds.pair.ssh import CONNECT_LIMIT_S, Remote, root_command, run_there
from pollscope.testbeds.pair.trex import Trex

# A node of an earlier connection needs a moment to notice its end and release its NIC; if only the network failed, its
# heartbeat timeout has to pass first.
OPEN_TRIES, OPEN_PAUSE_S = 3, 3.0
_AFTER_TIMEOUT_S = 10.0
# The virtual NIC's driver, whose ports begin with its name.
VIRTUAL_NIC = "net_crossover"
_OTHER_VERSION = "provision it again: pollscope play provision; a vm-pair: testbed down, then up"


class PairTestbed(NodeTestbed):
    """Two hosts that this one only controls. playbooks/provision.yml prepares them."""

    kind = "pair"
    summary = "two hosts, each with a node that is started over SSH"
    config_model = PairConfig
    config: PairConfig

    def __init__(self, file: Path, config: PairConfig, options: Options | None = None, name: str = "") -> None:
        super().__init__(file, config)
        self._options, self.name = options or {}, name or file.stem
        # It distinguishes the locks and nodes of several pairs.
        self._key = self.name if self.name == file.stem else f"{file.stem}-{name}"
        # This host measures nothing, so only runs on the same pair keep each other out.
        self.lock_path = conductor_lock_path(self._key)
        self.hosts = (
            RemoteHost("dut", config.dut, self._prefix("dut")),
            RemoteHost("generator", config.generator, self._prefix("gen")),
        )
        self._corunners = DutCorunners(self.hosts[0])
        self._opened: frozenset[str] = frozenset()
        self._knob_refusals: dict[str, str | None] = {}

    @property
    def emulated(self) -> bool:
        return self.config.dut.emulated or self.config.generator.emulated

    def _prefix(self, role: str) -> str:
        return f"pollscope-{self._key}-{role}"

    def describe(self) -> dict[str, Any]:
        hosts = {"dut": str(self.config.dut.ssh), "generator": str(self.config.generator.ssh)}
        found = {**super().describe(), **hosts}
        return {**found, "emulated": True} if self.emulated else found

    def own_knobs(self, what: str, restore_first: bool) -> PairKnobs:
        """Return the knobs of the hosts that the file names; their lock keeps other runs off both hosts."""
        lock, modes = HostLock(what, self.lock_path), boot_modes(self.config, self.file, self.name)
        return PairKnobs(f"{what} by {conductor()}", lock, self.hosts, self.config.knobs, restore_first, modes)

    def machine(self) -> dict[str, Any]:
        """Return `host` and `build` of the DUT, those of the generator, and this machine's metadata as `conductor`."""
        dut, generator = (_machine_of(host) for host in self.hosts)
        return {**dut, "generator": generator, "conductor": host_metadata()}

    def begin(self, assignment: Assignment) -> Opening:
        """Begin the run; warn if a sweep of IOMMU modes contains modes that are equal for the DUT's NIC."""
        opening = super().begin(assignment)
        levels = {trial.point.factors.get(f"{KNOB_PREFIX}{boot_mode.KNOB}") for trial in assignment.plan.trials}
        if len(levels) > 1:
            nics = _machine_of(self.hosts[0])["host"].get("nics", {})
            ports = self.config.dut.ports
            note = one_treatment(levels, (ports.rx, ports.tx), nics)
            self.warnings += [note] if note else []
        return opening

    def refusal(self, point: Point) -> str | None:
        return (
            self.static_refusal(point)
            or halt_refusal(point.params, lambda: _machine_of(self.hosts[0])["host"].get("cpu_flags", {}))
            or self._corunners.placement.refusal(point.params)
            or (self._corunners.refusal(point.params) if has_corunners(point.params) else None)
            or self._knob_refusal(knob_settings(point.factors))
        )

    def static_refusal(self, point: Point) -> str | None:
        """Return why the testbed's file alone excludes a point; None if it does not. Ask no host."""
        params = point.params
        cpus, queues = len(self.config.dut.cpus), self.config.dut.ports.queues
        needed = lcores.dut_lcores(params)
        if needed > cpus:
            return f"needs {needed} DUT cores; {self.file.name} names {cpus}"
        if params.queues > queues:
            return f"needs {params.queues} RX queues; {self.file.name} allows {queues}"
        if params.feed == "infinite":
            return "feed=infinite: only the virtual NIC fills its rings itself; a real NIC needs a generator"
        if params.dma != "copy":
            return f"dma={params.dma}: only the virtual NIC net_crossover has this setting; a real NIC has a DMA engine"
        virtual = self.config.dut.ports.rx.startswith(VIRTUAL_NIC)
        features = (
            ("organisation", "corec"),
            *(("notification", level) for level in ("qwait", "interrupt", "adaptive", "monitor")),
            ("rx_buffers", "shared"),
            ("rx_buffers", "split"),
        )
        for name, level in features:
            if getattr(params, name) == level and not virtual:
                return f"{name}={level} is a feature of the virtual NIC {VIRTUAL_NIC}; a real one's driver has none"
        if reason := tcp_refusal(params) or generator_refusal(params) or self.config.dut.start_refusal(point):
            return reason
        if self.config.driver != "pollscope-node" and lcores.has_generator(params):
            return other_refusal(self.config.driver, params)
        return None

    def _knob_refusal(self, settings: Mapping[str, object]) -> str | None:
        """Return why hosts refuse these knob values; ask once per combination."""
        key = repr(dict(settings))
        if key not in self._knob_refusals:
            self._knob_refusals[key] = self._asked_refusal(dict(settings)) if settings else None
        return self._knob_refusals[key]

    def _asked_refusal(self, settings: dict[str, object]) -> str | None:
        if boot_mode.KNOB in settings and boot_modes(self.config, self.file, self.name):
            settings.pop(boot_mode.KNOB)  # the agent cannot set it, the play can
        for host in self.hosts:
            if settings and host.name in self.config.knobs:
                try:
                    reply = host.ask("knobs_refusal", settings=settings, **host.config.knob_place())
                except (HostError, UsageError) as error:
                    return f"{', '.join(f'knob {name}' for name in settings)}: {error}"
                if reply["refusal"]:
                    return f"{host}: {reply['refusal']}"
        return None

    def check(self) -> None:
        """Check that this host can start the nodes.

        Raises:
            HostError: there is no SSH client.
        """
        if shutil.which("ssh") is None:
            raise HostError("ssh is not installed", remedy="apt-get install openssh-client")

    def close(self) -> None:
        for host in self.hosts:
            host.close()

    def open(self, params: Parameters, log: Path) -> PairSession:
        """Start both nodes, the DUT's with all its CPUs; unused lcores sleep.

        Raises:
            HostError: a host cannot be reached, or a node does not start.
        """
        self.check()
        at_start = AtStart.of(params)
        dut = self._start("dut", self.config.dut, len(self.config.dut.cpus), at_start, log)
        try:
            generator = self._start_generator(log)
            return PairSession(self.config, dut, generator, self.hosts, self._corunners, self._options, at_start)
        except BaseException:
            dut.close()
            raise

    def _start_generator(self, log: Path) -> NodeClient | OtherGenerator:
        host = self.config.generator
        names = host.ports.tx, host.ports.rx
        client: OtherGenerator
        if self.config.pktgen is not None:
            eal = host.eal_arguments(self._prefix("gen"), self.config.generator_lcores, AtStart())
            client = Pktgen(host.ssh, eal, self.config.pktgen, names, log)
        elif self.config.trex is not None:
            client = Trex(host.ssh, self.config.trex, names, log)
        else:
            return self._start("gen", host, self.config.generator_lcores, AtStart(), log)
        client.wait_hello()
        return client

    def _start(self, role: str, host: PairHost, cpus: int, at_start: AtStart, log: Path) -> NodeClient:
        command = root_command(host.ssh, [host.program, *host.eal_arguments(self._prefix(role), cpus, at_start)])
        begin = log.stat().st_size if log.exists() else 0
        deadline = time.monotonic() + self._lapse_s(host.ssh)
        for tries in itertools.count(1):
            client = NodeClient(
                command, log, heartbeat_timeout_s=host.ssh.heartbeat_timeout_s, patience=host.ssh.patience
            )
            try:
                client.wait_hello(host.hello_limit_s)
                return client
            except HostError as error:
                if DID_NOT_START not in error.what:  # it started, but has another version
                    raise HostError(error.what, f"{role} {host.ssh}", _OTHER_VERSION) from error
                # A host that cannot be reached stays away; only an emulated one may be too slow for a login.
                tried = tries >= OPEN_TRIES and time.monotonic() > deadline
                if tried or ("status 255" in error.what and not host.emulated):
                    raise HostError(
                        _last_line(log, begin) or error.what, f"{role} {host.ssh}", f"all of it: {log}"
                    ) from error
            time.sleep(OPEN_PAUSE_S)
        raise AssertionError("BUG: endless tries have ended")

    def build(self, say: Callable[[str], None]) -> list[str]:
        """Build the programs on each host in the user's cache; return lines for the testbed's file."""
        made, lines = dict[str, Path](), []
        with tempfile.TemporaryDirectory(prefix="pollscope-sources-") as folder:
            archive = pack_sources(Path(folder))
            for role in ("dut", "generator"):
                host: PairHost = getattr(self.config, role)
                if str(host.ssh) not in made:
                    say(f"{role}: building on {host.ssh} (some minutes, unless it was built before)")
                    driver = any(each.startswith(VIRTUAL_NIC) for each in host.vdevs)
                    made[str(host.ssh)] = build_on(role, host, archive, driver)
                programs = made[str(host.ssh)] / "bin"
                lines.append(f"{role}: {{program: {programs}/pollscope-node, pollscope: {programs}/pollscope}}")
        return lines

    def findings(self) -> list[HostFinding]:
        variables = inventory_variables(self.config, self.file, self.name)
        found = list[HostFinding]()
        for role in ("dut", "generator"):
            host: PairHost = getattr(self.config, role)
            found += check_host(role, host)
            found += inventory_findings(role, host, variables[role]) if variables else []
        return [*found, *_open_ports(self.config)]

    def _lapse_s(self, remote: Remote) -> float:
        """Return the time to try to start a node; an earlier node may first have to reach its heartbeat timeout."""
        before, self._opened = self._opened, self._opened | {str(remote)}
        return remote.heartbeat_timeout_s + _AFTER_TIMEOUT_S if str(remote) in before else 0.0

    def status(self) -> TestbedState:
        generator, other = self.config.generator, self.config.pktgen or self.config.trex
        program = generator.program if other is None else other.program
        both = (("DUT", self.config.dut, self.config.dut.program), ("generator", generator, program))
        asked = [(role, host.ssh, _probe(host.ssh, program)) for role, host, program in both]
        metadata = [f"{role} {ssh}: {answer or 'ready'}" for role, ssh, answer in asked]
        return TestbedState(not any(answer for _, _, answer in asked), metadata)


def _machine_of(host: RemoteHost) -> dict[str, Any]:
    """Return `host` and `build` of one host, or why they are unknown."""
    try:
        reply = host.ask("metadata", program=host.config.program)
    except HostError as error:
        return {"host": absent(str(error)), "build": absent(str(error))}
    return {"host": reply["host"], "build": reply["build"]}


def _last_line(log: Path, begin: int) -> str:
    """Return the last line that ssh or EAL wrote after this place; it is more specific than their exit status."""
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode(errors="replace").partition("\nUsage:")[0].strip().splitlines()
    return lines[-1].strip() if lines else ""


def _open_ports(config: PairConfig) -> Iterator[HostFinding]:
    """Yield a note about a generator that accepts commands without a password."""
    if config.trex is not None and not config.trex.own_network:
        text = "every host that reaches ports 4500, 4501 and 4507 there can command TRex, as root"
        yield HostFinding("generator", "TRex", "note", text, "close these ports in its firewall, or own_network: true")


def _probe(remote: Remote, program: str) -> str:
    """Return why a host is not ready; empty if it is."""
    reason = run_there(remote, ["test", "-x", program], 2 * remote.patience * CONNECT_LIMIT_S)[1]
    return f"there is no program {program}" if reason == "status 1" else reason
