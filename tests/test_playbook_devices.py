# SPDX-License-Identifier: BSD-3-Clause
"""NICs are bound, tuned and restored, and those of the management are never touched; on a made-up kernel."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import playbook_modules
import pytest

journal = playbook_modules.load("pollscope_journal")
kinds = playbook_modules.load("pollscope_kinds")
device_utils = playbook_modules.load("pollscope_devices")
binding = playbook_modules.load("pollscope_binding")
nic = playbook_modules.load("pollscope_nic")

NIC, OTHER, MANAGEMENT, MELLANOX = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"

DPDK_DRIVERS = ("vfio-pci", "uio_pci_generic")


class Kernel:
    """A /sys with plain files, whose driver core reacts to what is written, and an ip(8), modprobe(8), ethtool(8)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names: dict[str, str] = {}
        self.addresses: dict[str, list[str]] = {}
        self.default_route = "eth2"
        self.reached_at: str | None = None
        self.has_no_iommu_mode = True
        self.said: list[list[str]] = []
        self.settings: dict[str, dict[str, str]] = {}
        for number, (address, vendor) in enumerate(
            [(NIC, "0x8086"), (OTHER, "0x8086"), (MANAGEMENT, "0x8086"), (MELLANOX, "0x15b3")]
        ):
            self.add(address, f"eth{number}", "mlx5_core" if vendor == "0x15b3" else "e1000e", vendor, group=number)
        (root / "sys/bus/pci/drivers_probe").write_text("")
        for driver in DPDK_DRIVERS:
            (root / "sys/bus/pci/drivers" / driver).mkdir()
            (root / "sys/bus/pci/drivers" / driver / "unbind").write_text("")

    def add(self, address: str, name: str, driver: str, vendor: str, group: int | None) -> None:
        folder = self.root / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        self.names[address] = name
        for file, text in {"vendor": vendor, "class": "0x020000", "driver_override": "(null)"}.items():
            (folder / file).write_text(f"{text}\n")
        if group is not None:
            members = self.root / f"sys/kernel/iommu_groups/{group}/devices"
            members.mkdir(parents=True, exist_ok=True)
            (members / address).symlink_to(folder)
            (folder / "iommu_group").symlink_to(members.parent)
        self.attach(address, driver)

    def attach(self, address: str, driver: str) -> None:
        folder = self.root / "sys/bus/pci/devices" / address
        home = self.root / "sys/bus/pci/drivers" / driver
        home.mkdir(parents=True, exist_ok=True)
        (home / "unbind").write_text("")
        (folder / "driver").symlink_to(home)
        if driver not in DPDK_DRIVERS:
            net = self.root / "sys/class/net" / self.names[address]
            net.mkdir(parents=True, exist_ok=True)
            (net / "flags").write_text("0x1002\n")
            (folder / "net").mkdir()
            (folder / "net" / self.names[address]).symlink_to(net)

    def up(self, name: str) -> None:
        (self.root / "sys/class/net" / name / "flags").write_text("0x1003\n")

    def is_up(self, name: str) -> bool:
        return (self.root / "sys/class/net" / name / "flags").read_text() == "0x1003\n"

    def react(self) -> None:
        """Does what the kernel does once something was written to `unbind` or `drivers_probe`."""
        for unbind in (self.root / "sys/bus/pci/drivers").glob("*/unbind"):
            if address := unbind.read_text():
                folder = self.root / "sys/bus/pci/devices" / address
                (folder / "driver").unlink()
                for link in (folder / "net").glob("*"):
                    link.unlink()
                if (folder / "net").exists():
                    (folder / "net").rmdir()
                unbind.write_text("")
        probe = self.root / "sys/bus/pci/drivers_probe"
        if address := probe.read_text():
            override = (self.root / "sys/bus/pci/devices" / address / "driver_override").read_text().strip()
            self.attach(address, override if override not in ("", "(null)") else "e1000e")
            probe.write_text("")

    def run(self, command: Sequence[str]) -> str:  # noqa: C901 - one case for each program
        self.said.append(list(command))
        match list(command):
            case ["ip", "-json", "-4", "route", "show", "default"]:
                return json.dumps([{"dst": "default", "dev": self.default_route}] if self.default_route else [])
            case ["ip", "-json", "-6", "route", "show", "default"]:
                return ""
            case ["ip", "-json", "address", "show"]:
                return json.dumps([self.link(name) for name in self.names.values()])
            case ["ip", "link", "set", name, "up"]:
                self.up(name)
            case ["modprobe", name]:
                (self.root / "sys/module" / name.replace("-", "_") / "parameters").mkdir(parents=True)
                if name == "vfio" and self.has_no_iommu_mode:
                    (self.root / "sys/module/vfio/parameters/enable_unsafe_noiommu_mode").write_text("N\n")
            case ["modinfo", "-F", "parm", "vfio"]:
                return "enable_unsafe_noiommu_mode:Enable UNSAFE, no-IOMMU mode. (bool)" * self.has_no_iommu_mode
            case ["modprobe", "-r", name]:
                folder = self.root / "sys/module" / name.replace("-", "_")
                for file in (folder / "parameters").glob("*"):
                    file.unlink()
                (folder / "parameters").rmdir()
                folder.rmdir()
            case ["ethtool", ("-g" | "-a") as option, name]:
                return "".join(f"{key}: {value}\n" for key, value in self.settings[option + name].items())
            case ["ethtool", ("-G" | "-A") as option, name, *words]:
                labels = {"rx": "RX", "tx": "TX", "autoneg": "Autonegotiate"}
                for key, value in zip(words[::2], words[1::2], strict=True):
                    self.settings[option.lower() + name][labels[key]] = value
            case _:
                raise AssertionError(command)
        return ""

    def link(self, name: str) -> dict[str, Any]:
        return {
            "ifname": name,
            "addr_info": [{"local": each, "scope": "global"} for each in self.addresses.get(name, [])],
        }

    def snapshot(self) -> dict[str, str]:
        self.react()
        found = {}
        for path in sorted((self.root / "sys").rglob("*")):
            if path.is_symlink():
                found[str(path)] = str(path.readlink())
            elif path.is_file():
                found[str(path)] = path.read_text().strip().replace("(null)", "")
        return found


