# SPDX-License-Identifier: BSD-3-Clause
"""The `pair` testbed: DUT and generator on two hosts, each node started over SSH."""

import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pollscope.collectors.knobs import Host, KnobSession
from pollscope.errors import HostError
from pollscope.host.company import has_company
from pollscope.host.facts import absent, host_facts
from pollscope.hostlock import default_lock_path
from pollscope.knob_points import knob_settings
from pollscope.node import NodeClient
from pollscope.spec import lcores
from pollscope.testbeds.base import Params, State
from pollscope.testbeds.pair_config import PairConfig, PairHost
from pollscope.testbeds.pair_session import NO_COMPANY, Options, PairSession
from pollscope.testbeds.ssh import CONNECT_LIMIT_S, ssh_command

# A node of an earlier connection needs a moment to notice its end and to let go of its NIC.
OPEN_TRIES, OPEN_PAUSE_S = 3, 3.0


class PairTestbed:
    """Two hosts that this one only conducts."""

    shared_tsc = False
    modelled = False

    def __init__(self, file: Path, config: PairConfig, kind: str = "pair", options: Options | None = None) -> None:
        self._options: Options = options or {}
        self.name, self.file, self.config, self.kind = file.stem, file, config, kind
        # This host measures nothing, so only runs on the same pair keep each other out.
        lock = default_lock_path()
        self.lock_path = lock.with_name(f"{lock.stem}-{self.name}{lock.suffix}")

    def describe(self) -> dict[str, Any]:
        """For run.json."""
        hosts = {"dut": str(self.config.dut.ssh), "generator": str(self.config.generator.ssh)}
        return {"name": self.name, "kind": self.kind, "shared_tsc": False, "file": str(self.file), **hosts}

    def knobs(self, what: str, restore_first: bool) -> KnobSession:
        """None that a spec may turn: `refusal` names them. Keeps two runs on one pair apart."""
        return KnobSession(what, replace(Host(), lock_path=self.lock_path), restore_first)

    def machine(self) -> dict[str, Any]:
        """Absent, but for this machine, which conducts: those of the two others are not asked for yet."""
        reason = "the machines that measure are others; node_hello tells what their nodes know of them"
        return {"host": absent(reason), "build": absent(reason), "conductor": host_facts()}

    def refusal(self, params: Params) -> str | None:
        """Why this pair cannot take a point; None when it can."""
        cpus, queues = len(self.config.dut.cpus), self.config.dut.ports.queues
        if params["placement"] != "separate":
            return f"places lcores on the CPUs that {self.file.name} names, in that order"
        needed = lcores.dut_lcores(params)
        if needed > cpus:
            return f"needs {needed} DUT cores; {self.file.name} names {cpus}"
        if params["queues"] > queues:
            return f"needs {params['queues']} RX queues; {self.file.name} allows {queues}"
        if params["feed"] != "wire" or params["dma"] != "copy":
            return f"feed={params['feed']} and dma={params['dma']} are properties of the virtual NIC net_crossover"
        if has_company(params):
            return NO_COMPANY
        if knobs := knob_settings(params):
            return f"knobs of another host cannot be turned: {', '.join(knobs)}"
        return None

    def check(self) -> None:
        """Checks that this host can conduct.

        Raises:
            HostError: there is no SSH client.
        """
        if shutil.which("ssh") is None:
            raise HostError("ssh is not installed", remedy="apt-get install openssh-client")

    def open(self, params: Params, most_cores: int, log: Path) -> PairSession:
        """Starts both nodes, the DUT's with all of its CPUs; lcores without a task sleep.

        Raises:
            HostError: a host cannot be reached, or a node does not start.
        """
        self.check()
        dut = self._start("dut", self.config.dut, len(self.config.dut.cpus), log)
        try:
            return PairSession(self.config, dut, self._start("gen", self.config.generator, 1, log), self._options)
        except BaseException:
            dut.close()
            raise

    def _start(self, role: str, host: PairHost, cpus: int, log: Path) -> NodeClient:
        command = ssh_command(host.ssh, host.eal_command(f"pollscope-{self.name}-{role}", cpus))
        said = _Tail(log)
        for tries_left in reversed(range(OPEN_TRIES)):
            client = NodeClient(command, log)
            try:
                client.wait_hello()
                return client
            except HostError as error:
                if not tries_left or "status 255" in error.what:
                    raise HostError(said.reason(error), f"{role} {host.ssh}", f"all of it: {log}") from error
            time.sleep(OPEN_PAUSE_S)
        raise AssertionError("BUG: the last try neither returned nor raised")

    def up(self) -> State:
        """Nothing is prepared from here: playbooks/provision.yml makes hosts ready."""
        return self.status()

    def down(self) -> State:
        """Nothing was prepared, so nothing is given back."""
        return self.status()

    def status(self) -> State:
        """Whether both hosts answer and have the node program."""
        both = (("DUT", self.config.dut), ("generator", self.config.generator))
        asked = [(role, host.ssh, _probe(host)) for role, host in both]
        facts = [f"{role} {ssh}: {answer or 'ready'}" for role, ssh, answer in asked]
        return State(not any(answer for _, _, answer in asked), facts)


class _Tail:
    """What a log gets from now on."""

    def __init__(self, log: Path) -> None:
        self._log, self._begin = log, log.stat().st_size if log.exists() else 0

    def reason(self, error: HostError) -> str:
        """The last line that ssh or EAL wrote, which says more than the status that they ended with."""
        with self._log.open("rb") as file:
            file.seek(self._begin)
            lines = file.read().decode(errors="replace").partition("\nUsage:")[0].strip().splitlines()
        return lines[-1].strip() if lines else error.what


def _probe(host: PairHost) -> str:
    """Why a host is not ready; empty when it is."""
    command = ssh_command(host.ssh, ["test", "-x", host.program])
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * CONNECT_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {2 * CONNECT_LIMIT_S} s"
    except OSError as error:
        return f"ssh: {error.strerror}"
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"there is no program {host.program}"
