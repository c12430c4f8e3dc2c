# SPDX-License-Identifier: BSD-3-Clause
"""NICs by PCI address; the NICs that carry the management of this host must never be touched."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.module_utils.pollscope.base.errors import HostError
from ansible.module_utils.pollscope.host.files import read_int
from ansible.module_utils.pollscope.host.pci_identity import pci_identity
from ansible.module_utils.pollscope_kinds import Run, run

# Drivers that give a device to a program.
GIVEN_AWAY = ("vfio-pci", "uio_pci_generic", "igb_uio")
# Kinds of links that need the link below them. A veth also names another link, its peer, but does not need it.
STAND_ON_OTHERS = ("vlan", "macvlan", "macvtap", "ipvlan", "ipvtap")
ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class Devices:
    """The PCI devices and network interfaces of a host.

    Args:
        root: folder that holds `sys`.
        tool: runs ip(8).
        ssh_address: returns this host's address in the SSH connection of the play; None for a local play.
    """

    def __init__(
        self, root: Path = Path("/"), tool: Run = run, ssh_address: Callable[[], str | None] | None = None
    ) -> None:
        self.root, self.run, self.ssh_address = root, tool, ssh_address or connection_address

    def folder(self, address: str) -> Path:
        """Return the device's folder in sysfs.

        Raises:
            HostError: the text is no PCI address, or there is no such device.
        """
        if not ADDRESS.fullmatch(address):
            raise HostError(f"{address!r} is no PCI address", remedy="write it like 0000:17:00.0, in lower case")
        folder = self.root / "sys/bus/pci/devices" / address
        if not folder.exists():
            raise HostError(f"{address}: there is no such PCI device")
        return folder

    def interfaces(self, address: str) -> list[str]:
        """Return the network interfaces of a device."""
        net = self.folder(address) / "net"
        return sorted(path.name for path in net.iterdir()) if net.is_dir() else []

    def device(self, address: str) -> dict[str, str]:
        """Return the identity of the card at an address; empty if there is no card, which reading reports."""
        try:
            return pci_identity(self.folder(address))
        except HostError:
            return {}

    def virtual_functions(self, address: str) -> list[str]:
        """Return the addresses of a device's virtual functions."""
        links = self.folder(address).glob("virtfn*")
        return sorted(link.resolve().name for link in links)

    def driver(self, address: str) -> str | None:
        """Return the name of the driver that holds a device, or None."""
        link = self.folder(address) / "driver"
        return link.resolve().name if link.exists() else None

    def holder(self, address: str) -> int | None:
        """Return the pid of a process that has opened a device, or another one of its IOMMU group, through vfio."""
        folder = self.folder(address)
        group = (folder / "iommu_group").resolve().name
        names = {group, f"noiommu-{group}", *(f"devices/{path.name}" for path in folder.glob("vfio-dev/*"))}
        opened = {f"/dev/vfio/{name}" for name in names}
        for process in sorted((self.root / "proc").glob("[0-9]*")):
            with suppress(OSError):  # it has just ended
                for link in (process / "fd").iterdir():
                    with suppress(OSError):
                        if str(link.readlink()) in opened:
                            return int(process.name)
        return None

    def refuse_management(self, addresses: Sequence[str]) -> None:
        """Refuse a NIC that connects this host to its management.

        Raises:
            HostError: a NIC carries the default route or the SSH connection of the play: itself, below a bond, a bridge
                or a VLAN, or by a virtual function.
        """
        management = self.management()
        for address in addresses:
            for interface in self._own_interfaces(address):
                if interface in management:
                    raise HostError(
                        f"{address} ({interface}) is the management interface ({management[interface]}): "
                        "it is never touched"
                    )

    def refuse_configured(self, addresses: Sequence[str]) -> None:
        """Refuse a NIC that is in use.

        Raises:
            HostError: a NIC, a link on top of it (a VLAN) or a virtual function of it has an IP address, or belongs to
                a bond, a bridge or a container; or a program holds a virtual function.
        """
        links = {link["ifname"]: link for link in self._ip("address", "show")}
        contained = self._contained() if addresses else []
        for address in addresses:
            self._refuse_hidden(address)
            for own in self._own_interfaces(address):
                for interface in (own, *sorted(self._above(own))):
                    used = _uses(links.get(interface, {}))
                    number = read_int(self.root / "sys/class/net" / interface / "ifindex")
                    used += [f"{each['ifname']} of a container" for each in contained if each["link_index"] == number]
                    name = own if interface == own else f"{own}, on which {interface} stands"
                    if used:
                        raise HostError(f"{address} ({name}) is in use: it has {', '.join(used)}; take it away first")
            for function in self.virtual_functions(address):
                if self.driver(function) in GIVEN_AWAY:
                    raise HostError(
                        f"{address} is in use: {self.driver(function)} has its virtual function {function}; "
                        "end what uses it first"
                    )

    def _refuse_hidden(self, address: str) -> None:
        """Refuse a NIC whose interface a container has: it has a network driver, but sysfs shows no interface here."""
        for each in (address, *self.virtual_functions(address)):
            driver = self.driver(each)
            if driver not in (None, *GIVEN_AWAY) and not self.interfaces(each):
                raise HostError(
                    f"{each} is in use: {driver} drives it, but its interface is not in this network namespace "
                    "(a container has it); give it back first, or unbind the driver"
                )

    def _contained(self) -> list[dict[str, Any]]:
        """Return the links of other network namespaces that stand on a link elsewhere; `link_index` is its number."""
        known, found = {_namespace(self.root / "proc/self/ns/net"), ""}, list[dict[str, Any]]()
        for process in sorted((self.root / "proc").glob("[0-9]*")):
            path = process / "ns/net"
            if (name := _namespace(path)) not in known:
                known.add(name)
                with suppress(HostError):  # the last process in it has just ended
                    shown = self.run(["nsenter", f"--net={path}", "ip", "-json", "-details", "link", "show"])
                    found += [link for link in json.loads(shown or "[]") if link]
        kinds = ((link, link.get("linkinfo", {}).get("info_kind")) for link in found if "link_netnsid" in link)
        return [link for link, kind in kinds if kind in STAND_ON_OTHERS]

    def _own_interfaces(self, address: str) -> list[str]:
        """Return the interfaces of a device and of its virtual functions, which vanish with it."""
        own = [address, *self.virtual_functions(address)]
        return [interface for each in own for interface in self.interfaces(each)]

    def management(self) -> dict[str, str]:
        """Return the interfaces of the management, also those below bonds, bridges and VLANs, each with the reason."""
        found: dict[str, str] = {}
        for family in ("-4", "-6"):
            for route in self._ip(family, "route", "show", "default"):
                for hop in [route, *route.get("nexthops", [])]:
                    if "dev" in hop:
                        found.setdefault(hop["dev"], "it has the default route")
        reached_at = self.ssh_address()
        for link in self._ip("address", "show") if reached_at else []:
            if any(each.get("local") == reached_at for each in link.get("addr_info", [])):
                found.setdefault(link["ifname"], f"the play comes through its address {reached_at}")
        for interface, reason in list(found.items()):
            for lower in self._below(interface):
                found.setdefault(lower, f"it is below {interface}: {reason}")
        return found

    def _below(self, interface: str) -> set[str]:
        return self._joined(interface, "lower_")

    def _above(self, interface: str) -> set[str]:
        return self._joined(interface, "upper_")

    def _joined(self, interface: str, side: str) -> set[str]:
        folder = self.root / "sys/class/net" / interface
        near = {path.name.removeprefix(side) for path in folder.glob(f"{side}*")}
        return near.union(*(self._joined(each, side) for each in near))

    def _ip(self, *words: str) -> list[dict[str, Any]]:
        shown = self.run(["ip", "-json", *words])
        return [each for each in json.loads(shown or "[]") if each]


def _namespace(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # the process has ended, or there is no such file
        return ""


def _uses(link: Mapping[str, Any]) -> list[str]:
    used = [str(each["local"]) for each in link.get("addr_info", []) if each.get("scope") == "global"]
    return used + ([f"a part of {link['master']}"] if "master" in link else [])


def connection_address() -> str | None:
    """Return this host's address in the SSH connection that started this process; None if there is no connection.

    sudo and su drop SSH_CONNECTION, so the environments of the parent processes are searched as well.
    """
    pid = os.getpid()
    while pid > 1:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        for line in environment:
            if line.startswith(b"SSH_CONNECTION="):
                return line.split()[2].decode().removeprefix("::ffff:")
        pid = int(stat.rpartition(")")[2].split()[1])
    return None
