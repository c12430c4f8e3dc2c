# SPDX-License-Identifier: BSD-3-Clause
"""The `vm-pair` testbed: a pair whose two hosts are virtual machines that it makes itself, on this host.

Agents, knobs, collectors, co-runners and the inventory of its plays are those of any pair. Each machine has a
NIC (e1000e behind a PCI Express root port, behind a virtual Intel IOMMU) that is joined to the other's, and is reached
over SSH through a port of the loopback interface. Measurements there show that everything works with a real kernel,
VFIO, IOMMU and boot loader; they do not measure any hardware.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pollscope.base.errors import HostError
from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.base.paths import cache_folder, kept_folder
from pollscope.host.corunner_placement import has_corunners
from pollscope.host.lock import HostLock
from pollscope.knobs import KnobHost
from pollscope.knobs.points import knob_settings
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.testbeds.base import TestbedConfig, TestbedState
from pollscope.testbeds.halting import halt_refusal
from pollscope.testbeds.node_testbed import NodeTestbed
from pollscope.testbeds.pair import boot_mode
from pollscope.testbeds.pair.config import PairConfig, PairHost, Ports
from pollscope.testbeds.pair.inventory import Inventory, load_inventory
from pollscope.testbeds.pair.knobs import PairKnobs
from pollscope.testbeds.pair.placement import BY_THE_FILE
from pollscope.testbeds.pair.plays import run_play
from pollscope.testbeds.pair.session import PairSession
from pollscope.testbeds.pair.ssh import Remote
from pollscope.testbeds.pair.testbed import PairTestbed
from pollscope.testbeds.vm.image import IN_USE, Recipe, clear_leftovers, provide_image
from pollscope.testbeds.vm.machine import NIC, QEMU, Accelerator, Machine, Shape, make_user_key

FOLDER_VARIABLE = "POLLSCOPE_VM_DIR"
# An emulated machine on a busy host took four minutes to its login prompt.
BOOT_LIMIT_S, BOOT_LOOK_S, BOOT_WORD_S = 900.0, 2.0, 30.0
# With KVM the login prompt comes within 15 s; on some hosts it never comes.
_KVM_LIMIT_S = 40.0
ROLES = ["iommu", "hugepages", "vfio"]  # packages and the release are in the image
_HUGEPAGES_SHARE = 0.5  # of a machine's memory, at most


class VmPairConfig(TestbedConfig):
    """The file of a vm-pair."""

    kind: Literal["vm-pair"]
    release: Literal["trixie", "bookworm"] = "trixie"
    cpus: int = Field(default=2, ge=2, le=64, description="of each machine; one speaks the protocol, the others poll")
    memory_mib: int = Field(default=2048, ge=1024)
    hugepages: int = Field(default=384, ge=192, description="of 2 MiB, in each machine")
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    nice: int = Field(default=0, ge=0, le=19, description="niceness of QEMU on this host")


class VmPairTestbed(NodeTestbed):
    """Two machines and the files made for them."""

    kind = "vm-pair"
    summary = "two virtual machines that `pollscope testbed up vm-pair` makes on this host"
    config_model = VmPairConfig
    config: VmPairConfig

    def __init__(self, file: Path, config: VmPairConfig) -> None:
        super().__init__(file, config)
        self.folder = vm_folder() / self.name
        self.machines = Machine("dut", "generator", self.folder), Machine("generator", "dut", self.folder)
        self._recipe = Recipe(config.release, images_folder())

    @cached_property
    def _pair(self) -> PairTestbed:
        """Return the two as a pair, which is made again with the machines (`up`)."""
        polling = (self.config.cpus - 1, 1)
        dut, generator = (self._host(machine, count) for machine, count in zip(self.machines, polling, strict=True))
        inventory = str(self._inventory_path) if self._made else None
        config = PairConfig(kind="pair", dut=dut, generator=generator, inventory=inventory)
        # The DUT's IOMMU is a part of its QEMU, which runs on this host.
        options = {"qemu-vtd": {"monitor": str(self.machines[0].monitor)}}
        return PairTestbed(self.file, config, options)

    @property
    def emulated(self) -> bool:
        """Return True: this host's disturbances are those of its virtual machines."""
        return True

    @property
    def _made(self) -> bool:
        return all(machine.made for machine in self.machines)

    @property
    def _inventory_path(self) -> Path:
        return self.folder / "inventory.yml"

    def _host(self, machine: Machine, polling: int) -> PairHost:
        # Plans can be made without machines; they need no address.
        remote = machine.remote if machine.made else Remote(host=machine.name)
        cpus = tuple(range(1, polling + 1))
        ports = Ports(rx=NIC, tx=NIC, queues=1)
        program = f"/{IN_USE}/bin/pollscope-node"
        return PairHost(ssh=remote, ports=ports, main_cpu=0, cpus=cpus, program=program, emulated=True)

    def own_knobs(self, what: str, restore_first: bool) -> PairKnobs:
        """Return the knobs of the pair; always restore those of an ended run, because no other user has these
        machines.
        """
        del restore_first
        return self._pair.own_knobs(what, restore_first=True)

    def close(self) -> None:
        if "_pair" in self.__dict__:
            self._pair.close()

    def describe(self) -> dict[str, Any]:
        own = {"kind": self.kind, "config": self.config.digests(), "accelerator": self._accelerator_in_use()}
        return {**self._pair.describe(), **own}

    def machine(self) -> dict[str, Any]:
        """Return the machines with the identity of this host: `up` after `down` gives them new ones."""
        found = self._pair.machine()
        own = {name: found["conductor"][name] for name in ("hostname", "machine_id")}
        generator = found["generator"]
        return {**found, "host": found["host"] | own, "generator": {**generator, "host": generator["host"] | own}}

    def refusal(self, point: Point) -> str | None:
        """Return why the pair cannot host a point; None if it can.

        Without running machines, co-runners, placements, halts, and knobs other than `iommu` are unknown.
        """
        if point.factors.get(f"{KNOB_PREFIX}{boot_mode.KNOB}") == "lazy":
            return "iommu=lazy: under a virtual IOMMU the kernel is always strict"
        if self._stopped() is None:
            return self._pair.refusal(point)
        unknown = [f"knob {name}" for name in knob_settings(point.factors) if name != boot_mode.KNOB]
        unknown += ["programs beside the DUT"] if has_corunners(point.params) else []
        unknown += ["halting of its processor"] if halt_refusal(point.params, dict) else []
        unknown += [f"placement {point.params.placement}"] if point.params.placement != BY_THE_FILE else []
        if unknown:
            return f"{', '.join(unknown)}: known only while the machines run (pollscope testbed up {self.name})"
        return self._pair.static_refusal(point)

    def _stopped(self) -> Machine | None:
        return next((machine for machine in self.machines if machine.pid() is None), None)

    def check(self) -> None:
        """Check that both machines run.

        Raises:
            HostError: they do not.
        """
        if machine := self._stopped():
            raise HostError(f"the machine {machine.name} does not run", remedy=f"pollscope testbed up {self.name}")
        self._pair.check()

    def open(self, params: Parameters, log: Path) -> PairSession:
        self.check()
        return self._pair.open(params, log)

    def up(self) -> TestbedState:
        """Make the image and the machines, start them, give them hugepages and VFIO; leave existing ones unchanged.

        Raises:
            HostError: with the reason; machines that were started by this call are ended.
        """
        if shutil.which(QEMU) is None:
            raise HostError(f"{QEMU} is not installed", remedy="apt-get install qemu-system-x86 qemu-utils")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with HostLock(f"testbed up {self.name}", vm_folder() / f"{self.name}.lock"):
            clear_leftovers(images_folder(), _say)
            # Disks of existing machines depend on the image that they were made from, whatever changed since.
            disk = self._recipe.disk if self._made else provide_image(self._recipe, _say)
            make_user_key(self.folder)
            shape = self._shape(disk)
            started = [machine for machine in self.machines if machine.pid() is None]
            try:
                for machine in started:
                    machine.make(disk)
                    machine.start(shape)
                self.__dict__.pop("_pair", None)  # the pair knows their addresses
                self._wait()
                _say("making them ready (playbooks/provision.yml)")
                run_play("provision", self.inventory(), log=self.folder / "provision.log")
                with self.knobs(f"testbed up {self.name}", restore_first=True) as knobs:
                    for outcome in knobs.restored_first:
                        _say(f"restored: {outcome}")
            except BaseException:
                for machine in started:
                    machine.stop()
                raise
        return self.status()

    def down(self) -> TestbedState:
        """End the machines and remove their files; the image stays in the cache.

        Raises:
            HostError: a run uses them, or another process makes them.
        """
        if self.folder.is_dir():
            what = f"testbed down {self.name}"
            with HostLock(what, vm_folder() / f"{self.name}.lock"), HostLock(what, self._pair.lock_path):
                for machine in self.machines:
                    machine.stop()
                shutil.rmtree(self.folder)
        (vm_folder() / f"{self.name}.lock").unlink(missing_ok=True)
        return TestbedState(True, ["no machine runs; only images are left"])

    def status(self) -> TestbedState:
        if not self.folder.is_dir():
            return TestbedState(False, [f"there are no machines (pollscope testbed up {self.name})"])
        metadata, ready = [], True
        for machine in self.machines:
            pid = machine.pid()
            reason = "does not run" if pid is None else machine.answers()
            ready = ready and not reason
            metadata.append(f"{machine.name}: {reason or f'{machine.remote}, QEMU is process {pid}'}")
        return TestbedState(
            ready, [*metadata, f"accelerator {self._accelerator_in_use()}: results do not measure hardware"]
        )

    def _shape(self, disk: Path) -> Shape:
        config, note = self.config, self.folder / "accelerator"
        if not note.exists():
            wanted = config.accelerator if config.accelerator != "auto" else _probe_kvm(disk)
            note.write_text(wanted)
        accelerator: Accelerator = "kvm" if note.read_text() == "kvm" else "tcg"
        return Shape(config.cpus, config.memory_mib, accelerator, config.nice)

    def _accelerator_in_use(self) -> str | None:
        note = self.folder / "accelerator"
        return note.read_text() if note.exists() else None

    def _wait(self) -> None:
        _say("waiting until the machines answer")
        deadline, next_word = time.monotonic() + BOOT_LIMIT_S, time.monotonic() + BOOT_WORD_S
        for machine in self.machines:
            while reason := machine.answers():
                where = f"{machine.name}: its console, {machine.console}, ends with: {machine.last_words()}"
                if machine.pid() is None:
                    raise HostError("QEMU ended", where)
                if time.monotonic() > deadline:
                    raise HostError(f"does not answer: {reason}", where)
                if time.monotonic() > next_word:
                    _say(f"{machine.name} boots: {machine.last_words()}")
                    next_word = time.monotonic() + BOOT_WORD_S
                time.sleep(BOOT_LOOK_S)

    def inventory(self) -> Inventory:
        """Return an inventory for the plays: hugepages, and the NIC to VFIO; the image has the packages."""
        content = json.dumps(inventory_of(self.machines, self.config.hugepages), indent=2)
        self._inventory_path.write_text(f"{content}\n")
        return load_inventory(self._inventory_path)