class Devices(device_utils.Devices):  # type: ignore[misc, name-defined]  # loaded while it runs
    """The devices of a made-up kernel, which reacts before it is looked at."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel.root, kernel.run, lambda: kernel.reached_at)
        self.kernel = kernel

    def folder(self, address: str) -> Path:
        self.kernel.react()
        found: Path = super().folder(address)
        return found


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def bind(kernel: Kernel, *addresses: str, consent: bool = False, restore: bool = False) -> list[str]:
    devices = Devices(kernel)
    own: dict[str, Any] = {
        "module": kinds.KernelModule(kernel.run, kernel.root),
        "no_iommu": binding.NoIommu(kernel.root),
        "binding": binding.Binding(devices, kernel.run, lambda seconds: None),
    }
    ledger = journal.Ledger(kernel.root / "state/playbooks/vfio.journal", own, "boot")
    found: list[str] = ledger.restore() if restore else ledger.converge(binding.items_for(devices, addresses, consent))
    return found


def test_binds_once_and_restores_with_the_interface_up(kernel: Kernel) -> None:
    kernel.up("eth0")
    before = kernel.snapshot()
    assert f"{NIC}: e1000e -> vfio-pci" in bind(kernel, NIC, OTHER)
    devices = Devices(kernel)
    assert [devices.driver(each) for each in (NIC, OTHER, MANAGEMENT)] == ["vfio-pci", "vfio-pci", "e1000e"]
    assert bind(kernel, NIC, OTHER) == []
    bind(kernel, restore=True)
    assert kernel.is_up("eth0")
    assert not kernel.is_up("eth1")
    assert kernel.snapshot() == before


def test_a_nic_less_in_the_list_is_restored(kernel: Kernel) -> None:
    bind(kernel, NIC, OTHER)
    assert bind(kernel, NIC) == [f"{OTHER}: e1000e again"]
    assert Devices(kernel).driver(OTHER) == "e1000e"


def refused(kernel: Kernel, message: str, *addresses: str, consent: bool = False) -> None:
    before = kernel.snapshot()
    with pytest.raises(journal.HostError, match=message):
        bind(kernel, *addresses, consent=consent)
    assert kernel.snapshot() == before
    assert not (kernel.root / "state").exists()


def test_the_nic_with_the_default_route_is_refused(kernel: Kernel) -> None:
    refused(kernel, r"\(eth2\) is the management interface \(it has the default route\)", NIC, MANAGEMENT)


def test_the_nic_of_the_connection_is_refused(kernel: Kernel) -> None:
    kernel.default_route, kernel.reached_at = "", "192.0.2.7"
    kernel.addresses["eth0"] = ["192.0.2.7"]
    refused(kernel, r"\(eth0\) is the management interface \(the play comes through its address 192.0.2.7\)", NIC)


def test_a_nic_below_the_bond_of_the_management_is_refused(kernel: Kernel) -> None:
    kernel.default_route = "vlan5"
    for upper, lower in (("vlan5", "bond0"), ("bond0", "eth1")):
        (kernel.root / "sys/class/net" / upper).mkdir(parents=True)
        (kernel.root / "sys/class/net" / upper / f"lower_{lower}").mkdir()
    refused(kernel, r"\(eth1\) is the management interface", OTHER)


def test_a_nic_with_an_address_is_refused(kernel: Kernel) -> None:
    kernel.addresses["eth1"] = ["198.51.100.1"]
    refused(kernel, "is in use: it has 198.51.100.1", NIC, OTHER)


@pytest.mark.parametrize("address", ["01:00.0", "0000:01:00.8", "0000:AB:00.0", "../../etc", ""])
def test_no_address_is_refused(kernel: Kernel, address: str) -> None:
    refused(kernel, "is no PCI address", address)


def test_no_device_is_refused(kernel: Kernel) -> None:
    refused(kernel, "0000:7f:00.0: there is no such PCI device", "0000:7f:00.0")


def test_without_an_iommu_group_only_with_consent(kernel: Kernel) -> None:
    (kernel.root / "sys/bus/pci/devices" / NIC / "iommu_group").unlink()
    refused(kernel, "has no IOMMU group: .*vfio_no_iommu_consent", NIC)
    before = kernel.snapshot()
    bind(kernel, NIC, consent=True)
    switch = kernel.root / "sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
    assert switch.read_text() == "Y\n"
    assert Devices(kernel).driver(NIC) == "vfio-pci"
    bind(kernel, restore=True)
    assert kernel.snapshot() == before


def test_a_kernel_without_no_iommu_mode_gives_the_nic_to_uio_on_consent(kernel: Kernel) -> None:
    kernel.has_no_iommu_mode = False
    (kernel.root / "sys/bus/pci/devices" / NIC / "iommu_group").unlink()
    refused(kernel, "has no IOMMU group: .*vfio_no_iommu_consent", NIC)
    before = kernel.snapshot()
    bind(kernel, NIC, consent=True)
    assert Devices(kernel).driver(NIC) == "uio_pci_generic"
    assert bind(kernel, NIC, consent=True) == []
    bind(kernel, restore=True)
    assert kernel.snapshot() == before


def test_a_shared_group_is_refused(kernel: Kernel) -> None:
    kernel.add("0000:01:00.1", "eth9", "e1000e", "0x8086", group=0)
    refused(kernel, "shares its IOMMU group with 0000:01:00.1, which e1000e holds", NIC)
    assert bind(kernel, NIC, "0000:01:00.1")


def test_mellanox_stays_with_its_driver(kernel: Kernel) -> None:
    assert bind(kernel, MELLANOX) == []
    assert Devices(kernel).driver(MELLANOX) == "mlx5_core"


def test_a_driver_that_does_not_come_leaves_all_as_it_was(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernel.snapshot()
    attach = kernel.attach
    monkeypatch.setattr(
        kernel,
        "attach",
        lambda address, driver: None if (address, driver) == (OTHER, "vfio-pci") else attach(address, driver),
    )
    with pytest.raises(
        journal.HostError, match=f"{OTHER}: the write did not stick: asked for vfio-pci, reads no driver"
    ):
        bind(kernel, NIC, OTHER)
    assert kernel.snapshot() == before
    assert not (kernel.root / "state").exists()


def tune(kernel: Kernel, restore: bool = False, **parameters: Any) -> list[str]:
    devices = Devices(kernel)
    own = {
        "rings": nic.EthtoolSetting(devices, "-g", "-G", {"RX": "rx", "TX": "tx"}, kernel.run),
        "pause": nic.EthtoolSetting(
            devices, "-a", "-A", {"Autonegotiate": "autoneg", "RX": "rx", "TX": "tx"}, kernel.run
        ),
    }
    ledger = journal.Ledger(kernel.root / "state/playbooks/nic.journal", own, "boot")
    given = {"rings": {}, "pause": {}, "firmware": {}, "firmware_consent": False, "devices": [NIC], **parameters}
    if restore:
        return list(ledger.restore())
    far = lambda entry: nic.is_out_of_reach(devices, entry)  # noqa: E731
    return list(ledger.converge(nic.items_for(devices, given), out_of_reach=far))


def test_rings_and_flow_control_come_back(kernel: Kernel) -> None:
    kernel.settings["-geth0"] = {"RX": "256", "TX": "256"}
    kernel.settings["-aeth0"] = {"Autonegotiate": "on", "RX": "on", "TX": "off"}
    before = json.dumps(kernel.settings)
    wanted: dict[str, Any] = {"rings": {"rx": 1024}, "pause": {"autoneg": False, "rx": False}}
    assert len(tune(kernel, **wanted)) == 2
    assert kernel.settings["-geth0"] == {"RX": "1024", "TX": "256"}
    assert kernel.settings["-aeth0"] == {"Autonegotiate": "off", "RX": "off", "TX": "off"}
    assert tune(kernel, **wanted) == []
    tune(kernel, restore=True)
    assert json.dumps(kernel.settings) == before


def test_the_settings_of_the_management_nic_are_not_touched(kernel: Kernel) -> None:
    with pytest.raises(journal.HostError, match="is the management interface"):
        tune(kernel, devices=[MANAGEMENT], rings={"rx": 64})
    assert not any(each[0] == "ethtool" for each in kernel.said)


def test_a_nic_of_dpdk_is_left_alone(kernel: Kernel) -> None:
    bind(kernel, NIC)
    assert tune(kernel, rings={"rx": 64}) == []


def test_settings_outlast_the_time_in_which_dpdk_has_the_nic(kernel: Kernel) -> None:
    """Provisioning again finds the NIC on vfio, where its rings can be neither read nor restored."""
    kernel.settings["-geth0"] = {"RX": "256", "TX": "256"}
    tune(kernel, rings={"rx": 1024})
    bind(kernel, NIC)
    assert tune(kernel, rings={"rx": 1024}) == []
    assert tune(kernel, rings={}) == []
    with pytest.raises(journal.HostError, match="has no interface of the kernel"):
        tune(kernel, restore=True)
    bind(kernel, restore=True)
    assert tune(kernel, restore=True) == [f"{NIC} rings: rx 256 tx 256 again"]
    assert kernel.settings["-geth0"] == {"RX": "256", "TX": "256"}


def test_firmware_needs_consent(kernel: Kernel) -> None:
    with pytest.raises(journal.HostError, match="nic_firmware_consent"):
        tune(kernel, firmware={"CQE_COMPRESSION": 1})


MLXCONFIG = """
Device #1:
----------

