# SPDX-License-Identifier: BSD-3-Clause
"""Check on a simulated kernel that NICs are bound, tuned and restored, and that management NICs are not touched."""

import json
import shutil
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
    """A /sys of plain files that reacts to writes as the driver core does, with ip(8), modprobe(8) and ethtool(8)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names: dict[str, str] = {}
        self.addresses: dict[str, list[str]] = {}
        self.default_route = "eth2"
        self.reached_at: str | None = None
        self.has_no_iommu_mode = True
        self.said: list[list[str]] = []
        self.settings: dict[str, dict[str, str]] = {}
        self.vlans: dict[str, dict[str, Any]] = {}
        self.contained: list[dict[str, Any]] = []
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

    def add_vlan(self, link: str, name: str, number: int, protocol: str = "802.1Q") -> None:
        data = {"protocol": protocol, "id": number}
        self.vlans[name] = {"ifname": name, "link": link, "flags": [], "linkinfo": {"info_data": data}}
        self.stand(name, link)
        (self.root / "sys/class/net" / name / "flags").write_text("0x1002\n")

    def stand(self, upper: str, lower: str) -> None:
        for name, side, other in ((upper, "lower", lower), (lower, "upper", upper)):
            (self.root / "sys/class/net" / name / f"{side}_{other}").mkdir(parents=True)

    def add_function(self, address: str, function: str, name: str, driver: str = "iavf") -> None:
        self.add(function, name, driver, "0x8086", group=None)
        folder = self.root / "sys/bus/pci/devices" / address
        number = len(list(folder.glob("virtfn*")))
        (folder / f"virtfn{number}").symlink_to(self.root / "sys/bus/pci/devices" / function)
        (folder / "sriov_numvfs").write_text(f"{number + 1}\n")

    def up(self, name: str) -> None:
        if name in self.vlans:
            self.vlans[name]["flags"] = ["UP"]
        (self.root / "sys/class/net" / name / "flags").write_text("0x1003\n")

    def is_up(self, name: str) -> bool:
        return (self.root / "sys/class/net" / name / "flags").read_text() == "0x1003\n"

    def react(self) -> None:
        """Do what the kernel does after a write to `unbind` or `drivers_probe`."""
        for unbind in (self.root / "sys/bus/pci/drivers").glob("*/unbind"):
            if address := unbind.read_text():
                folder = self.root / "sys/bus/pci/devices" / address
                (folder / "driver").unlink()
                for link in (folder / "net").glob("*"):
                    self.take(link.name)
                    link.unlink()
                if (folder / "net").exists():
                    (folder / "net").rmdir()
                unbind.write_text("")
        probe = self.root / "sys/bus/pci/drivers_probe"
        if address := probe.read_text():
            override = (self.root / "sys/bus/pci/devices" / address / "driver_override").read_text().strip()
            self.attach(address, override if override not in ("", "(null)") else "e1000e")
            probe.write_text("")

    def take(self, name: str) -> None:
        """Remove the interface and the links on top of it. A later interface of that name is a new one."""
        net = self.root / "sys/class/net" / name
        (net / "mtu").unlink(missing_ok=True)
        for upper in net.glob("upper_*"):
            name = upper.name.removeprefix("upper_")
            self.take(name)
            if self.vlans.pop(name, None):
                shutil.rmtree(self.root / "sys/class/net" / name)
            upper.rmdir()

    def run(self, command: Sequence[str]) -> str:  # noqa: C901 - one case per program
        self.said.append(list(command))
        match list(command):
            case ["ip", "-json", "-4", "route", "show", "default"]:
                return json.dumps([{"dst": "default", "dev": self.default_route}] if self.default_route else [])
            case ["ip", "-json", "-6", "route", "show", "default"]:
                return ""
            case ["ip", "-json", "address", "show"]:
                return json.dumps([self.link(name) for name in self.names.values()])
            case ["nsenter", namespace, "ip", "-json", "-details", "link", "show"]:
                assert namespace == f"--net={self.root}/proc/20/ns/net", "each namespace once, and not this one"
                return json.dumps(self.contained)
            case ["ip", "link", "set", name, "up"]:
                self.up(name)
            case ["ip", "link", "set", name, "mtu", mtu]:
                (self.root / "sys/class/net" / name / "mtu").write_text(f"{mtu}\n")
            case ["ip", "-json", "-details", "link", "show", "type", "vlan"]:
                return json.dumps(list(self.vlans.values()))
            case ["ip", "link", "add", "link", link, "name", name, "type", "vlan", "protocol", protocol, "id", number]:
                self.add_vlan(link, name, int(number), protocol)
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
                if name == "vfio":
                    raise kinds.HostError("modprobe -r vfio: could not remove 'vfio': No such file or directory")
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
    """The devices of a simulated kernel, which reacts before each reading."""

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


@pytest.mark.parametrize("opened", ["/dev/vfio/0", "/dev/vfio/noiommu-0", "/dev/vfio/devices/vfio3"])
def test_a_nic_that_a_program_holds_stays_with_vfio(kernel: Kernel, opened: str) -> None:
    """The kernel would block the write to `unbind` until the program ends."""
    before = kernel.snapshot()
    bind(kernel, NIC, OTHER)
    made = kernel.root / "sys/bus/pci/devices" / NIC / "vfio-dev/vfio3"
    made.mkdir(parents=True)
    (kernel.root / "proc/4711/fd").mkdir(parents=True)
    (kernel.root / "proc/4711/fd/7").symlink_to(opened)
    with pytest.raises(journal.HostError, match=f"{NIC}: .*process 4711 holds it through vfio"):
        bind(kernel, restore=True)
    assert [Devices(kernel).driver(each) for each in (NIC, OTHER)] == ["vfio-pci", "e1000e"]
    (kernel.root / "proc/4711/fd/7").unlink()
    made.rmdir()
    made.parent.rmdir()
    bind(kernel, restore=True)
    assert kernel.snapshot() == before


def test_a_nic_that_left_the_list_is_restored(kernel: Kernel) -> None:
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


@pytest.mark.parametrize(("name", "address"), [("eth1", OTHER), ("eth3", MELLANOX)])
def test_a_nic_with_an_address_is_refused(kernel: Kernel, name: str, address: str) -> None:
    """This includes a NIC that stays with its driver, because DPDK takes its packets all the same."""
    kernel.addresses[name] = ["198.51.100.1"]
    refused(kernel, f"{address} .* is in use: it has 198.51.100.1", NIC, address)


@pytest.mark.parametrize("upper", ["vlan7", "br0"])
def test_a_nic_below_a_link_with_an_address_is_refused(kernel: Kernel, upper: str) -> None:
    kernel.stand("bond0", "eth1")
    kernel.stand(upper, "bond0")
    kernel.names["above"] = upper
    kernel.addresses[upper] = ["198.51.100.1"]
    refused(kernel, rf"\(eth1, on which {upper} stands\) is in use: it has 198.51.100.1", OTHER)


def test_a_nic_whose_virtual_function_is_used_is_refused(kernel: Kernel) -> None:
    kernel.add_function(OTHER, "0000:02:10.0", "eth1v0")
    kernel.add_function(OTHER, "0000:02:10.1", "eth1v1")
    kernel.addresses["eth1v1"] = ["198.51.100.1"]
    refused(kernel, r"\(eth1v1\) is in use: it has 198.51.100.1", OTHER)
    kernel.addresses.clear()
    kernel.default_route = "eth1v0"
    refused(kernel, r"\(eth1v0\) is the management interface", OTHER)


def test_a_nic_whose_virtual_function_a_program_holds_is_refused(kernel: Kernel) -> None:
    kernel.add_function(OTHER, "0000:02:10.0", "eth1v0", "vfio-pci")
    refused(kernel, "vfio-pci has its virtual function 0000:02:10.0", OTHER)


@pytest.mark.parametrize("function", [False, True])
def test_a_nic_whose_interface_a_container_has_is_refused(kernel: Kernel, function: bool) -> None:
    """The interface of the NIC or of a virtual function is invisible in this namespace."""
    address = OTHER
    if function:
        address = "0000:02:10.0"
        kernel.add_function(OTHER, address, "eth1v0")
    net = kernel.root / "sys/bus/pci/devices" / address / "net"
    shutil.rmtree(net)
    refused(
        kernel, f"{address} is in use: .* drives it, but its interface is not in this network namespace", NIC, OTHER
    )


def test_a_nic_below_a_link_of_a_container_is_refused(kernel: Kernel) -> None:
    """The parent does not show a macvlan on top of it. A veth pair needs no link below."""
    (kernel.root / "sys/class/net/eth1/ifindex").write_text("7\n")
    for pid, name in (("self", 1), ("1", 1), ("20", 2), ("21", 2)):
        (kernel.root / f"proc/{pid}/ns").mkdir(parents=True)
        (kernel.root / f"proc/{pid}/ns/net").symlink_to(f"net:[{name}]")
    veth = {"ifname": "eth0", "link_index": 7, "link_netnsid": 0, "linkinfo": {"info_kind": "veth"}}
    kernel.contained = [{"ifname": "lo"}, veth]
    assert binding.items_for(Devices(kernel), [OTHER], False)
    kernel.contained.append({**veth, "ifname": "lan0", "linkinfo": {"info_kind": "macvlan"}})
    refused(kernel, "is in use: it has lan0 of a container", OTHER)


def test_the_management_nic_is_refused_where_dpdk_would_drive_it_beside_the_kernel(kernel: Kernel) -> None:
    kernel.default_route = "eth3"
    refused(kernel, rf"{MELLANOX} \(eth3\) is the management interface", MELLANOX)


def test_vlans_and_mtu_are_restored(kernel: Kernel) -> None:
    kernel.up("eth1")
    (kernel.root / "sys/class/net/eth1/mtu").write_text("9000\n")
    kernel.add_vlan("eth1", "eth1.7", 7)
    kernel.add_vlan("eth1.7", "inner", 8, "802.1ad")
    kernel.up("eth1.7")
    before, vlans = kernel.snapshot(), json.dumps(kernel.vlans)
    bind(kernel, OTHER)
    assert not kernel.vlans
    bind(kernel, restore=True)
    assert kernel.is_up("eth1")
    assert json.dumps(kernel.vlans) == vlans
    assert kernel.snapshot() == before


def test_virtual_functions_are_restored(kernel: Kernel) -> None:
    kernel.add_function(OTHER, "0000:02:10.0", "eth1v0")
    folder = kernel.root / "sys/bus/pci/devices" / OTHER
    state = binding.Binding(Devices(kernel), kernel.run, lambda seconds: None).read(OTHER)
    assert state["functions"] == 1
    bind(kernel, OTHER)
    assert (folder / "sriov_numvfs").read_text() == "0"
    (folder / "virtfn0").unlink()
    binding.Binding(Devices(kernel), kernel.run, lambda seconds: None).write(OTHER, state)
    assert (folder / "sriov_numvfs").read_text() == "1"


def put_card(kernel: Kernel, address: str, device: str = "0x1593", serial: bytes = bytes(range(8))) -> None:
    """Place a card with a PCI Express serial number at an address."""
    folder = kernel.root / "sys/bus/pci/devices" / address
    (folder / "device").write_text(f"{device}\n")
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 0x140 << 20).to_bytes(4, "little")  # error reporting comes first
    config[0x140:0x144] = (0x0003).to_bytes(4, "little")
    config[0x144:0x14C] = serial
    (folder / "config").write_bytes(config)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"serial": bytes(8)}, "serial 07-06-05-04-03-02-01-00, now 00-00-00-00-00-00-00-00"),
        ({"device": "0x1592"}, "id 8086:1593, now 8086:1592"),
    ],
)
def test_another_card_at_the_address_gets_nothing_of_the_old_one(
    kernel: Kernel, other: dict[str, Any], said: str
) -> None:
    put_card(kernel, NIC)
    bind(kernel, NIC)
    put_card(kernel, NIC, **other)
    with pytest.raises(journal.HostError, match=f"another device is there now: {said}"):
        bind(kernel, restore=True)
    assert Devices(kernel).driver(NIC) == "vfio-pci"
    put_card(kernel, NIC)
    bind(kernel, restore=True)
    assert Devices(kernel).driver(NIC) == "e1000e"


def show_mac(kernel: Kernel, address: str, kind: str = "0") -> None:
    """Show the interface of the Mellanox card. With `kind` 0 its MAC is the hardware's, with 3 somebody set it."""
    net = kernel.root / "sys/class/net/eth3"
    (net / "address").write_text(f"{address}\n")
    (net / "addr_assign_type").write_text(f"{kind}\n")