def inventory_of(machines: Sequence[Machine], pages: int) -> dict[str, Any]:
    """Return an inventory of the two (docs/two-servers.md)."""
    remotes = {machine.name: machine.remote for machine in machines}
    one = next(iter(remotes.values()))
    common = {
        "ansible_host": one.host,
        "ansible_user": one.user,
        "ansible_ssh_private_key_file": one.key,
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={one.known_hosts} -o StrictHostKeyChecking=yes",
        "pollscope_nics": [NIC],
        "pollscope_roles": ROLES,
        "hugepages_wanted_pages": pages,
        "hugepages_memory_share": _HUGEPAGES_SHARE,
        "iommu_reboot_timeout_s": int(BOOT_LIMIT_S),
        # A machine contains only this testbed, so unchecked DMA is acceptable while the IOMMU is off.
        "vfio_no_iommu_consent": True,
    }
    groups: dict[str, dict[str, Any]] = {
        name: {"hosts": {f"vm-{name}": {"ansible_port": remote.port}}} for name, remote in remotes.items()
    }
    groups["dut"]["vars"] = {"pollscope_roles": [*ROLES, "stress_ng"]}  # co-runners run beside the DUT only
    return {"all": {"vars": common}, **groups}


def vm_folder() -> Path:
    """Return where machines are: $POLLSCOPE_VM_DIR, or `vm` of the user's folder of what is kept."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else kept_folder() / "vm"


def images_folder() -> Path:
    """Return where images are: $POLLSCOPE_VM_DIR, or `vm` of the cache; in a checkout beside the machines."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else cache_folder() / "vm"