Device type:        ConnectX5
Device:             0000:04:00.0

Configurations:                                      Next Boot
        CQE_COMPRESSION                             {value}
"""


def test_firmware_is_read_by_number() -> None:
    shown = {"0": "BALANCED(0)", "1": "AGGRESSIVE(1)"}
    held = ["0"]

    def mlxconfig(command: Sequence[str]) -> str:
        if "query" in command:
            return MLXCONFIG.format(value=shown[held[0]])
        held[0] = command[-1].partition("=")[2]
        return ""

    kind = nic.Firmware(mlxconfig)
    target = f"{MELLANOX} CQE_COMPRESSION"
    assert kind.read(target) == "0"
    kind.write(target, "1")
    assert kind.read(target) == "1"
    with pytest.raises(journal.HostError, match="no parameter NO_SUCH"):
        kind.read(f"{MELLANOX} NO_SUCH")


@pytest.mark.parametrize(
    ("there", "program"),
    [((), "mlxconfig"), (("mstconfig",), "mstconfig"), (("mstconfig", "mlxconfig"), "mlxconfig")],
)
def test_mstconfig_stands_in_for_mlxconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], program: str
) -> None:
    for name in there:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[list[str]] = []

    def tool(command: Sequence[str]) -> str:
        said.append(list(command))
        return MLXCONFIG.format(value="BALANCED(0)")

    kind = nic.Firmware(tool)
    kind.read(f"{MELLANOX} CQE_COMPRESSION")
    kind.write(f"{MELLANOX} CQE_COMPRESSION", "1")
    assert {words[0] for words in said} == {program}
