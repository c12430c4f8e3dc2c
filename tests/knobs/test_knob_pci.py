# SPDX-License-Identifier: BSD-3-Clause
"""Test the path from a NIC to its root port, and the platform tables."""

from pathlib import Path

import pytest
from knob_tree import NIC, PORT, Command, Tree

from pollscope.base.errors import HostError, UsageError
from pollscope.knobs.pci import PciDevice
from pollscope.knobs.platforms import Platform, load, of_root_port, platforms


def hang(tree: Tree, chain: list[tuple[str, str]], bus: str) -> None:
    """Add devices (address, class), each below the one before, under a root bus folder."""
    folder = tree.root / "sys/devices" / bus
    for address, pci_class in chain:
        folder = folder / address
        for name, text in (("class", pci_class), ("vendor", "0x8086"), ("device", "0x2030")):
            tree.write(str((folder / name).relative_to(tree.root)), text + "\n")
        (tree.root / "sys/bus/pci/devices" / address).symlink_to(folder)


def test_a_switch_in_between_is_not_the_root_port(tree: Tree) -> None:
    hang(
        tree,
        [
            ("0000:64:00.0", "0x060400"),
            ("0000:65:00.0", "0x060400"),
            ("0000:66:01.0", "0x060400"),
            ("0000:67:00.0", "0x020000"),
        ],
        "pci0000:64",
    )
    nic = PciDevice.find(tree.host, "67:00.0")
    assert nic.root_port().address == "0000:64:00.0"
    assert nic.parent().address == "0000:66:01.0"


def test_a_root_bus_inside_another(tree: Tree) -> None:
    bus = "pci0000:00/0000:00:0e.0/pci10000:e0"
    hang(tree, [("10000:e0:06.0", "0x060400"), ("10000:e1:00.0", "0x020000")], bus)
    assert PciDevice.find(tree.host, "10000:e1:00.0").root_port().address == "10000:e0:06.0"


def test_a_device_on_the_root_bus_has_no_root_port(tree: Tree) -> None:
    hang(tree, [("0000:00:1f.6", "0x020000")], "pci0000:00")
    with pytest.raises(HostError, match="without a PCIe root port"):
        PciDevice.find(tree.host, "0000:00:1f.6").root_port()


@pytest.mark.parametrize("name", ["ens1f0", NIC, NIC.upper(), "17:00.0"])
def test_names_of_a_nic(tree: Tree, name: str) -> None:
    assert PciDevice.find(tree.host, name).root_port().address == PORT


@pytest.mark.parametrize("name", ["", "..", "../x", "/etc", "lo/device"])
def test_names_that_are_none(tree: Tree, name: str) -> None:
    with pytest.raises(UsageError, match="neither a PCI address nor"):
        PciDevice.find(tree.host, name)


def test_an_interface_without_pci_device(tree: Tree) -> None:
    (tree.root / "sys/class/net/lo").mkdir()
    with pytest.raises(HostError, match="lo is neither"):
        PciDevice.find(tree.host, "lo")


def test_shipped_tables_know_each_port_once() -> None:
    ports = [port for platform in platforms() for port in platform.root_ports]
    assert len(ports) == len(set(ports)) > 30
    skylake = of_root_port("8086:2030")
    assert isinstance(skylake, Platform)
    assert "Skylake" in skylake.name


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("format: 2\n", "format"),
        ("format: 1\nname: x\nvendor: y\ncpus: []\nddio: {absent: a}\nddio_ways: {absent: b}\n", "prefetchers"),
        ("format: 1\nspeed: 9\n", "Field required"),
        ("[", "not a platform table"),
        ("", "valid dictionary"),
    ],
)
def test_a_broken_table_is_refused_in_one_line(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "registers-x.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=word) as error:
        load(path)
    assert str(error.value).startswith(str(path))
    assert len(str(error.value).splitlines()) == 1


def test_another_card_gets_nothing_of_what_the_old_one_had(knob: Command, tree: Tree) -> None:
    assert knob("set", "mrrs", "4096", "--target", NIC).returncode == 0
    journal = tree.root / "state/knobs/hand.journal"
    assert '"id": "8086:158b"' in journal.read_text()
    device = (tree.root / "sys/bus/pci/devices" / NIC).resolve() / "device"
    device.write_text("0x1593\n")
    before = tree.picture()
    for words in (("restore",), ("set", "mrrs", "1024", "--target", NIC), ("restore", "--force")):
        refused = knob(*words)
        assert refused.returncode != 0
        assert "another device is there now: id 8086:158b, now 8086:1593" in refused.stdout + refused.stderr
    assert tree.picture() == before
    device.write_text("0x158b\n")
    assert knob("restore").returncode == 0
    assert not journal.exists()
