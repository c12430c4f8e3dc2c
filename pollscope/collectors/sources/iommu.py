# SPDX-License-Identifier: BSD-3-Clause
"""Record whether DMA is translated, per device: off, passthrough, lazy, strict, unmanaged (vfio).

Order of evidence: /sys/class/iommu (empty: no IOMMU is active, whatever the kernel log says: it prints "Default
domain type: Translated" and "lazy mode" without any IOMMU), then the type of the device's group, then the kernel
command line as explanation.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import iommu
from pollscope.collectors.polling import PollingCollector
from pollscope.host.files import read_text


class IommuState(PollingCollector):
    """Translation mode and driver of every PCI device, at start and stop."""

    name, summary = "iommu", "IOMMU: off, passthrough, lazy or strict per device; drivers; kernel command line"
    notes = "state"
    parser = staticmethod(iommu.parse)
    once = True

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__()
        self._root = root

    def probe(self) -> ProbeResult:
        units = _names(self._root / "sys/class/iommu")
        return ProbeResult(True, f"{len(units)} IOMMU units" if units else "no active IOMMU: translation is off")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", "".join(f"{line}\n" for line in listing(self._root)).encode()


def listing(root: Path) -> Iterator[str]:
    """Return the state as lines: `unit NAME`, `device BDF GROUP TYPE DRIVER`, `cmdline ...`, `unsafe_noiommu Y|N`."""
    for name in _names(root / "sys/class/iommu"):
        yield f"unit {name}"
    for device in _names(root / "sys/bus/pci/devices"):
        folder = root / "sys/bus/pci/devices" / device
        group = _target(folder / "iommu_group")
        kind = read_text(root / "sys/kernel/iommu_groups" / group / "type") if group else ""
        yield f"device {device} {group or '-'} {kind or '-'} {_target(folder / 'driver') or '-'}"
    yield f"cmdline {read_text(root / 'proc/cmdline') or ''}"
    yield f"unsafe_noiommu {read_text(root / 'sys/module/vfio/parameters/enable_unsafe_noiommu_mode') or '-'}"


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _target(link: Path) -> str:
    return link.resolve().name if link.exists() else ""