def _probe_kvm(disk: Path) -> Accelerator:
    """Return KVM if a machine really boots with it, else TCG; remember the result until this host boots again."""
    note = images_folder() / "kvm.json"
    key = KnobHost().boot_id()
    try:
        known = json.loads(note.read_text())
        if known["boot"] == key:
            return "kvm" if known["works"] else "tcg"
    except (OSError, ValueError, KeyError):
        pass
    works = os.access("/dev/kvm", os.R_OK | os.W_OK) and _boots_with_kvm(disk)
    note.write_text(json.dumps({"boot": key, "works": works}))
    return "kvm" if works else "tcg"


def _boots_with_kvm(disk: Path) -> bool:
    _say(f"trying KVM (at most {_KVM_LIMIT_S:.0f} s)")
    with tempfile.TemporaryDirectory(prefix="kvm-", dir=vm_folder()) as folder:
        machine = Machine("dut", "generator", Path(folder))
        make_user_key(machine.folder)
        machine.make(disk)
        try:
            machine.start(Shape(1, 1024, "kvm"))
            deadline = time.monotonic() + _KVM_LIMIT_S
            while "login:" not in _read(machine.console):
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.5)
            return True
        except HostError:
            return False
        finally:
            machine.stop()


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _say(text: str) -> None:
    print(f"vm-pair: {text}", file=sys.stderr, flush=True)
