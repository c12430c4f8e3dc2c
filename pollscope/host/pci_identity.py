# SPDX-License-Identifier: BSD-3-Clause
"""Identify the card at a PCI address; addresses move when a card is added, removed or replaced.

The modules of the playbooks copy this file to hosts without pollscope, so it imports only Python's standard library.
"""

from collections.abc import Mapping
from pathlib import Path

_EXTENDED_START, _CONFIG_BYTES = 0x100, 4096
_SERIAL_NUMBER = 0x0003  # extended capability, PCI Express Base Specification 7.9.3
_PERMANENT = "0"  # addr_assign_type: the address is the hardware's (Documentation/ABI/testing/sysfs-class-net)


def pci_identity(folder: Path) -> dict[str, str]:
    """Return the readable identity of the card in a device's folder of sysfs.

    `id` (vendor:device), `subsystem` (the same of the board), `serial` (PCI Express device serial number, which needs
    root), `mac` (the hardware's, of the lowest interface, while the kernel has one).
    """
    found = {"id": _pair(folder, ""), "subsystem": _pair(folder, "subsystem_"), "serial": _serial(folder)}
    found["mac"] = _mac(folder)
    return {name: value for name, value in found.items() if value}


def differences(known: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return `WAS, now IS` for each part that both have and that differs; empty if it may be the same card."""
    return [f"{name} {known[name]}, now {found[name]}" for name in known if found.get(name, known[name]) != known[name]]


def _pair(folder: Path, prefix: str) -> str:
    parts = [_text(folder / f"{prefix}{name}").removeprefix("0x") for name in ("vendor", "device")]
    return ":".join(parts) if all(parts) else ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _serial(folder: Path) -> str:
    try:
        content = (folder / "config").read_bytes()
    except OSError:
        return ""
    offset, seen = _EXTENDED_START, set[int]()
    while len(content) == _CONFIG_BYTES and offset >= _EXTENDED_START and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(content[offset : offset + 4], "little")
        if header & 0xFFFF == _SERIAL_NUMBER:
            return content[offset + 4 : offset + 12][::-1].hex("-")
        offset = header >> 20
    return ""


def _mac(folder: Path) -> str:
    net = folder / "net"
    names = sorted(path.name for path in net.iterdir()) if net.is_dir() else []
    own = [name for name in names if _text(net / name / "addr_assign_type") == _PERMANENT]
    return _text(net / own[0] / "address") if own else ""
