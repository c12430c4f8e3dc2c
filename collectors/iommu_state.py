# SPDX-License-Identifier: BSD-3-Clause
"""Whether DMA is translated, per device: off, passthrough, lazy, strict, unmanaged (vfio).

Order of evidence: /sys/class/iommu (empty: no IOMMU is active, whatever the kernel log says: it prints "Default
domain type: Translated" and "lazy mode" without any IOMMU), then the type of the device's group, then the kernel
command line as explanation. The recording is `what key value` lines, so another host's can be read.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .interface import Availability
from .parsing import Origin, numbered
from .polling import PollingCollector
from .sample import Kind, Metric, Reading, Value, reading

NAME = "iommu"

_TYPES = {"DMA": "strict", "DMA-FQ": "lazy", "identity": "passthrough", "unmanaged": "unmanaged", "blocked": "blocked"}
_OPTIONS = re.compile(r"(?:intel_iommu|amd_iommu|iommu|iommu\.passthrough|iommu\.strict|vfio\.\S+?)=\S*")
_LOG = (
    (re.compile(r"DMAR: IOMMU enabled"), "log.intel_iommu", "enabled"),
    (re.compile(r"AMD-Vi: .*[Ee]nabl"), "log.amd_iommu", "enabled"),
    (re.compile(r"iommu: Default domain type: (\w+)"), "log.default_domain", ""),
    (re.compile(r"iommu: DMA domain TLB invalidation policy: (\w+) mode"), "log.invalidation", ""),
)
_STATE = Metric("translation", "", Kind.STATE)


def listing(root: Path) -> Iterator[str]:
    """The state as lines: `unit NAME`, `device BDF GROUP TYPE DRIVER`, `cmdline ...`, `unsafe_noiommu Y|N`."""
    for name in _names(root / "sys/class/iommu"):
        yield f"unit {name}"
    for device in _names(root / "sys/bus/pci/devices"):
        folder = root / "sys/bus/pci/devices" / device
        group = _target(folder / "iommu_group")
        kind = _text(root / "sys/kernel/iommu_groups" / group / "type") if group else ""
        yield f"device {device} {group or '-'} {kind or '-'} {_target(folder / 'driver') or '-'}"
    yield f"cmdline {_text(root / 'proc/cmdline')}"
    yield f"unsafe_noiommu {_text(root / 'sys/module/vfio/parameters/enable_unsafe_noiommu_mode') or '-'}"


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Reads a listing as made here, or lines of a kernel log; the log alone proves nothing and says so.

    Raises:
        ParseError: neither is found in it.
    """
    units, devices, options, log, noiommu = [], list[list[str]](), list[str](), dict[str, str](), "-"
    listed = False
    for number, text in numbered(lines, origin):
        word, _, rest = text.strip().partition(" ")
        if word == "unit":
            units.append(rest)
        elif word == "device" and len(rest.split()) == 4:
            devices.append(rest.split())
        elif word == "cmdline":
            options, listed = _OPTIONS.findall(rest), True
        elif word == "unsafe_noiommu":
            noiommu = rest
        elif (found := _log_line(text)) is not None:
            log.update(found)
        elif text.strip():
            origin.leave_out(number, f"no state of an IOMMU: {text[:60]!r}")
    if not listed and not log:
        raise origin.refuse(0, "no state of an IOMMU in it", "record with: pollscope collect iommu")
    t_ns = origin.now()
    yield reading(t_ns, "system", _system(units, options, log, noiommu, listed))
    for address, group, kind, driver in devices:
        yield reading(t_ns, f"device:{address}", _device(bool(units), group, kind, driver))


def _log_line(text: str) -> dict[str, str] | None:
    for pattern, name, value in _LOG:
        match = pattern.search(text)
        if match:
            return {name: value or match[1]}
    return None


def _system(
    units: list[str], options: list[str], log: dict[str, str], noiommu: str, listed: bool
) -> Iterator[tuple[Metric, Value, str]]:
    only_log = "the kernel log alone is no evidence: it prints these lines without any IOMMU"
    yield Metric("iommu_units", "1", Kind.STATE), len(units) if listed else None, only_log
    yield _STATE, ("off" if not units else "on") if listed else None, only_log
    yield Metric("kernel_options", "", Kind.STATE), " ".join(options) if listed else None, only_log
    yield Metric("vfio_without_iommu", "", Kind.STATE), None if noiommu == "-" else noiommu, "vfio is not loaded"
    for name, value in log.items():
        yield Metric(name, "", Kind.STATE), value, ""


def _device(active: bool, group: str, kind: str, driver: str) -> Iterator[tuple[Metric, Value, str]]:
    if not active or group == "-":
        yield _STATE, "off", ""
    else:
        yield _STATE, _TYPES.get(kind), f"group {group} is of type {kind!r} (kernel before 5.11 has none)"
    yield Metric("iommu_group", "", Kind.STATE), None if group == "-" else group, "the device is in no IOMMU group"
    yield Metric("driver", "", Kind.STATE), None if driver == "-" else driver, "no driver is bound"


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _target(link: Path) -> str:
    return link.resolve().name if link.exists() else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


class IommuState(PollingCollector):
    """Translation mode and driver of every PCI device, at start and stop."""

    name, summary = NAME, "IOMMU: off, passthrough, lazy or strict per device; drivers; kernel command line"
    parser = staticmethod(parse)
    once = True

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__()
        self._root = root

    def probe(self) -> Availability:
        units = _names(self._root / "sys/class/iommu")
        return Availability(True, f"{len(units)} IOMMU units" if units else "no active IOMMU: translation is off")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", "".join(f"{line}\n" for line in listing(self._root)).encode()