@pytest.mark.parametrize("known_by", ["serial", "mac"])
def test_firmware_never_reaches_another_card(kernel: Kernel, tmp_path: Path, known_by: str) -> None:
    held = {"SRIOV_EN": "0"}

    def mlxconfig(command: Sequence[str]) -> str:
        if "query" in command:
            return f"  SRIOV_EN   {held['SRIOV_EN']}\n"
        name, _, value = command[-1].partition("=")
        held[name] = value
        return ""

    def put(which: int) -> None:
        if known_by == "mac":
            show_mac(kernel, f"b8:ce:f6:00:00:0{which}")
        else:
            put_card(kernel, MELLANOX, serial=bytes([which] * 8))

    put(1)
    kind = nic.Firmware(Devices(kernel), mlxconfig)
    item = [journal.Item("firmware", f"{MELLANOX} SRIOV_EN", "1")]
    path = tmp_path / "nic.journal"
    journal.Ledger(path, {"firmware": kind}, "boot").converge(item)
    put(2)
    held["SRIOV_EN"] = "2"  # the new card's value
    ledger = journal.Ledger(path, {"firmware": kind}, "next boot")
    for change in (ledger.restore, lambda: ledger.converge(item)):
        with pytest.raises(journal.HostError, match=f"another device is there now: {known_by} "):
            change()
    assert held == {"SRIOV_EN": "2"}


