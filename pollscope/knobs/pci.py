# SPDX-License-Identifier: BSD-3-Clause
"""PCI devices of a host: the way up to the root port, capabilities, and registers through setpci(8)."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pollscope.base.errors import HostError, UsageError
from pollscope.knobs.host import KnobHost

_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")
_ROOT_BUS = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_HEADER_BYTES, _STATUS_HAS_LIST = 64, 0x10
_EXTENDED_START = 0x100
_CONFIG_BYTES = 4096
PCI_EXPRESS = 0x10  # capability id, PCI Express Base Specification 7.5.3
_NETWORK_CLASS = 0x02
_BRIDGE_CLASS = 0x0604


@dataclass(frozen=True)
class PciDevice:
    """One function of a PCI device.

    Attributes:
        host: that it belongs to.
        address: domain:bus:device.function.
        path: its folder under sysfs `devices/`, links resolved: the components are the bridges above it.
    """

    host: KnobHost
    address: str
    path: Path

    @classmethod
    def find(cls, host: KnobHost, name: str) -> Self:
        """Return the device with a PCI address ("17:00.0", "0000:17:00.0") or behind a network interface ("ens1f0").

        Raises:
            UsageError: the name is neither.
            HostError: there is no such device.
        """
        match = _ADDRESS.fullmatch(name.lower())
        if match:
            address = name.lower() if match[1] else f"0000:{name.lower()}"
            return cls._at(host, address)
        if "/" in name or name in ("", ".", ".."):
            raise UsageError(f"{name!r} is neither a PCI address nor a network interface")
        below = (host.sysfs / "class/net" / name / "device").resolve()
        for folder in (below, *below.parents):
            if _ADDRESS.fullmatch(folder.name):
                return cls._at(host, folder.name)
        raise HostError(f"{name} is neither a PCI device nor a network interface on one")

    @classmethod
    def _at(cls, host: KnobHost, address: str) -> Self:
        link = host.pci_dir / "devices" / address
        if not link.exists():
            raise HostError("there is no such PCI device (any more)", address)
        return cls(host, address, link.resolve())

    @property
    def pci_class(self) -> int:
        """Return base class and sub-class, 16 bits."""
        return self._number("class") >> 8

    @property
    def identity(self) -> str:
        """Return vendor:device, four lower-case hexadecimal digits each."""
        return f"{self._number('vendor'):04x}:{self._number('device'):04x}"

    def upward(self) -> list[str]:
        """Return addresses from the root bus down to this device, itself included.

        Of several root buses in the path (a VMD domain has one inside another) the innermost counts.
        """
        parts = self.path.parts
        buses = [index for index, part in enumerate(parts) if _ROOT_BUS.fullmatch(part)]
        if not buses:
            raise HostError(f"its sysfs path has no PCI root bus: {self.path}", self.address)
        return list(parts[buses[-1] + 1 :])

    def root_port(self) -> "PciDevice":
        """Return the bridge on the root bus above this device, or this device if it is one.

        Raises:
            HostError: the device sits on the root bus itself, without a root port.
        """
        top = PciDevice.find(self.host, self.upward()[0])
        if top.pci_class != _BRIDGE_CLASS:
            raise HostError("it sits on the root bus itself, without a PCIe root port above it", self.address)
        return top

    def parent(self) -> "PciDevice":
        """Return the bridge directly above.

        Raises:
            HostError: there is none.
        """
        above = self.upward()
        if len(above) < 2:
            raise HostError("it sits on the root bus itself, without a bridge above it", self.address)
        return PciDevice.find(self.host, above[-2])

    def config(self) -> bytes:
        """Return the configuration space, as much as the kernel shows this user.

        Raises:
            HostError: the device is gone, or does not answer.
        """
        try:
            content = (self.path / "config").read_bytes()
        except OSError as error:
            raise HostError(f"its configuration space cannot be read: {error.strerror}", self.address) from error
        if content[:4] in (b"", b"\xff\xff\xff\xff"):
            raise HostError("it does not answer (configuration space reads all ones)", self.address)
        return content

    def has_capability(self, identity: int) -> bool:
        """Return whether its configuration space holds a capability."""
        return bool(capability(self.config(), identity))

    def extended_capabilities(self) -> Iterator[tuple[int, int]]:
        """Return (offset, capability id) along the extended chain (PCI Express Base Specification 7.6.3).

        Raises:
            HostError: the extended space is not readable here (not root, or a bus without it), or the chain is broken.
        """
        content = self.config()
        if len(content) < _CONFIG_BYTES:
            raise HostError(f"only {len(content)} bytes of its configuration space are readable", self.address)
        offset, seen = _EXTENDED_START, set[int]()
        while offset:
            if offset < _EXTENDED_START or offset % 4 or offset in seen:
                raise HostError(f"its extended capability chain is broken at {offset:#x}", self.address)
            seen.add(offset)
            header = int.from_bytes(content[offset : offset + 4], "little")
            if header in (0, 0xFFFFFFFF):  # no capability at all, 7.6.2
                return
            yield offset, header & 0xFFFF
            offset = header >> 20

    def read_register(self, register: str) -> int:
        """Read a register in setpci's notation ("180.l", "CAP_EXP+8.w").

        Raises:
            HostError: the device is gone or does not answer, or setpci failed.
        """
        digits = {"b": 2, "w": 4, "l": 8}[register[-1]]
        self.config()  # setpci prints all ones and exits 0 when the device is gone
        text = self._setpci(register).strip()
        if not re.fullmatch(f"[0-9a-f]{{{digits}}}", text):
            raise HostError(f"setpci gave {text!r} for {register}", self.address)
        if text == "f" * digits:
            raise HostError(f"it does not answer ({register} reads all ones)", self.address)
        return int(text, 16)

    def write_bits(self, register: str, value: int, mask: int) -> None:
        """Write the bits of `mask`; setpci reads the rest and writes it back.

        Raises:
            HostError: the device is gone, or setpci failed.
        """
        self.config()
        self._setpci(f"{register}={value:x}:{mask:x}")

    def _setpci(self, operation: str) -> str:
        return self.host.run_tool(
            ["setpci", "-A", "linux-sysfs", "-O", f"sysfs.path={self.host.pci_dir}", "-s", self.address, operation]
        )

    def _number(self, name: str) -> int:
        try:
            return int((self.path / name).read_text(), 16)
        except (OSError, ValueError) as error:
            raise HostError(f"{name} cannot be read", self.address) from error


def capability(config: bytes, identity: int) -> int:
    """Return the offset of a capability in the list of the first 256 bytes; 0 if it is not there.

    Source: PCI Local Bus Specification 3.0, 6.7.
    """
    if len(config) <= _HEADER_BYTES or not config[0x06] & _STATUS_HAS_LIST:
        return 0
    offset, seen = config[0x34] & 0xFC, set[int]()
    while offset >= _HEADER_BYTES and offset + 1 < len(config) and offset not in seen:
        seen.add(offset)
        if config[offset] == identity:
            return offset
        offset = config[offset + 1] & 0xFC
    return 0


def network_devices(host: KnobHost) -> list[PciDevice]:
    """Return all PCI functions of class network, by address; one that disappears during the search is left out."""
    found = []
    for link in sorted((host.pci_dir / "devices").glob("*")):
        try:
            device = PciDevice.find(host, link.name)
            if device.pci_class >> 8 == _NETWORK_CLASS:
                found.append(device)
        except HostError:
            continue
    return found


def access_reason(host: KnobHost) -> str:
    """Say why this user cannot write PCI configuration space; empty if it should work."""
    if shutil.which("setpci") is None:
        return "setpci is not installed (apt-get install pciutils)"
    if (mode := host.lockdown()) != "none":
        return f"the kernel is locked down ({mode}) and refuses writes to PCI configuration space"
    devices = network_devices(host)
    if not devices:
        return f"{host.pci_dir} lists no network device"
    return "" if os.access(devices[0].path / "config", os.W_OK) else "PCI configuration space needs root"
