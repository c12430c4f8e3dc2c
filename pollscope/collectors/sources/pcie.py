# SPDX-License-Identifier: BSD-3-Clause
"""PCIe state of every NIC and of the root port above it: link, payload sizes, relaxed ordering, DDIO; read only."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import pcie
from pollscope.collectors.polling import PollingCollector
from pollscope.host.topology import network_controllers

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class PcieState(PollingCollector):
    """Link, payload sizes, ordering and DDIO of the path of every NIC, at start and stop."""

    name, summary = "pcie", "PCIe link, MPS, MRRS, relaxed ordering and DDIO of every NIC and its root port"
    notes = "state"
    parser = staticmethod(pcie.parse)
    once = True

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__()
        self._sys = root / "sys"

    def probe(self) -> ProbeResult:
        nics = [folder.name for folder in network_controllers(self._sys)]
        return ProbeResult(bool(nics), ", ".join(nics) if nics else "no PCI device of class network")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", "".join(f"{line}\n" for line in listing(self._sys)).encode()


def listing(sys: Path) -> Iterator[str]:
    """List `device ADDRESS nic|rootport:NIC VENDOR:DEVICE HEX`; a root port is the component below pciDDDD:BB."""
    for nic in network_controllers(sys):
        yield _line(nic, "nic")
        chain = [part for part in nic.resolve().parts if _ADDRESS.fullmatch(part)]
        if len(chain) > 1:
            yield _line(nic.with_name(chain[0]), f"rootport:{nic.name}")


def _line(folder: Path, role: str) -> str:
    identity = ":".join((folder / name).read_text(encoding="ascii").strip()[2:] for name in ("vendor", "device"))
    return f"device {folder.name} {role} {identity} {(folder / 'config').read_bytes().hex()}"