def test_a_mac_that_somebody_set_does_not_identify_a_card(kernel: Kernel) -> None:
    show_mac(kernel, "b8:ce:f6:00:00:01")
    assert Devices(kernel).device(MELLANOX) == {"mac": "b8:ce:f6:00:00:01"}
    show_mac(kernel, "b8:ce:f6:00:00:01", kind="3")  # the MAC of a bond
    assert Devices(kernel).device(MELLANOX) == {}


@pytest.mark.parametrize("address", ["01:00.0", "0000:01:00.8", "0000:AB:00.0", "../../etc", ""])
def test_a_text_that_is_no_address_is_refused(kernel: Kernel, address: str) -> None:
    refused(kernel, "is no PCI address", address)


def test_an_address_without_a_device_is_refused(kernel: Kernel) -> None:
    refused(kernel, "0000:7f:00.0: there is no such PCI device", "0000:7f:00.0")


@pytest.mark.parametrize(("has_mode", "driver"), [(True, "vfio-pci"), (False, "uio_pci_generic")])
def test_a_nic_without_an_iommu_group_needs_consent(kernel: Kernel, has_mode: bool, driver: str) -> None:
    """A kernel without the mode without an IOMMU uses uio."""
    kernel.has_no_iommu_mode = has_mode
    (kernel.root / "sys/bus/pci/devices" / NIC / "iommu_group").unlink()
    refused(kernel, "has no IOMMU group .*vfio_no_iommu_consent", NIC)
    before = kernel.snapshot()
    bind(kernel, NIC, consent=True)
    assert Devices(kernel).driver(NIC) == driver
    if has_mode:
        switch = kernel.root / "sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
        assert switch.read_text() == "Y\n"
    else:
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


def test_a_driver_that_does_not_load_changes_nothing(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_rings_and_flow_control_are_restored(kernel: Kernel) -> None:
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


def test_a_nic_that_dpdk_holds_is_left_alone(kernel: Kernel) -> None:
    bind(kernel, NIC)
    assert tune(kernel, rings={"rx": 64}) == []


def test_settings_are_restored_after_dpdk_returns_the_nic(kernel: Kernel) -> None:
    """A second provision finds the NIC bound to vfio, so its rings can be neither read nor restored."""
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

    kind = nic.Firmware(device_utils.Devices(), mlxconfig)
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

    kind = nic.Firmware(device_utils.Devices(), tool)
    kind.read(f"{MELLANOX} CQE_COMPRESSION")
    kind.write(f"{MELLANOX} CQE_COMPRESSION", "1")
    assert {words[0] for words in said} == {program}
