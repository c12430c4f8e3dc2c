# SPDX-License-Identifier: BSD-3-Clause
"""Find a NIC's root port, NUMA node and cores in sysfs."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pollscope.host.files import SYS, read_int, read_text

# PCI base class 02: network controllers (PCI Code and ID Assignment, section 1.3).
_NETWORK_CLASS = "0x02"


@dataclass(frozen=True)
class Nic:
    """A network controller on PCI.

    Attributes:
        address: PCI address.
        interfaces: kernel interfaces on it.
        driver: bound driver; None when unbound.
        root_port: PCI address of the root port above it; None when it sits on the root bus itself.
        numa_node: None if the platform does not report it.
        cpus: CPUs near it, as the kernel lists them.
        link: negotiated speed and width; None when sysfs does not show one (emulated devices).
        iommu_group: None when no IOMMU is on.
    """

    address: str
    interfaces: list[str]
    driver: str | None
    root_port: str | None
    numa_node: int | None
    cpus: str
    link: str | None
    iommu_group: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the form for `doctor --json`."""
        return asdict(self)


def network_controllers(sys: Path) -> list[Path]:
    """Return the sysfs folders of network controllers, by PCI address."""
    devices = sorted((sys / "bus/pci/devices").glob("*"))
    return [device for device in devices if (read_text(device / "class") or "").startswith(_NETWORK_CLASS)]


def nics(sys: Path = SYS) -> list[Nic]:
    """Return all network controllers of this host, by address."""
    return [_nic(device) for device in network_controllers(sys)]


def _nic(device: Path) -> Nic:
    node = read_int(device / "numa_node")
    driver, group = device / "driver", device / "iommu_group"
    return Nic(
        address=device.name,
        interfaces=sorted(path.name for path in device.rglob("net/*") if path.parent.name == "net"),
        driver=driver.resolve().name if driver.exists() else None,
        root_port=_root_port(device.resolve()),
        numa_node=node if node is not None and node >= 0 else None,
        cpus=read_text(device / "local_cpulist") or "",
        link=pcie_link(device, "current"),
        iommu_group=int(group.resolve().name) if group.exists() else None,
    )


def _root_port(device: Path) -> str | None:
    # /sys/devices/pci0000:16/0000:16:00.0/0000:17:00.0: the first device below the host bridge is the root port.
    above = [part for part in device.parts if part.count(":") == 2]
    return above[0] if len(above) > 1 else None


def pcie_link(device: Path, which: Literal["current", "max"]) -> str | None:
    """Return speed and width as the kernel writes them ("16.0 GT/s PCIe x16"); None if it shows none."""
    speed, width = (read_text(device / f"{which}_link_{what}") for what in ("speed", "width"))
    if not speed or not width or width == "0" or "Unknown" in speed:
        return None
    return f"{speed} x{width}"
